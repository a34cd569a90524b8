"""Libraries that others bring into the process.

libraries_test.py LIBRARY   the library of other_libraries.cpp, to be preloaded
"""

import os
import subprocess
import sys
import unittest

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


unittest.main()
