"""Optimizers by the names of their parameters, prefixes of names, and the loaders of torchdata."""

import unittest
import warnings

from torch_jobs import job  # first: it sets what torch reads when it is imported
from torch_cases import Case, plain, sorted_plain
from torch_models import Wide, compiled_as_it_is

import torch

import cairn
import cairn.torch

torch.set_num_threads(1)
warnings.simplefilter("ignore")  # torch's own


class Names(Case):
    def pair(self, seed=3, prefix=lambda net: net, order=(0, 1), steps=0):
        """A net, and an optimizer of two groups."""
        torch.manual_seed(seed)
        net = prefix(Wide())
        groups = [{"params": [one for name, one in net.named_parameters() if name.endswith(end)], "lr": lr}
                  for end, lr in (("weight", 0.1), ("bias", 0.02))]
        optimizer = torch.optim.AdamW([groups[one] for one in order])
        for _ in range(steps):
            net(torch.ones(2, 5)).square().sum().backward()
            optimizer.step()
        return {"model": net, "optimizer": cairn.torch.by_name(optimizer, net)}

    def known(self, state):
        """Compares by names without prefixes."""
        def bare(names):
            return {name.rpartition("_orig_mod.")[2]: one for name, one in names.items()}

        saved = state["optimizer"].state_dict()
        moments = {name: sorted_plain(*one.values()) for name, one in bare(saved["state"]).items()}
        groups = sorted((plain(one) for one in saved["param_groups"].values()), key=repr)
        return sorted_plain(bare(state["model"].state_dict())), moments, groups

    def test_groups_and_parameters_in_another_order(self):
        state, manager = self.pair(steps=2), self.manager()
        manager.save(1, state)
        self.assertIn("optimizer/state/first.weight/0/exp_avg", cairn.open(self.directory))
        for steps in (0, 1):
            new = self.pair(seed=4, order=(1, 0), steps=steps)
            self.assertNotEqual(self.known(new), self.known(state))
            manager.restore(1, new)
            self.assertEqual(self.known(new), self.known(state))
            self.assertEqual([one["lr"] for one in new["optimizer"].optimizer.param_groups], [0.02, 0.1])
        manager.save(2, self.pair())  # before its first step
        manager.restore(2, new)
        self.assertEqual(len(new["optimizer"].optimizer.state), 0)

    def test_optimizers_of_other_parameters(self):
        manager, before = self.manager(), self.pair(steps=1)
        manager.save(1, self.pair(steps=2))
        net = before["model"]
        known = self.known(before)
        kind = torch.optim.AdamW
        for parameters, code, words in [
            (net.parameters(), "invalid_argument", "'first.weight' and 'first.bias' are in one group"),
            (net.first.parameters(), "invalid_argument", "are in one group"),
            ([net.first.weight], "invalid_argument", "last.weight"),
        ]:
            state = {"model": net, "optimizer": cairn.torch.by_name(kind(parameters), net)}
            self.refuses(code, words, manager.restore, 1, state)
            self.assertEqual(self.known(before), known)
        more = torch.nn.Linear(2, 2)
        both = torch.nn.ModuleDict({"more": more})
        state = {"optimizer": cairn.torch.by_name(kind([*net.parameters(), *more.parameters()]), net, both)}
        self.refuses("invalid_argument", "in one group", manager.restore, 1, state)
        grouped = kind([{"params": [net.first.weight, net.last.weight, more.weight]},
                        {"params": [net.first.bias, net.last.bias]}])
        state = {"optimizer": cairn.torch.by_name(grouped, net, both)}
        self.refuses("not_found", "optimizer/state/more.weight", manager.restore, 1, state)
        manager.restore(1, state, may_be_missing={"optimizer/state/more.weight"})
        self.assertEqual(set(grouped.state), set(net.parameters()))
        turned = kind([{"params": [net.first.bias, net.last.bias, more.weight]},
                       {"params": [net.first.weight, net.last.weight]}])
        moments = {"step": torch.tensor(2.0), "exp_avg": torch.ones(2, 2), "exp_avg_sq": torch.ones(2, 2)}
        turned.state[more.weight] = dict(moments)
        state = {"optimizer": cairn.torch.by_name(turned, net, both)}
        manager.restore(1, state, all_may_be_missing=True)  # what it has beside them stays
        self.assertEqual(sorted_plain(turned.state[more.weight]), sorted_plain(moments))
        self.assertEqual(turned.param_groups[0]["lr"], 0.02)
        self.assertEqual(set(grouped.state), set(net.parameters()))
        self.refuses("invalid_argument", "in none of the modules", cairn.torch.by_name, grouped, net)

    def test_saved_many_times(self):
        state, manager = self.pair(steps=1), self.manager()
        for step in range(3):
            net, optimizer = state["model"], state["optimizer"].optimizer
            net(torch.ones(2, 5)).sum().backward()
            optimizer.step()
            before = manager._last[:]
            manager.save(step, state)
            self.assertEqual(before == manager._last, step > 0)
            new = self.pair(seed=5)
            manager.restore(step, new)
            self.assertEqual(self.known(new), self.known(state))

    def test_prefixes_of_names(self):
        """Prefixes that torch.compile and DistributedDataParallel add."""
        bare, manager = self.pair(steps=1), self.manager()
        manager.save(1, bare)
        compiled = self.pair(prefix=compiled_as_it_is, steps=2)
        manager.save(2, compiled)
        new = self.pair(seed=4)
        off = {"model/*": "model/_orig_mod.*", "optimizer/state/*": "optimizer/state/_orig_mod.*"}
        on = {stored: name for name, stored in off.items()}
        manager.restore(2, new, rename=off)
        self.assertEqual(self.known(new), self.known(compiled))
        new = self.pair(seed=4, prefix=compiled_as_it_is)
        manager.restore(1, new, rename=on)
        self.assertEqual(self.known(new), self.known(bare))
        # One name beside them, and the longest prefix.
        weights = {"model": {"a.b.w": torch.ones(2), "a.w": torch.zeros(2), "c": torch.full((2,), 3.0)}}
        manager.save(3, weights)
        new = {"model": {name: torch.zeros(2) for name in ("x.b.w", "x.w", "z")}}
        renames = {"model/x.*": "model/a.*", "model/x.b.*": "model/a.b.*", "model/z": "model/c"}
        manager.restore(3, new, rename=renames)
        self.assertEqual([one.tolist() for one in new["model"].values()], [[1, 1], [0, 0], [3, 3]])
        self.refuses("invalid_argument", "nothing in the state begins so", manager.restore, 3, new,
                     rename={**renames, "modle/*": "model/*"})
        self.refuses("invalid_argument", "and none at that of 'model/a.'", manager.restore, 3, new,
                     rename={"model/x.*": "model/a."})
        self.refuses("not_found", "model/y.b.w", manager.restore, 3, new, rename={"model/x.*": "model/y.*"})
        for step, into, turned in ((1, compiled, off), (2, bare, on)):
            self.refuses("invalid_argument", "Turn it round: {'model/", manager.restore, step, into, rename=turned)
        manager.save(4, {"old": 1, "new": 2})
        self.refuses("invalid_argument", "Turn it round: the state's 'x'", manager.restore, 4, {"x": 0}, rename={"old": "x"})
        self.refuses("invalid_argument", "Name keys of the state.", manager.restore, 4, {"new": 0}, rename={"nwe": "new"})


