"""One contestant of scripts/bench --faces: the same saves in Python. See lab/bench/faces/save.c."""

import sys

import cairn
import numpy as np
from mpi4py import MPI

directory, mine = sys.argv[1], int(sys.argv[2]) // 8
comm = MPI.COMM_WORLD
first = mine * comm.rank
state = {"u": cairn.slice(np.arange(first, first + mine, dtype=np.float64), (mine * comm.size,), (first,))}
with cairn.CheckpointManager(directory + "/run", comm, keep={"last": 1}, write={"skip_unchanged": "off"}) as manager, \
        open(f"{directory}/go.{comm.rank}") as go:
    for step, line in enumerate(go, 1):
        if line == "end\n":
            break
        comm.Barrier()
        begin = MPI.Wtime()
        manager.save(step, state)
        slowest = comm.reduce(MPI.Wtime() - begin, MPI.MAX)
        if comm.rank == 0:
            print(f"{slowest:.9f}", flush=True)
