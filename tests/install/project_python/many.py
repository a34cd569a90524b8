"""Each rank's number, saved as one tensor.  usage: many.py DIRECTORY"""

import sys

import cairn
import numpy as np
from mpi4py import MPI

ranks = MPI.COMM_WORLD
number = np.array([ranks.rank])
state = {"n": cairn.slice(number, shape=(ranks.size,), start=(ranks.rank,))}
with cairn.CheckpointManager(sys.argv[1], ranks) as manager:
    prefix = manager.save(1, state)
    number[:] = -1
    manager.restore(1, state)
assert number[0] == ranks.rank, number
if ranks.rank == 0:
    assert cairn.open(prefix)["n"][...].tolist() == list(range(ranks.size))
    print("many works")