class Numbers(torch.utils.data.IterableDataset):
    """The loader goes on from where it was, by its own state."""

    def __init__(self):
        self.at = 0

    def __iter__(self):
        worker = torch.utils.data.get_worker_info()
        while self.at < 20:
            self.at += 1
            yield self.at * (worker.id + 1 if worker else 1)

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        self.at = state["at"]


def loaders_of_ranks(directory):
    """Each rank has its own part of the data."""
    from torchdata.stateful_dataloader import StatefulDataLoader

    def loader():
        data = list(range(30))
        return StatefulDataLoader(data, 2, sampler=torch.utils.data.DistributedSampler(data))

    first = loader()
    batches = iter(first)
    for _ in range(2):
        next(batches)
    with cairn.torch.Manager(directory) as manager:
        manager.save(2, {"loader": cairn.torch.per_rank(first)})
        again = loader()
        manager.restore(2, {"loader": cairn.torch.per_rank(again)})
    assert plain(list(again)) == plain(list(batches))


class Loaders(Case):
    def test_of_ranks(self):
        job(2, loaders_of_ranks, self.directory)

    def test_what_a_loader_goes_on_with(self):
        """The result is that of torchdata with the same state, without Cairn."""
        from torchdata.stateful_dataloader import StatefulDataLoader

        def loader(data, workers, shuffle):
            made = torch.Generator().manual_seed(7)
            more = {"shuffle": True, "generator": made} if shuffle else {}
            return StatefulDataLoader(data(), batch_size=3, num_workers=workers, **more)

        for number, (data, workers, shuffle) in enumerate([
            (lambda: list(range(20)), 0, True), (lambda: list(range(20)), 2, True),
            (Numbers, 0, False), (Numbers, 2, False),
        ]):
            with self.subTest(number):
                self.directory = f"{self.place}/{number}"
                manager, first = self.manager(), loader(data, workers, shuffle)
                batches = iter(first)
                for _ in range(3):
                    next(batches)
                manager.save(3, {"loader": first, "mine": cairn.torch.per_rank(first)})
                saved = first.state_dict()
                rest = plain(list(batches))
                theirs, ours, mine = (loader(data, workers, shuffle) for _ in range(3))
                theirs.load_state_dict(saved)
                manager.restore(3, {"loader": ours, "mine": cairn.torch.per_rank(mine)})
                went_on = [[plain(list(one)) for _ in range(2)] for one in (theirs, ours, mine)]  # two epochs
                self.assertEqual(went_on[0][0], rest)
                self.assertEqual(went_on, [went_on[0]] * 3)
                manager.close()


if __name__ == "__main__":
    unittest.main()
