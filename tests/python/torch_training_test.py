"""A run that is stopped and resumed is the run that was left alone and knows no Cairn, loss by loss and
state dict by state dict, to the last bit."""

import collections
import pickle
import random
import unittest
import warnings

from torch_jobs import job  # first: it sets what torch reads when it is imported
from torch_cases import Case, plain, random_states

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, distribute_tensor

import cairn
import cairn.torch

torch.set_num_threads(1)
warnings.filterwarnings("ignore", "Converting a tensor with requires_grad=True")  # LBFGS's own
OPTIMIZERS = sorted(name for name, one in vars(torch.optim).items()
                    if isinstance(one, type) and issubclass(one, torch.optim.Optimizer)
                    and one is not torch.optim.Optimizer)
STEPS = 6


class Net(torch.nn.Module):
    def __init__(self, sparse):
        super().__init__()
        self.embedding = torch.nn.Embedding(7, 6, sparse=sparse)
        self.first, self.norm = torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8)
        self.unused = torch.nn.Linear(3, 3)
        self.last, self.scale = torch.nn.Linear(8, 4), torch.nn.Parameter(torch.ones(()))

    def forward(self, tokens):
        hidden = self.norm(self.first(self.embedding(tokens))).relu()
        return self.last(torch.nn.functional.dropout(hidden, 0.3)) * self.scale


def parts_of(name):
    torch.manual_seed(3)
    net = Net(sparse=name == "SparseAdam")
    parameters = [one for one in net.parameters() if name != "Muon" or one.dim() == 2]
    if name == "SparseAdam":
        parameters = [net.embedding.weight]
    more = {"SGD": {"momentum": 0.9, "dampening": 0.1}, "RMSprop": {"momentum": 0.9, "centered": True},
            "LBFGS": {"lr": 1, "max_iter": 3, "history_size": 3}, "AdamW": {"amsgrad": True}}
    optimizer = getattr(torch.optim, name)(parameters, **{"lr": 0.01, **more.get(name, {})})
    return net, optimizer, torch.optim.lr_scheduler.MultiStepLR(optimizer, [2, 4, 4])


def trained(directory, stop, place):
    """Trains a model with each optimizer, to the end or until it has saved this step; without a
    directory there is no Cairn."""
    random.seed(1)
    np.random.seed(2)
    parts = {name: parts_of(name) for name in OPTIMIZERS}
    torch.manual_seed(5)
    losses, best = [], {"loss": None, "step": None}
    state = {name: dict(zip(("model", "optimizer", "schedule"), one)) for name, one in parts.items()}
    state.update(step=0, losses=losses, best=best, note=None)
    if directory:
        state["random"] = cairn.torch.RandomStates()
        manager = cairn.torch.Manager(directory, max_to_keep=2)
        manager.restore_latest(state)
    while True:
        if directory and state["step"] == stop:
            manager.save(stop, state)
            break
        if state["step"] == STEPS:
            break
        row = {}
        for name, (net, optimizer, schedule) in parts.items():
            tokens, noise = torch.randint(0, 7, (16,)), random.gauss(0, 1) + np.random.randn()

            def closure():
                optimizer.zero_grad()
                loss = (net(tokens) - noise).square().mean()
                loss.backward()
                return loss

            row[name] = optimizer.step(closure).item()
            schedule.step()
        losses.append(row["Adam"])
        if best["loss"] is None or row["Adam"] < best["loss"]:
            best.update(loss=row["Adam"], step=state["step"])
        state["step"] += 1
        state["note"] = [None, 3, 2**70, (1, 2.5)][state["step"] % 4]
    result = {name: [plain(part.state_dict()) for part in one] for name, one in parts.items()}
    result["rest"] = plain([losses, best, state["note"], state["step"]]), random_states()
    with open(place, "wb") as file:
        pickle.dump(result, file)
    if directory:
        manager.close()


