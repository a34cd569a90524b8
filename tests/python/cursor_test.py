"""Cursors, without torch and on one process; torch_cursor_test.py has ranks."""

import collections.abc
import pickle
import tempfile
import types
import unittest
import warnings

import cairn
import numpy as np
from says import says


def batches_of(sampler, size, drop_last=False):
    """A loader like torch's, with the attributes that a cursor uses."""
    return Loader(types.SimpleNamespace(sampler=sampler, batch_size=size, drop_last=drop_last))


class Loader:
    AHEAD = 3  # batches

    def __init__(self, batch_sampler):
        self.batch_sampler = batch_sampler

    def __iter__(self):
        drawn = []
        numbers = iter(self.batch_sampler.sampler)
        while True:
            while len(drawn) <= self.AHEAD:
                batch = [one for _, one in zip(range(self.batch_sampler.batch_size), numbers)]
                if len(batch) < self.batch_sampler.batch_size * (1 if self.batch_sampler.drop_last else 0):
                    batch = []
                if not batch:
                    break
                drawn.append(batch)
            if not drawn:
                return
            yield drawn.pop(0)


class CursorTest(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.manager = cairn.CheckpointManager(place.name)
        self.addCleanup(self.manager.close)

    def restored(self, cursor):
        self.manager.restore_latest({"data": cursor})
        return cursor

    def test_takes_and_goes_on(self):
        whole = cairn.Cursor(1000, seed=5).take(1000).samples
        self.assertEqual(sorted(whole), list(range(1000)))
        data = cairn.Cursor(1000, seed=5)
        batch = data.take(300)
        self.assertEqual((batch.samples.dtype, batch.epoch, batch.first), (np.int64, 0, 0))
        data.take(9)
        data.done(batch)
        self.manager.save(1, {"model": {"data": data}, "step": 1})
        other = cairn.Cursor(1000)
        state = {"model": {"data": other}, "step": 0}
        self.manager.restore_latest(state)
        self.assertIs(state["model"]["data"], other)
        self.assertEqual((state["step"], other.seed, other.left, len(other)), (1, 5, 700, 700))
        np.testing.assert_array_equal(other.take(1000).samples, whole[300:])
        other.done(700)
        other.next_epoch()
        self.assertEqual((other.epoch, len(other), other.waiting, other.batches(300)), (1, 1000, 0, 4))

    def test_gives_each_rank_its_part(self):
        parts = [cairn.Cursor(11, types.SimpleNamespace(rank=rank, size=3), shuffle=False) for rank in range(3)]
        self.assertEqual([list(one) for one in parts], [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10]])
        group = types.SimpleNamespace(rank=lambda: 2, size=lambda: 3)  # of torch
        self.assertEqual(list(cairn.Cursor(11, group, shuffle=False)), [8, 9, 10])
        self.assertIn("rank 2 of 3, epoch 0, 0 left", repr(parts[2]))

    def test_a_loop_that_saves(self):
        """Batches that a loader has drawn ahead are not lost, nor is the batch that was used
        before the save."""
        data = cairn.Cursor(20, seed=1)
        used = []
        for batch in data.over(batches_of(data, 3)):
            used += batch
            data.done()
            if len(used) == 9:
                self.manager.save(1, {"data": data})
            if len(used) == 15:
                break
        again = self.restored(cairn.Cursor(20))
        rest = [one for batch in again.over(batches_of(again, 3)) for one in batch]
        self.assertEqual(sorted(used[:9] + rest), list(range(20)))
        self.assertEqual(rest[:6], used[9:])
        self.assertEqual(again.epoch, 1)

    def test_what_the_loop_has_in_hand_is_not_done(self):
        data = cairn.Cursor(10, shuffle=False)
        for batch in data.over(batches_of(data, 3)):
            if batch[0] == 3:
                self.manager.save(1, {"data": data})  # before it is used
        self.assertEqual(self.restored(data).take(1).samples.tolist(), [3])

    def test_a_loop_that_is_left_begins_where_it_was(self):
        data = cairn.Cursor(10, shuffle=False)
        for batch in data.over(batches_of(data, 4)):
            if batch[0] == 4:
                data.done()
                break
        self.assertEqual([batch for batch in data.over(batches_of(data, 4))], [[8, 9]])
        self.assertEqual((data.epoch, data.waiting), (1, 0))
        self.assertEqual([len(one) for one in data.over(batches_of(data, 4))], [4, 4, 2])

    def test_what_a_loader_drops_is_dropped(self):
        data = cairn.Cursor(10, shuffle=False)
        self.assertEqual(len(list(data.over(batches_of(data, 4, drop_last=True)))), 2)
        self.assertEqual((data.epoch, data.left), (1, 10))

    def test_all_ranks_get_as_many_batches(self):
        for rank, wanted in ((0, [[0, 1], [2]]), (1, [[3, 4], None])):
            data = cairn.Cursor(5, types.SimpleNamespace(rank=rank, size=2), shuffle=False)
            self.assertEqual(list(data.over(batches_of(data, 2), even=True)), wanted)
            self.assertEqual(data.epoch, 1)
            loop = data.over(batches_of(data, 2), even=True)
            next(loop)
            data.done()
            self.assertEqual(list(data.over(batches_of(data, 2), even=True)), wanted[1:])

    def test_errors_and_a_warning(self):
        data = cairn.Cursor(10)
        first, second = data.take(2), data.take(2)
        with self.assertRaisesRegex(cairn.Error, says("in the order in which they were taken")):
            data.done(second)
        data.done(first)
        with self.assertRaisesRegex(cairn.Error, says("3 samples are done, and 2 were taken")):
            data.done(3)
        for make, words in ((lambda: cairn.Cursor(0), "a cursor has 0 samples"),
                            (lambda: cairn.Cursor("ten"), "samples is a str"),
                            (lambda: cairn.Cursor(3, seed=-1), "its seed is -1"),
                            (lambda: cairn.Cursor(3, types.SimpleNamespace(rank=3, size=3)), "rank 3 of 3"),
                            (lambda: pickle.dumps(data), "cannot be copied or pickled"),
                            (lambda: next(data.over(batches_of([1], 3))), "the loader has another sampler")):
            with self.assertRaisesRegex(cairn.Error, words):
                make()
        self.manager.save(1, {"data": data})
        with self.assertRaisesRegex(cairn.Error, says("a cursor over 12 samples is restored from one over 10")):
            self.restored(cairn.Cursor(12))
        lonely = cairn.Cursor(3)
        self.assertEqual(len(list(lonely)), 3)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            self.assertEqual(len(list(lonely)), 3)
        self.assertIn(says("nothing says that they were used"), str(told[0].message))

    def test_stands_in_lists_and_under_two_keys(self):
        data = cairn.Cursor(10, shuffle=False)
        data.done(data.take(4))
        self.manager.save(1, {"all": [data, {"x": np.ones(2)}], "same": data})
        again = cairn.Cursor(10)
        self.manager.restore_latest({"all": [again, {"x": np.zeros(2)}], "same": again})
        self.assertEqual(again.take(1).samples.tolist(), [4])

    def test_is_an_iterable_with_a_length(self):
        self.assertIsInstance(cairn.Cursor(3), collections.abc.Iterable)
        self.assertIsInstance(cairn.Cursor(3), collections.abc.Sized)


if __name__ == "__main__":
    unittest.main()
