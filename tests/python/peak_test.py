"""How much memory a call takes beyond that of the process before it: its arrays, and at most 96
MiB."""

import unittest

import numpy as np

import cairn
from case import Case
from peaks import LARGE_BYTES, SMALL_TENSORS, Peaks


class Peak(Peaks, Case):
    def saves_and_restores(self, state, size, promised):
        manager = self.manager(max_to_keep=2)

        def hold(name, made, call):
            return self.hold(name, made, call, promised)

        def save_async(step):
            manager.save_async(step, state)
            manager.wait()

        hold("the first save", 0, lambda: manager.save(1, state))
        hold("another save", 0, lambda: manager.save(2, state))
        hold("the first save_async", size, lambda: save_async(3))  # the pool, which is made once
        hold("another save_async", 0, lambda: save_async(4))
        manager.close()
        manager = self.manager(max_to_keep=2)
        hold("restore", 0, lambda: manager.restore(4, state))
        hold("restore_latest", 0, lambda: manager.restore_latest(state))
        empty = dict.fromkeys(state)
        hold("restore of arrays that it makes", size, lambda: manager.restore(4, empty))
        opened = hold("open", 0, lambda: cairn.open(f"{self.directory}/ckpt-4"))
        return opened, empty

    def test_of_a_large_array(self):
        state = {"u": np.ones(LARGE_BYTES // 8)}
        opened, made = self.saves_and_restores(state, LARGE_BYTES, 96 << 20)
        self.assertEqual(made["u"][-1], 1)
        made.clear()
        state.clear()
        array = self.hold("an array of an open checkpoint", LARGE_BYTES, lambda: np.asarray(opened["u"]))
        self.assertEqual(array[-1], 1)

    def test_of_many_small_arrays(self):
        state = {f"layer{i // 10}/weight{i % 10}": np.ones(4) for i in range(SMALL_TENSORS)}
        # Each tensor takes some memory beyond its bytes.
        _, made = self.saves_and_restores(state, 0, max(96 << 20, 2560 * SMALL_TENSORS))
        self.assertEqual(made["layer0/weight0"].tolist(), [1] * 4)


if __name__ == "__main__":
    unittest.main()