class Training(Case):
    def trained(self, directory, stop):
        job(0, trained, directory, stop, f"{self.place}/result")
        with open(f"{self.place}/result", "rb") as file:
            return pickle.load(file)

    def test_every_optimizer(self):
        self.assertGreater(len(OPTIMIZERS), 13)
        alone = self.trained(None, None)
        for number, stops in enumerate([[], [0], [3], [1, 5]]):
            for stop in stops:
                self.trained(f"{self.directory}-{number}", stop)
            got = self.trained(f"{self.directory}-{number}", -1)
            for name, expected in alone.items():
                self.assertEqual(got[name], expected, (stops, name))

    def test_an_empty_directory_changes_nothing(self):
        class Touchy:
            """What may not be asked before a checkpoint exists."""

            def state_dict(self):
                raise AssertionError("it was asked")

            load_state_dict = state_dict

        net, optimizer, schedule = parts_of("Adam")
        net.first.weight.grad = torch.ones_like(net.first.weight)
        before = plain([net.state_dict(), optimizer.state_dict(), schedule.state_dict()]), random_states()
        state = {"net": net, "optimizer": optimizer, "schedule": schedule, "touchy": Touchy(),
                 "random": cairn.torch.RandomStates()}
        manager = self.manager()
        self.assertIsNone(manager.restore_latest(state))
        self.refuses("not_found", "7", manager.restore, 7, state)
        self.assertEqual((plain([net.state_dict(), optimizer.state_dict(), schedule.state_dict()]),
                          random_states()), before)
        self.assertTrue(torch.equal(net.first.weight.grad, torch.ones_like(net.first.weight)))
        self.assertEqual([one.grad for one in net.unused.parameters()], [None, None])

    def test_a_restore_that_fails_touches_nothing(self):
        net, optimizer, schedule = parts_of("Adam")
        self.step(net, optimizer)
        manager = self.manager()
        manager.save(1, {"net": net, "optimizer": optimizer})
        other, fresh, _ = parts_of("SGD")
        before = plain([other.state_dict(), fresh.state_dict()]), random_states()
        first = torch.optim.Adam(net.first.parameters())
        swapped = torch.optim.Adam(list(net.parameters())[::-1])
        for wrong, code, words in [
            ({"net": other, "optimizer": fresh}, "invalid_argument", "'dampening', 'momentum', 'nesterov' of its groups"),
            ({"net": other, "optimizer": torch.optim.Adam(other.parameters()), "more": 1}, "not_found", "more"),
            ({"net": other, "optimizer": first}, "invalid_argument",
             "groups of [2] parameters, and was saved with [10]"),
            ({"net": other, "optimizer": swapped}, "invalid_argument", "its parameter has the shape"),
            ({"net": other.first}, "not_found", "net/weight"),
            ({"net": torch.nn.Sequential(collections.OrderedDict(first=other.first))}, "invalid_argument",
             "'net/embedding.weight'"),
        ]:
            self.refuses(code, words, manager.restore, 1, wrong)
            self.assertEqual((plain([other.state_dict(), fresh.state_dict()]), random_states()), before)

    def step(self, net, optimizer, seed=0):
        made = torch.Generator().manual_seed(seed)
        for one in net.parameters():
            one.grad = torch.randn(one.shape, generator=made)
        for one in net.unused.parameters():
            one.grad = None
        optimizer.step()

    def test_states_that_are_there_are_filled_in_place(self):
        net, optimizer, _ = parts_of("Adam")
        self.step(net, optimizer)
        manager = self.manager()
        manager.save(1, {"optimizer": optimizer})
        expected = plain(optimizer.state_dict())
        there = optimizer.state[net.first.weight]["exp_avg"].data_ptr()
        self.step(net, optimizer, seed=1)
        manager.restore(1, {"optimizer": optimizer})
        self.assertEqual(plain(optimizer.state_dict()), expected)
        self.assertEqual(optimizer.state[net.first.weight]["exp_avg"].data_ptr(), there)
        # This optimizer has states, and the saved one had none: the restore removes them.
        _, fresh, _ = parts_of("Adam")
        manager.save(2, {"optimizer": fresh})
        manager.restore(2, {"optimizer": optimizer})
        self.assertEqual(len(optimizer.state), 0)

    def test_what_was_not_saved(self):
        manager = self.manager()
        manager.save(1, {"x": 1})
        net, optimizer, schedule = parts_of("Adam")
        self.step(net, optimizer)
        before = plain([net.state_dict(), optimizer.state_dict(), schedule.state_dict()]), random_states()
        state = {"net": net, "optimizer": optimizer, "schedule": schedule,
                 "random": cairn.torch.RandomStates(), "mine": cairn.torch.per_rank(1)}
        for key, one in state.items():
            self.refuses("not_found", key, manager.restore, 1, {key: one})
        manager.restore(1, state, all_may_be_missing=True)
        self.assertEqual((plain([net.state_dict(), optimizer.state_dict(), schedule.state_dict()]),
                          random_states()), before)

    def test_the_same_tensor_in_two_places(self):
        """An example is a learning rate that is a tensor, with its initial value."""
        net = torch.nn.Linear(2, 2)
        optimizer = torch.optim.Adam(net.parameters(), lr=torch.tensor(0.1))
        group = optimizer.param_groups[0]
        group["initial_lr"], group["other"] = group["lr"], group["lr"].clone()
        manager = self.manager()
        for step in (1, 2):
            manager.save(step, {"optimizer": optimizer})
        self.assertNotIn("optimizer/param_groups/0/initial_lr", cairn.open(self.directory))
        again = torch.optim.Adam(torch.nn.Linear(2, 2).parameters(), lr=torch.tensor(0.5))
        manager.restore(2, {"optimizer": again})
        found = again.param_groups[0]
        self.assertEqual([found[key].item() for key in ("lr", "initial_lr", "other")],
                         [group["lr"].item()] * 3)
        self.assertEqual([found[key] is found["lr"] for key in ("initial_lr", "other")], [True, False])
        group["initial_lr"] = group["lr"].clone()
        manager.save(3, {"optimizer": optimizer})
        self.assertIn("optimizer/param_groups/0/initial_lr", cairn.open(self.directory))

    def test_a_dict_of_an_optimizer_into_the_optimizer(self):
        net, optimizer, _ = parts_of("Adam")
        self.step(net, optimizer)
        manager = self.manager()
        manager.save(1, {"optimizer": optimizer.state_dict()})
        expected = plain(optimizer.state_dict())
        for again in (parts_of("Adam")[1], optimizer):
            manager.restore(1, {"optimizer": again})
            self.assertEqual({**again.state_dict(), "state": None},
                             {**optimizer.state_dict(), "state": None})
            for number, moments in again.state_dict()["state"].items():  # in the order of their keys
                there = optimizer.state_dict()["state"][number]
                self.assertEqual(plain(dict(sorted(moments.items()))), plain(dict(sorted(there.items()))))
        self.assertEqual(plain(optimizer.state_dict())[1][1], expected[1][1])

    def test_schedules(self):
        kinds = torch.optim.lr_scheduler

        def made(which):
            net = torch.nn.Linear(2, 2)
            optimizer = torch.optim.SGD(net.parameters(), lr=1, momentum=0.9)
            return optimizer, which(optimizer)

        for number, which in enumerate([
            lambda one: kinds.LambdaLR(one, lambda step: 0.9**step), lambda one: kinds.StepLR(one, 2),
            lambda one: kinds.MultiStepLR(one, [1, 3, 3]),
            kinds.ConstantLR, kinds.LinearLR, lambda one: kinds.ExponentialLR(one, 0.9), kinds.PolynomialLR,
            lambda one: kinds.CosineAnnealingLR(one, 5),
            lambda one: kinds.CosineAnnealingWarmRestarts(one, 2),
            lambda one: kinds.CyclicLR(one, 0.01, 0.1, 2),
            lambda one: kinds.OneCycleLR(one, 0.1, total_steps=20),
            lambda one: kinds.ReduceLROnPlateau(one, patience=0),
            lambda one: kinds.ChainedScheduler([kinds.StepLR(one, 2), kinds.ExponentialLR(one, 0.9)], one),
            lambda one: kinds.SequentialLR(one, [kinds.ConstantLR(one), kinds.StepLR(one, 2)], [2]),
        ]):
            def go_on(optimizer, schedule, steps):
                for step in range(steps):
                    schedule.step(*[step] * isinstance(schedule, kinds.ReduceLROnPlateau))

            self.directory = f"{self.place}/{number}"
            with warnings.catch_warnings(), cairn.torch.Manager(self.directory) as manager:
                warnings.simplefilter("ignore")  # torch misses optimizer.step()
                optimizer, schedule = made(which)
                go_on(optimizer, schedule, 3)
                manager.save(1, {"optimizer": optimizer, "schedule": schedule})
                go_on(optimizer, schedule, 4)
                again = made(which)
                manager.restore(1, {"optimizer": again[0], "schedule": again[1]})
                go_on(*again, 4)
            self.assertEqual(plain([one.state_dict() for one in again]),
                             plain([optimizer.state_dict(), schedule.state_dict()]), number)


