"""The lock of the interpreter is free while bytes move: a call that is held in the middle of its input
or output is let go by another thread of Python, which needs the lock for that.

lock_test.py LIBRARY   the library of held_calls.cpp, which this program preloads
"""

import ctypes
import os
import sys
import threading
import unittest

LIBRARY = sys.argv.pop(1)
if os.environ.get("LD_PRELOAD") != LIBRARY:
    os.execve(sys.executable, [sys.executable, "-B", __file__, LIBRARY, *sys.argv[1:]],
              {**os.environ, "LD_PRELOAD": LIBRARY})

import cairn  # noqa: E402
import numpy as np  # noqa: E402
from case import BUILT, Case, bits, values  # noqa: E402

hold_next = ctypes.PyDLL(LIBRARY).hold_next
hold_next.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_int]


class Lock(Case):
    def held(self, name, call, *given):
        """Runs a call in the middle of which a Python thread does something; returns its result."""
        told, tell = os.pipe()
        wait, go = os.pipe()
        done = []

        def other():
            os.read(told, 1)
            for number in range(1000):
                done.append({"number": number})
            os.write(go, b"!")

        thread = threading.Thread(target=other)
        thread.start()
        hold_next(name, tell, wait)
        result = call(*given)
        thread.join()
        self.assertEqual(len(done), 1000)
        for one in [told, tell, wait, go]:
            os.close(one)
        return result

    def test_of_a_manager(self):
        for form in BUILT:
            with self.subTest(form):
                self.directory += form
                manager = self.manager(store={"format": form})
                state = {"u": values("float64", (50_000,))}
                prefix = self.held(b"pwrite", manager.save, 1, state)
                self.held(b"fsync", manager.save, 2, state)
                new = {"u": np.zeros(50_000)}
                self.held(b"pread", manager.restore, 1, new)
                self.assertEqual(bits(new["u"]), bits(state["u"]))
                new = {"u": np.zeros(50_000)}
                self.held(b"pread", manager.restore_latest, new)
                self.assertEqual(bits(new["u"]), bits(state["u"]))
                tensor = self.held(b"pread", cairn.open, prefix)["u"]
                array = self.held(b"pread", tensor.__getitem__, slice(3, 40_000))
                self.assertEqual(bits(array), bits(state["u"][3:40_000]))

    def test_while_a_save_is_on_its_way(self):
        manager = self.manager()
        state = {"u": values("float64", (50_000,))}

        def handle_waits(step):
            handle = manager.save_async(step, state)
            handle.wait_written()

        def waits(step):
            manager.save_async(step, state)
            manager.wait()

        def closes(step):
            manager.save_async(step, state)
            manager.close()

        for step, call in enumerate([handle_waits, waits, closes]):
            self.held(b"pwrite", call, step)
        self.assertEqual(self.manager().restore_latest({"u": np.zeros(50_000)})["step"], 2)


if __name__ == "__main__":
    unittest.main()
