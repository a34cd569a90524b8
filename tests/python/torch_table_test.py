"""Each optimizer of torch in its variants, each schedule: a run that saves and the run that goes on from
its checkpoint are the run without Cairn, loss by loss and state dict by state dict, to the last bit."""

import copy
import inspect
import random
import tempfile
import unittest
import warnings

import torch_jobs  # first: it sets what torch reads when it is imported
from torch_cases import Case, plain

import numpy as np
import torch
from torch.optim import lr_scheduler as schedules

import cairn.torch

torch.set_num_threads(1)
warnings.simplefilter("ignore")  # torch's own: of schedules before steps, of learning rates
STEPS, STOP = 5, 2
CASTS = {"NAdam", "ASGD"}  # torch loads all their numbers in the dtype of their parameter, here bfloat16
FLAGS = ("foreach", "fused", "amsgrad", "maximize", "nesterov", "centered", "decoupled_weight_decay", "differentiable")


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Linear(4, 5), torch.nn.Linear(5, 4)
        self.unused, self.frozen = torch.nn.Linear(2, 2), torch.nn.Parameter(torch.ones(4), requires_grad=False)
        self.tied, self.scale, self.empty = self.last, *map(torch.nn.Parameter, (torch.ones(()), torch.ones(0, 2)))
        self.coarse = torch.nn.Parameter(torch.ones(4, dtype=torch.bfloat16))

    def forward(self, x):
        return self.tied(torch.tanh(self.first(x))) * self.scale * self.coarse + self.frozen


class Half:
    """A function with numbers in its state."""

    def __init__(self):
        self.factor = 0.9

    def __call__(self, epoch):
        return self.factor**epoch


def optimizers():
    """Yields (name, a function that makes one for a net)."""
    for name, kind in sorted(vars(torch.optim).items()):
        if not isinstance(kind, type) or not issubclass(kind, torch.optim.Optimizer) or name in ("Optimizer", "SparseAdam"):
            continue
        of_matrices = name == "Muon"  # takes nothing else

        def make(net, kind=kind, of_matrices=of_matrices, cut=False, **options):
            parameters = [one for one in net.parameters() if not of_matrices or one.dim() == 2 and one.numel() > 0]
            if cut:
                parameters = [{"params": parameters[:2], "lr": 0.02}, {"params": parameters[2:]}]
            return kind(parameters, **{"lr": 0.01, **options})

        yield name, make
        takes = inspect.signature(kind).parameters
        for flag in (one for one in FLAGS if one in takes):
            more = {"momentum": 0.9} if flag == "nesterov" else {}
            yield f"{name} {flag}", lambda net, make=make, flag=flag, more=more: make(net, **{flag: True}, **more)
        if "momentum" in takes:
            yield f"{name} momentum", lambda net, make=make: make(net, momentum=0.9)
        yield f"{name} tensor lr", lambda net, make=make: make(net, lr=torch.tensor(0.01))
        yield f"{name} groups", lambda net, make=make: make(net, cut=True)


SCHEDULES = {
    "LambdaLR": lambda it: schedules.LambdaLR(it, Half()),
    "MultiplicativeLR": lambda it: schedules.MultiplicativeLR(it, Half()),
    "StepLR": lambda it: schedules.StepLR(it, 2, 0.5),
    "MultiStepLR": lambda it: schedules.MultiStepLR(it, [1, 3, 3]),
    "ConstantLR": lambda it: schedules.ConstantLR(it, 0.3, 3),
    "LinearLR": schedules.LinearLR,
    "ExponentialLR": lambda it: schedules.ExponentialLR(it, 0.9),
    "CosineAnnealingLR": lambda it: schedules.CosineAnnealingLR(it, 5),
    "CosineAnnealingWarmRestarts": lambda it: schedules.CosineAnnealingWarmRestarts(it, 3),
    "PolynomialLR": lambda it: schedules.PolynomialLR(it, 6),
    "ReduceLROnPlateau": lambda it: schedules.ReduceLROnPlateau(it, patience=0),
    "CyclicLR": lambda it: schedules.CyclicLR(it, 0.001, 0.1, step_size_up=2),
    "CyclicLR exp_range": lambda it: schedules.CyclicLR(it, 0.001, 0.1, mode="exp_range", gamma=0.9),
    "CyclicLR with a function": lambda it: schedules.CyclicLR(it, 0.001, 0.1, step_size_up=2, scale_fn=Half()),
    "OneCycleLR": lambda it: schedules.OneCycleLR(it, 0.1, total_steps=20),
    "SequentialLR": lambda it: schedules.SequentialLR(
        it, [schedules.LinearLR(it), schedules.ExponentialLR(it, 0.9)], [2]),
    "ChainedScheduler": lambda it: schedules.ChainedScheduler(
        [schedules.LinearLR(it), schedules.ExponentialLR(it, 0.9)]),
    "SWALR": lambda it: torch.optim.swa_utils.SWALR(it, 0.05, anneal_epochs=3),
}