class Small(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Linear(5, 7), torch.nn.Linear(7, 3)
        self.unused = torch.nn.Linear(2, 2)

    def forward(self, given):
        return self.last(self.first(given).relu())


class Own(torch.optim.Optimizer):
    """Its states have other shapes than its parameters."""

    def __init__(self, parameters, lr):
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self):
        for one in self.param_groups[0]["params"]:
            if one.grad is not None:
                state = self.state[one]
                if not state:
                    state["seen"] = distribute_tensor(torch.zeros(3), one.device_mesh, [Replicate()])
                state["seen"] += 1
                one.add_(one.grad, alpha=-0.01 * state["seen"].to_local().sum().item())


def sharded():
    """Models with an optimizer whose states are as the parameters, with one that makes them at once,
    and with one that has others."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    state = {}
    for name, kind in {"AdamW": torch.optim.AdamW, "Adagrad": torch.optim.Adagrad, "Own": Own}.items():
        torch.manual_seed(3)
        net = Small()
        fully_shard(net, mesh=mesh)
        net.set_force_sum_reduction_for_comms(True)
        state[name] = {"net": net, "optimizer": kind(net.parameters(), lr=0.01)}
    return state


def steps(state, first, number):
    losses = {name: [] for name in state}
    for name, one in state.items():
        for step in range(first, first + number):
            torch.manual_seed(100 * step + dist.get_rank())
            one["optimizer"].zero_grad()
            loss = one["net"](torch.randn(4, 5)).square().mean()
            loss.backward()
            one["optimizer"].step()
            losses[name].append(loss.item())
    return losses


def known(state):
    return {name: plain([part.state_dict() for part in one.values()]) for name, one in state.items()}


def placements(state):
    found = {}
    for name, one in state.items():
        for number, moments in one["optimizer"].state_dict()["state"].items():
            for key, value in moments.items():
                found[name, number, key] = str(getattr(value, "placements", None))
    return found


def save_sharded(directory):
    state = sharded()
    with cairn.torch.Manager(directory) as manager:
        manager.save(0, state)
        steps(state, 0, 2)
        manager.save(2, state)
    with open(f"{directory}-{dist.get_rank()}", "wb") as file:
        pickle.dump([known(state), placements(state), steps(state, 2, 2)], file)


def load_sharded(directory):
    with open(f"{directory}-{min(dist.get_rank(), 1)}", "rb") as file:
        values, where, losses = pickle.load(file)
    with cairn.torch.Manager(directory) as manager:
        for used in (0, 1):
            state = sharded()
            steps(state, 9, used)
            manager.restore(2, state)
            assert known(state) == values, used
            if dist.get_world_size() == 2:
                assert placements(state) == where, (where, placements(state))
                assert steps(state, 2, 2) == losses, used
        manager.restore(0, state)
    fresh = sharded()
    for name, one in fresh.items():
        assert plain(state[name]["optimizer"].state_dict()) == plain(one["optimizer"].state_dict()), name


class Sharded(Case):
    def test_sharded_optimizers(self):
        job(2, save_sharded, self.directory)
        for ranks in (2, 3):
            job(ranks, load_sharded, self.directory)


if __name__ == "__main__":
    unittest.main()
