"""Under mpiexec: saves on as many ranks as there are, or restores what others saved.

ranks.py save|restore DIRECTORY FORMAT WRITER
"""

import sys

import cairn
import numpy as np
from mpi4py import MPI

SHAPE = (23, 7)
comm = MPI.COMM_WORLD


def rows(ranks, rank):
    return SHAPE[0] * rank // ranks, SHAPE[0] * (rank + 1) // ranks


def expected():
    return np.arange(SHAPE[0] * SHAPE[1], dtype=np.float64).reshape(SHAPE) / 3


def state(fill):
    low, high = rows(comm.size, comm.rank)
    halo = np.full((high - low + 2, SHAPE[1] + 2), -1.0)
    if fill:
        halo[1:-1, 1:-1] = expected()[low:high]
    inside = halo[1:-1, 1:-1]
    return halo, {
        "u": cairn.slice(inside, SHAPE, (low, 0)),
        "weights": np.arange(5.0) if fill else np.zeros(5),
        "step": 12 if fill else 0,
        "words": ["one", "zwölf"] if fill else ["", ""],
    }


def check():
    new_halo, new = state(False)
    with cairn.CheckpointManager(directory, comm, **options) as manager:
        report = manager.restore_latest(new)
    low, high = rows(comm.size, comm.rank)
    assert report["step"] == 12
    assert new_halo[1:-1, 1:-1].tobytes() == expected()[low:high].tobytes()
    assert (new_halo[0] == -1).all() and (new_halo[:, 0] == -1).all()
    assert new["weights"].tolist() == [0, 1, 2, 3, 4]
    assert (new["step"], new["words"]) == (12, ["one", "zwölf"])


what, directory, form, writer = sys.argv[1:5]
options = {"store": {"format": form}, "write": {"writer": writer}}
if what == "save":
    _, full = state(True)
    with cairn.CheckpointManager(directory, comm, **options) as manager:
        manager.save(11, full)
        handle = manager.save_async(12, full)
        manager.wait()
        assert handle.committed
        # What only one rank gives wrongly, all are told.
        if comm.size > 1:
            bad = dict(full, weights=np.arange(5.0) + (comm.rank == 1))
            try:
                manager.save(13, bad)
                raise SystemExit("replicas that differ were saved")
            except cairn.Error as error:
                assert error.code == "disagreement" and error.tensor == "weights", error
            bad = dict(full, words=np.array([None]) if comm.rank == 1 else ["", ""])
            try:
                manager.save(14, bad)
                raise SystemExit("objects were saved")
            except cairn.Error as error:
                assert error.code == "invalid_argument" and error.tensor == "words", error
                assert error.rank == 1, error.rank
            try:
                manager.save(15, full, **({"metrik": 1} if comm.rank == 1 else {}))
                raise SystemExit("an unknown option was taken")
            except cairn.Error as error:
                assert error.code == "invalid_argument" and "metric" in str(error), error
    freed = comm.Dup()
    freed.Free()
    try:
        cairn.CheckpointManager(directory, freed)
        raise SystemExit("a communicator that was freed was taken")
    except cairn.Error as error:
        assert error.code == "invalid_argument", error
else:
    check()
if comm.rank == 0:
    print("right")