def sgd(net):
    return torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)


class Run:
    """Trains from the beginning, or goes on from the checkpoint in its directory, as a new program."""

    def __init__(self, optimizer, schedule, seed=0):
        for seeds in (random.seed, np.random.seed, torch.manual_seed):
            seeds(seed)
        self.net = Net()
        self.optimizer = optimizer(self.net)
        self.schedule = schedule(self.optimizer) if schedule else None
        self.average = torch.optim.swa_utils.AveragedModel(self.net)
        self.state = {"net": self.net, "optimizer": self.optimizer, "average": self.average, "losses": [], "step": 0,
                      "random": cairn.torch.RandomStates()}
        if schedule:
            self.state["schedule"] = self.schedule

    def train(self, end):
        for _ in range(self.state["step"], end):
            x = torch.randn(6, 4) * random.gauss(1, 0.1) * np.random.normal(1, 0.1)

            def closure():
                self.optimizer.zero_grad()
                loss = self.net(x).square().mean()
                loss.backward()
                return loss

            loss = self.optimizer.step(closure).item()
            self.average.update_parameters(self.net)
            if self.schedule:
                takes_loss = isinstance(self.schedule, schedules.ReduceLROnPlateau)
                self.schedule.step(*([loss] if takes_loss else []))
            self.state["losses"].append(loss)
            self.state["step"] += 1
        return self

    def result(self):
        parts = [self.net, self.optimizer, self.average, self.schedule]
        return self.state["losses"], [plain(self.own(part.state_dict())) for part in parts if part]

    def own(self, value):
        """Objects in a state dict are compared by their attributes."""
        if isinstance(value, Half):
            return vars(value)
        if isinstance(value, dict):
            return {name: self.own(one) for name, one in value.items()}
        return value


def copied(optimizer, schedule):
    """A run that goes on from copies of the state dicts of a stopped run, without Cairn."""
    before = Run(optimizer, schedule).train(STOP)
    saved = {name: part.state_dict() for name, part in before.state.items() if hasattr(part, "load_state_dict")}
    saved = {name: one if name == "random" else copy.deepcopy(one) for name, one in saved.items()}
    after = Run(optimizer, schedule, seed=1)
    for name, one in saved.items():
        after.state[name].load_state_dict(one)
    after.state.update(losses=before.state["losses"], step=STOP)
    return after


class Table(Case):
    def rows(self, rows):
        ran, refused, cast = 0, {}, []
        for name, optimizer, schedule in rows:
            with self.subTest(name):
                try:
                    alone = Run(optimizer, schedule).train(STEPS).result()
                except (RuntimeError, ValueError, NotImplementedError) as error:
                    refused[name] = str(error)  # by torch, without Cairn
                    continue
                with tempfile.TemporaryDirectory() as directory:
                    with cairn.torch.Manager(directory) as manager:
                        run = Run(optimizer, schedule)
                        self.assertIsNone(manager.restore_latest(run.state))
                        manager.save(STOP, run.train(STOP).state)
                        self.assertEqual(run.train(STEPS).result(), alone)
                    with cairn.torch.Manager(directory) as manager:
                        run = Run(optimizer, schedule, seed=1)
                        manager.restore_latest(run.state)
                        result = run.train(STEPS).result()
                if result != alone:  # then torch's own load_state_dict does not bring back what was saved
                    self.assertEqual(result, copied(optimizer, schedule).train(STEPS).result())
                    cast.append(name)
                ran += 1
        print(f"{ran} lines", *(f"refused without Cairn: {name}: {why}" for name, why in refused.items()),
              f"not brought back by torch itself: {', '.join(cast)}", sep="\n")
        self.assertLessEqual({name.split()[0] for name in cast}, CASTS)
        return ran, refused

    def test_every_optimizer(self):
        ran, refused = self.rows((name, make, None) for name, make in optimizers())
        self.assertGreater(ran, 70)
        self.assertLess(set(refused), {
            "LBFGS groups", *(f"{name} differentiable" for name, _ in optimizers())}, refused)

    def test_every_schedule(self):
        ran, refused = self.rows((name, sgd, schedule) for name, schedule in SCHEDULES.items())
        self.assertEqual((ran, refused), (len(SCHEDULES), {}))
        ours = {kind.__name__ for kind in vars(schedules).values() if isinstance(kind, type)
                and issubclass(kind, schedules.LRScheduler) and not kind.__name__.startswith("_")}
        self.assertEqual({name.split()[0] for name in SCHEDULES} | {"LRScheduler"}, ours | {"SWALR"})


if __name__ == "__main__":
    unittest.main()
