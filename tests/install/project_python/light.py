"""What a package without MPI and HDF5 can do, and what it says about the rest. usage: light.py
DIRECTORY"""

import os
import sys

import cairn
import numpy as np


def refused(words, call):
    try:
        call()
    except cairn.Error as error:
        assert error.code == "unsupported" and isinstance(error, NotImplementedError), error
        assert words in error.way_out, error
    else:
        raise AssertionError(words)


def saved(directory, **options):
    with cairn.CheckpointManager(directory, **options) as manager:
        manager.save(1, {"u": np.ones(3)})


FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../cli/without_holders-7.h5")
place = sys.argv[1]
assert not cairn.has_mpi
refused("apt-get install libopenmpi-dev", lambda: saved(place + "/mpi", comm=object()))
refused("libhdf5-openmpi-dev", lambda: saved(place + "/hdf5", store={"format": "hdf5"}))
refused("libhdf5-openmpi-dev", lambda: cairn.restore_hdf5(FILE, {"u": np.ones(3)}))
saved(place + "/run")
assert cairn.open(place + "/run")["u"][...].tolist() == [1, 1, 1]
print("light works")
