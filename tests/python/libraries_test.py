"""Libraries that others bring into the process.

libraries_test.py LIBRARY   the library of other_libraries.cpp, to be preloaded
"""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

LIBRARY = sys.argv.pop(1)


class Libraries(unittest.TestCase):
    def test_an_allocator_beside_tensorflow(self):
        """The extension would give memory of one allocator to the other, so it is not loaded."""
        done = subprocess.run([sys.executable, "-B", "-c", "import cairn"], text=True, stderr=subprocess.PIPE,
                              env={**os.environ, "LD_PRELOAD": LIBRARY})
        self.assertEqual(done.returncode, 1, done.stderr)
        last = done.stderr.splitlines()[-1]
        self.assertTrue(last.startswith("ImportError: cairn cannot be imported after TensorFlow"), last)
        self.assertIn(os.path.basename(LIBRARY), last)
        self.assertIn("Import cairn before tensorflow", last)

    def test_mpi4py_of_another_mpi(self):
        """Its handles mean nothing to the library that Cairn calls, in which MPI is not initialized."""
        with tempfile.TemporaryDirectory() as place:
            package = Path(place) / "mpi4py"
            package.mkdir()
            (package / "__init__.py").touch()
            (package / "MPI.py").write_text("class Comm:\n    pass\n\n\ndef Is_initialized():\n    return True\n")
            program = ("import cairn\nfrom mpi4py import MPI\nif not cairn.has_mpi:\n    raise SystemExit(77)\n"
                       "try:\n    cairn.CheckpointManager('never', MPI.Comm())\n"
                       "except cairn.Error as error:\n    print(error.code, error)\n")
            path = os.pathsep.join([place, *filter(None, [os.environ.get("PYTHONPATH")])])
            done = subprocess.run([sys.executable, "-B", "-c", program], text=True, cwd=place, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": path})
        if done.returncode == 77:
            self.skipTest("this build has no MPI")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, "^unsupported mpi4py calls another MPI library than Cairn")


unittest.main()
