"""What the tests of the Python package have in common."""

import os
import signal
import tempfile
import unittest

import cairn
import numpy as np

# What a shell starts in the background ignores interrupts, and so does all that it starts.
signal.signal(signal.SIGINT, signal.default_int_handler)

BUILT = os.environ.get("CAIRN_PYTHON_FORMATS", "bundle,hdf5").split(",")


def bits(array):
    return np.ascontiguousarray(array).tobytes()


def values(dtype, shape, seed=1):
    count = int(np.prod(shape))
    raw = np.random.default_rng(seed).integers(0, 256, count * np.dtype(dtype).itemsize, np.uint8)
    if dtype == "bool":
        raw %= 2
    return raw.view(dtype).reshape(shape)


class Case(unittest.TestCase):
    def setUp(self):
        self._scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self._scratch.cleanup)
        self.directory = os.path.join(self._scratch.name, "run")

    def manager(self, **options):
        manager = cairn.CheckpointManager(self.directory, **options)
        self.addCleanup(manager.close)
        return manager

    def refuses(self, code, words, call, *given, **named):
        with self.assertRaises(cairn.Error) as caught:
            call(*given, **named)
        self.assertEqual(caught.exception.code, code, str(caught.exception))
        self.assertIn(words, str(caught.exception))
        return caught.exception
