"""Training loops over DataLoaders, with workers and without, that are killed in the middle and go on on
other numbers of ranks: each sample once an epoch."""

import collections
import glob
import os
import signal
import tempfile
import time
import unittest

from torch_jobs import LIMIT_SECONDS, job  # first: it sets what torch reads when it is imported

import torch
import torch.distributed as dist
from torch.utils.data import BatchSampler, DataLoader, TensorDataset

import cairn
import cairn.torch
from says import says

SAMPLES, EPOCHS, SIZE = 203, 3, 4


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return SAMPLES

    def __getitem__(self, number):
        return number


def trained(place, run, workers):
    """Before each save, writes to `run.rank` which samples it has used at which step."""
    data = cairn.torch.Cursor(SAMPLES, seed=4)
    loader = DataLoader(Data(), batch_size=SIZE, sampler=data, num_workers=workers, generator=torch.Generator())
    if run % 2 == 1:
        loader = DataLoader(Data(), batch_sampler=BatchSampler(data, SIZE, False), num_workers=workers)
    manager = cairn.torch.Manager(f"{place}/run", max_to_keep=2)
    state = {"data": data, "weights": torch.zeros(3), "step": 0}
    manager.restore_latest(state)
    with open(f"{place}/{run}.{data.rank}", "w", buffering=1) as file:
        while data.epoch < EPOCHS:
            for batch in data.over(loader, even=True):
                state["step"] += 1
                state["weights"] += 1
                samples = [] if batch is None else batch.tolist()
                print(state["step"], data.epoch, *samples, file=file)
                data.done()
                manager.save(state["step"], state)
    manager.close()


def started(size, function, *arguments):
    """Starts ranks in a process group of their own, with all their children; returns its number."""
    leader = 0
    store = tempfile.mktemp()
    children = []
    for rank in range(size):
        child = os.fork()
        if child == 0:
            try:
                os.setpgid(0, leader)
                torch.set_num_threads(1)
                dist.init_process_group("gloo", store=dist.FileStore(store, size), rank=rank, world_size=size)
                function(*arguments)
            finally:
                os._exit(1)
        leader = leader or child
        try:
            os.setpgid(child, leader)
        except PermissionError:
            pass
        children.append(child)
    return leader, children


def lines_of(path):
    with open(path) as file:
        return [list(map(int, line.split())) for line in file if line.endswith("\n")]


class Loops(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.place = place.name

    def killed(self, run, size, workers, steps):
        leader, children = started(size, trained, self.place, run, workers)
        note = f"{self.place}/{run}.0"
        end = time.monotonic() + LIMIT_SECONDS
        while not os.path.exists(note) or len(lines_of(note)) < steps:
            self.assertLess(time.monotonic(), end, "it does nothing")
            time.sleep(0.002)
        os.killpg(leader, signal.SIGKILL)
        for child in children:
            os.waitpid(child, 0)
        found = cairn.steps(f"{self.place}/run")
        return found[-1] if found else 0

    def test_each_sample_once_an_epoch(self):
        last, kept = 0, {}
        jobs = [(2, 0, 9), (3, 3, 7), (3, 0, 8), (1, 3, 20), (2, 3, 11), (5, 0, 6)]
        for run, (size, workers, steps) in enumerate(jobs):
            last = kept[run] = self.killed(run, size, workers, steps)
        run = len(jobs)
        job(2, trained, self.place, run, 3)
        kept[run] = cairn.steps(f"{self.place}/run")[-1]
        self.assertGreater(kept[run], last)
        used = collections.Counter()
        for path in glob.glob(f"{self.place}/[0-9]*.[0-9]"):
            number = int(os.path.basename(path).split(".")[0])
            for step, epoch, *samples in lines_of(path):
                if step <= kept[number]:  # what came later is lost, and done again
                    used.update((epoch, sample) for sample in samples)
        wanted = collections.Counter((epoch, sample) for epoch in range(EPOCHS) for sample in range(SAMPLES))
        self.assertEqual(used - wanted, collections.Counter(), "more than once")
        self.assertEqual(wanted - used, collections.Counter(), "not at all")

    def test_the_same_order_on_as_many_ranks(self):
        def order(place, stop):
            data = cairn.torch.Cursor(50, seed=4)
            loader = DataLoader(TensorDataset(torch.arange(50)), batch_size=3, sampler=data, num_workers=3)
            manager = cairn.torch.Manager(f"{place}/{stop}", max_to_keep=1)
            state = {"data": data, "step": 0}
            manager.restore_latest(state)
            with open(f"{place}/{stop}.{data.rank}", "a") as file:
                while data.epoch < 2:
                    for batch, in data.over(loader):
                        state["step"] += 1
                        print(data.epoch, *batch.tolist(), file=file)
                        data.done()
                        if stop and state["step"] % stop == 0:
                            manager.save(state["step"], state)
                            manager.close()
                            return
            manager.close()

        job(2, order, self.place, 0)
        for _ in range(3):  # also from one epoch into the next
            job(2, order, self.place, 4)
        for rank in range(2):
            wanted, found = (lines_of(f"{self.place}/{stop}.{rank}") for stop in (0, 4))
            self.assertEqual(wanted[:12], found)

    def test_the_state_is_not_taken_apart_at_each_save(self):
        data = cairn.torch.Cursor(10, shuffle=False)
        state = {"data": data, "weights": torch.zeros(3)}
        with cairn.torch.Manager(self.place) as manager:
            for step in range(1, 4):
                data.done(data.take(2))
                manager.save(step, state)
                self.assertEqual(len(manager._last), 1)
                first = manager._last[0] if step == 1 else first
                self.assertIs(manager._last[0], first)
            again = cairn.torch.Cursor(10)
            manager.restore_latest({"data": again, "weights": torch.zeros(3)})
            self.assertEqual(again.take(1).samples.tolist(), [6])
            manager.save(9, {"data": again, "weights": torch.zeros(3)})
            self.assertIsNot(manager._last[0], first)

    def test_groups_and_errors(self):
        def places():
            group = dist.new_group([0, 1]), dist.new_group([2])
            mine = group[dist.get_rank() // 2]
            of_all, of_group = cairn.torch.Cursor(9), cairn.torch.Cursor(9, mine)
            assert (of_all.rank, of_all.ranks) == (dist.get_rank(), 3)
            assert (of_group.rank, of_group.ranks) == (dist.get_rank() % 2, 2 if dist.get_rank() < 2 else 1)

        job(3, places)
        data = cairn.torch.Cursor(9)
        with self.assertRaisesRegex(cairn.Error, says("the loader has another sampler")):
            next(data.over(DataLoader(Data(), batch_size=2, shuffle=True)))
        single = DataLoader(Data(), batch_size=None, sampler=data)
        self.assertEqual(len(list(data.over(single))), 9)
        self.assertEqual(len(DataLoader(Data(), batch_size=2, sampler=data)), 5)
        self.assertEqual(data.epoch, 1)
        os.environ["WORLD_SIZE"] = "2"
        self.addCleanup(os.environ.pop, "WORLD_SIZE")
        with self.assertRaisesRegex(cairn.Error, says("torch.distributed is not initialised")):
            cairn.torch.Cursor(9)


if __name__ == "__main__":
    unittest.main(warnings="ignore")  # of more workers than processors
