"""Saves that leave arrays where they are until release()."""

import gc
import weakref

import numpy as np
from case import BUILT, Case, bits, values


class Released(Case):
    def state(self, seed):
        wide = np.zeros((300, 402))
        wide[:, 1:-1] = values("int32", (300, 400), seed)
        return {"u": values("int32", (500, 600), seed), "halo": wide[:, 1:-1], "turned": wide.T.copy().T,
                "step": seed, "text": f"step {seed}", "small": values("int32", (10,), seed)}

    def restored(self, manager, step):
        new = self.state(0)
        manager.restore(step, new)
        return {key: bits(value) if isinstance(value, np.ndarray) else value for key, value in new.items()}

    def expected(self, seed):
        return {key: bits(value) if isinstance(value, np.ndarray) else value
                for key, value in self.state(seed).items()}

    def test_after_the_release_arrays_may_change(self):
        for form in BUILT:
            with self.subTest(form):
                self.directory += form
                manager = self.manager(store={"format": form}, max_to_keep=0)
                for step in range(1, 6):
                    state = self.state(step)
                    handle = manager.save_async(step, state, until="released")
                    self.assertEqual(handle.blocked_because, "")
                    state["step"], state["text"], state["small"][:] = -1, "none", -1  # copied at the call
                    handle.release()
                    state["u"][:] = -1
                    state["turned"][:] = -1
                manager.wait()
                for step in range(1, 6):
                    self.assertEqual(self.restored(manager, step), self.expected(step))

    def test_arrays_live_until_the_release(self):
        manager = self.manager()
        manager.save_async(1, self.state(1), until="released")  # only the save refers to them
        gc.collect()
        manager.wait()
        self.assertEqual(self.restored(manager, 1), self.expected(1))
        state = self.state(2)
        gone = weakref.ref(state["u"])
        handle = manager.save_async(2, state, until="released")
        del state
        handle.release()
        gc.collect()
        self.assertIsNone(gone())
        manager.wait()
        self.assertEqual(self.restored(manager, 2), self.expected(2))

    def test_a_wrong_word(self):
        manager = self.manager()
        self.refuses("invalid_argument", "released", manager.save_async, 1, self.state(1), until="release")
        handle = manager.save_async(1, self.state(1), until="captured")
        handle.release()  # does nothing
        manager.wait()
        self.assertTrue(handle.committed)
