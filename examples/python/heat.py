"""Heat in a plate, on any number of ranks: python heat.py DIRECTORY [STEPS]

    mpirun -n 3 python examples/python/heat.py run 400

Kill it, start it again on as many ranks as you like: it goes on from its newest checkpoint, and
ends with the same field, bit for bit.
"""

import hashlib
import sys

import cairn
import numpy as np
from mpi4py import MPI

SHAPE = (96, 64)
comm = MPI.COMM_WORLD
directory = sys.argv[1]
steps = int(sys.argv[2]) if len(sys.argv) > 2 else 400

# This rank's rows, with one row of each neighbour above and below, and a rim of cold cells.
first = SHAPE[0] * comm.rank // comm.size
last = SHAPE[0] * (comm.rank + 1) // comm.size
field = np.zeros((last - first + 2, SHAPE[1] + 2))
inside = field[1:-1, 1:-1]
above = comm.rank - 1 if comm.rank > 0 else MPI.PROC_NULL
below = comm.rank + 1 if comm.rank + 1 < comm.size else MPI.PROC_NULL

# A hot square in the middle.
rows = np.arange(first, last)
inside[(rows >= 32) & (rows < 64), 16:48] = 100.0

state = {
    "heat": cairn.described(
        cairn.slice(inside, SHAPE, (first, 0)), units="K", dimensions=["y", "x"]
    ),
    "step": 0,
}

manager = cairn.CheckpointManager(
    directory, comm, max_to_keep=3, stop=True, when={"interval": {"steps": 20}}
)
report = manager.restore_latest(state)
if comm.rank == 0 and report:
    print(f"going on from step {report['step']}", flush=True)

while state["step"] < steps:
    comm.Sendrecv(field[1].copy(), above, recvbuf=field[-1], source=below)
    comm.Sendrecv(field[-2].copy(), below, recvbuf=field[0], source=above)
    # A new array is made and copied back into the old one, to which the state refers.
    around = field[:-2, 1:-1] + field[2:, 1:-1] + field[1:-1, :-2] + field[1:-1, 2:]
    inside += 0.2 * (around - 4 * inside)
    state["step"] += 1

    if manager.should_save(state["step"]):
        manager.save_async(state["step"], state)
    reason = manager.should_stop()
    if reason:
        manager.save(state["step"], state)
        manager.close()
        if comm.rank == 0:
            print(f"stopped at step {state['step']}: {reason[0]}", flush=True)
        sys.exit(reason[1])

manager.wait()
if all(one["step"] != steps for one in manager.steps()):
    manager.save(steps, state)
manager.close()
if comm.rank == 0:
    heat = cairn.open(directory)["heat"][...]
    print(f"step {steps}: {hashlib.sha256(heat.tobytes()).hexdigest()}")
