"""Ten things that people do with Cairn, as the pages of docs/howto show them.

usage: mpirun -np N python main.py DIRECTORY bundle|hdf5     (again and again, with any N)
"""

import sys

import cairn
import numpy as np
from mpi4py import MPI

SHAPE = (12, 4)  # of a plate
comm = MPI.COMM_WORLD
first = SHAPE[0] * comm.rank // comm.size
last = SHAPE[0] * (comm.rank + 1) // comm.size  # this rank has the rows from first to last
expected = np.arange(48.0).reshape(SHAPE)[first:last]


def save(directory, step):
    u = expected.copy()

    state = {"step": step, "u": cairn.slice(u, SHAPE, (first, 0))}

    with cairn.CheckpointManager(directory, comm, max_to_keep=3) as manager:
        manager.save(step, state)  # durable on return, or all ranks have raised


def restore(directory):
    u = np.zeros((last - first, SHAPE[1]))
    state = {"step": 0, "u": cairn.slice(u, SHAPE, (first, 0))}

    with cairn.CheckpointManager(directory, comm) as manager:
        report = manager.restore_latest(state)  # None: nothing there; arrays are filled in place
    if report and comm.rank == 0:
        print(f"goes on after step {state['step']}")

    assert not report or (u == expected).all()
    return state["step"]


def asynchronous(directory):
    u = np.zeros(1000)
    state = {"u": cairn.slice(u, (1000 * comm.size,), (1000 * comm.rank,))}

    with cairn.CheckpointManager(directory, comm, when={"interval": {"steps": 5}}) as manager:
        for step in range(1, 21):
            u += 1  # u may be changed while its copy is written
            if manager.should_save(step):
                manager.save_async(step, state)
        manager.wait()  # what is in flight is committed before the job ends

    assert cairn.steps(directory)[-1] == 20


def halos(directory):
    u = np.zeros((last - first + 2, SHAPE[1] + 2))  # one halo cell on each side
    state = {"u": cairn.slice(u[1:-1, 1:-1], SHAPE, (first, 0))}  # a view: nothing is copied

    with cairn.CheckpointManager(directory, comm) as manager:
        manager.save(1, state)


def particles(directory, total):
    position = cairn.ragged(np.zeros((total if comm.rank == 0 else 0, 3)))  # this rank's particles
    state = {"position": position}
    with cairn.CheckpointManager(directory, comm) as manager:
        manager.save(1, state)
        manager.restore(1, state)  # dealt evenly, on any number of ranks: position.array is new

    assert total // comm.size <= len(position.array) <= total // comm.size + 1


def look(prefix):
    checkpoint = cairn.open(prefix)  # a bundle or HDF5, by Cairn or TensorFlow
    for key, tensor in checkpoint.items():
        print(f"{key}: {tensor.dtype_name} {tensor.shape}")
    rows = checkpoint["u"][2:5]  # reads and checks what it needs

    assert rows.shape == (3, 4)


def convert(directory, form):
    u = np.zeros(SHAPE)
    state = {"u": u}

    # "hdf5": of what is saved from now on
    with cairn.CheckpointManager(directory, comm, store={"format": form}) as manager:
        report = manager.restore_latest(state)  # both formats are restored
        manager.save(report["step"] + 1, state)


def under_slurm(directory):
    state = {"step": 0}

    # stop=True: SIGTERM, SIGUSR1, the job's time limit
    options = {"stop": True, "when": {"interval": {"steps": 1000}}}
    with cairn.CheckpointManager(directory, comm, **options) as manager:
        manager.restore_latest(state)
        while state["step"] < 100000:
            state["step"] += 1
            if state["step"] == 3:
                manager.request_stop()  # here in place of a signal
            if manager.should_save(state["step"]):  # also before a stop
                manager.save(state["step"], state)
            reason = manager.should_stop()
            if reason:
                return reason[1]  # for sys.exit
    return 0


def policies(directory):
    part = np.zeros((1, 1000), dtype="float32")
    state = {key: cairn.slice(part, (comm.size, 1000), (comm.rank, 0)) for key in ("a", "b")}

    policy = cairn.MaxShardSizePolicy(3000)  # bytes a file
    with cairn.CheckpointManager(directory, comm, store={"policy": policy}) as manager:
        manager.save(1, state)

    files = {file for key in ("a", "b") for _, _, file, _, _ in cairn.open(directory)[key].slices}
    assert len(files) >= 3 * comm.size


def errors(directory):
    state = {"step": 0}
    with cairn.CheckpointManager(directory, comm) as manager:
        try:
            manager.restore(77, state)
        except cairn.Error as error:  # the same one on all ranks
            if error.code != "not_found":
                raise
            if comm.rank == 0:
                print(error.problem, error.way_out, sep="\n")


directory, form = sys.argv[1:]
step = restore(f"{directory}/shared") + 1
save(f"{directory}/shared", step)
own = f"{directory}/python-{step}"
asynchronous(f"{own}/asynchronous")
halos(f"{own}/halos")
particles(f"{own}/particles", 10)
look(f"{own}/halos/ckpt-1")
convert(f"{own}/halos", form)
assert under_slurm(f"{own}/slurm") == 76
policies(f"{own}/policies")
errors(f"{own}/errors")
if comm.rank == 0:
    print(f"Python saved step {step}")
