"""A job in Python for scripts/campaign languages; what it does, and what its lines say, stands in repeat.c.

python repeat.py DIRECTORY LAST blocking|async|hdf5
"""

import sys

import cairn
import numpy as np
from mpi4py import MPI

SHAPE, MOST_TURNS = (48, 60), 5
comm = MPI.COMM_WORLD
directory, last, way = sys.argv[1], int(sys.argv[2]), sys.argv[3]
first, end = (SHAPE[0] * rank // comm.size for rank in (comm.rank, comm.rank + 1))
u = np.zeros((end - first, SHAPE[1]))
state = {"step": 0, "u": cairn.slice(u, SHAPE, (first, 0))}


def tell(line):
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def again(call):
    for turn in range(MOST_TURNS):
        try:
            return call()
        except cairn.Error as error:
            tell(f"failed {comm.rank} [{error.code}] {error}")
            # A commit that is said to be there is not made again.
            if error.code == "already_exists" and turn > 0:
                return None
    comm.Abort(3)


def values(step):
    y, x = np.mgrid[first:end, 0 : SHAPE[1]]
    return step * 10000.0 + y * SHAPE[1] + x


def save():
    u[...] = values(state["step"])
    if way == "async":
        manager.save_async(state["step"], state)
        u[...] = 0  # a copy is made
        manager.wait()
    else:
        manager.save(state["step"], state)


options = {"store": {"format": "hdf5"}} if way == "hdf5" else {}
manager = again(lambda: cairn.CheckpointManager(directory, comm, max_to_keep=2, **options))
report = again(lambda: manager.restore_latest(state))
if report:
    if comm.rank == 0:
        tell(f"restored step {report['step']}")
    if state["step"] != report["step"] or not np.array_equal(u, values(state["step"])):
        tell(f"wrong {comm.rank} values")
while state["step"] < last:
    state["step"] += 10 - state["step"] % 10
    again(save)
    if comm.rank == 0:
        tell(f"saved step {state['step']}")
again(manager.close)
comm.Barrier()
if comm.rank == 0:
    tell("done")
tell(f"over {comm.rank}")
