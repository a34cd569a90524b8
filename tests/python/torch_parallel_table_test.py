"""Each kind of parallel model on 1 to 4 ranks: a run that saves, and the one that goes on from its
checkpoint on as many ranks, are the run without Cairn, loss by loss, to the last bit; on another number
of ranks all that was saved comes back."""

import copy
import os
import pickle
import random
import shutil
import tempfile
import traceback
import unittest
import unittest.mock
import warnings

from torch_jobs import job  # first: it sets what torch reads when it is imported
from torch_cases import plain, random_states, sorted_plain
from torch_models import COMPILED, KINDS, Experts, compiled_as_it_is, meta

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

import cairn.torch

torch.set_num_threads(1)
warnings.simplefilter("ignore")  # torch's own
STEPS, STOP = 3, 2
SIZES = 1, 2, 3, 4
TOGETHER = 4  # rows in one job, which shares what torch remembers of operators


# All ranks have the same batches.
SAME_DATA = {"tensor parallel", "FSDP and tensor parallel", "experts", "pipeline"}
# These optimizers are saved by the names of parameters; of the last two each rank has its own
# parameters.
BY_NAME = {"FSDP of layers", "compiled DDP", "tied", "experts", "pipeline"}
OPTIMIZERS = {
    "AdamW": lambda parameters: torch.optim.AdamW(parameters, lr=0.01),
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9),
    "Adafactor": lambda parameters: torch.optim.Adafactor(parameters, lr=0.01),
    "AdamW capturable": lambda parameters: torch.optim.AdamW(parameters, lr=0.01, capturable=True),
}
# DDP forms other buckets after its first step, and again after a restart: sums of three or more
# ranks are then in another order, with or without Cairn. So these are compared with torch's own
# restart.
REBUILT = {"compiled DDP", "LoRA DDP", "tied DDP"}
REFUSED = {("FSDP", "AdamW capturable"): "If capturable=True"}  # what torch says, without Cairn


# -- runs -------------------------------------------------------------------------------------------


class Run:
    """Trains from the beginning, or goes on from the checkpoint in a directory, as a new program."""

    def __init__(self, kind, optimizer, resumes=False):
        torch.manual_seed(9 if resumes else 3)
        make = {**KINDS, **COMPILED}[kind]
        self.net = make(resumes) if make is meta else make()
        trained = [one for one in self.net.parameters() if one.requires_grad]
        self.optimizer = OPTIMIZERS[optimizer](trained)
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, 6)
        seed = 100 * resumes + (0 if kind in SAME_DATA else dist.get_rank())
        for seeds in (random.seed, np.random.seed, torch.manual_seed):
            seeds(seed)
        if kind == "pipeline":
            stage = PipelineStage(self.net, dist.get_rank(), dist.get_world_size(), torch.device("cpu"))
            self.pipeline = ScheduleGPipe(stage, 4, loss_fn=lambda made, _: (made - 1).square().mean())
        saved = cairn.torch.by_name(self.optimizer, self.net) if kind in BY_NAME else self.optimizer
        self.state = {"model": self.net, "optimizer": saved, "schedule": self.schedule,
                      "random": cairn.torch.RandomStates(), "losses": [], "step": 0}

    def train(self, end):
        for _ in range(self.state["step"], end):
            x = torch.randn(4, 5) * random.gauss(1, 0.1) * np.random.normal(1, 0.1)
            self.optimizer.zero_grad()
            loss = self.loss(x)
            self.optimizer.step()
            self.schedule.step()
            dist.all_reduce(loss)
            self.state["losses"].append(loss.item())
            self.state["step"] += 1
        return self

    def loss(self, x):
        if hasattr(self, "pipeline"):
            losses = []
            rank, last = dist.get_rank(), dist.get_world_size() - 1
            self.pipeline.step(*[x] * (rank == 0), losses=losses, **({"target": x} if rank == last else {}))
            return sum(losses, torch.zeros(()))
        loss = (self.net(x).float() - 1).square().mean()
        loss.backward()
        if isinstance(self.net, Experts):
            for one in self.net.gate.parameters():
                dist.all_reduce(one.grad)
        return loss.detach()

    def whole(self):
        """The parameters and their states of all ranks together, by names that do not depend on
        the number of ranks."""
        names = {one: name for name, one in self.net.named_parameters()}
        order = [names[one] for group in self.optimizer.param_groups for one in group["params"]]
        saved = self.optimizer.state_dict()
        moments = {order[number]: sorted_plain(one) for number, one in saved["state"].items()}
        mine = {name: plain(one) for name, one in self.net.state_dict().items()}, moments
        each = [None] * dist.get_world_size()
        dist.all_gather_object(each, mine)
        model, state = together = {}, {}
        for whole, name, one in ((whole, *item) for rank in each for whole, part in zip(together, rank)
                                 for item in part.items()):
            assert whole.setdefault(name, one) == one, f"ranks have different {name}"
        groups = [{**one, "params": None} for one in saved["param_groups"]]
        rest = plain([groups, self.schedule.state_dict(), self.state["losses"], self.state["step"]])
        return model, state, rest

    def result(self):
        return self.whole(), random_states()


def same(got, expected, what):
    if got != expected:
        raise AssertionError(f"{what}: {differences(got, expected, '')[:5]}")


def differences(got, expected, path):
    if isinstance(got, dict) and isinstance(expected, dict):
        both = sorted(got.keys() | expected.keys(), key=str)
        pairs = [(key, got.get(key), expected.get(key)) for key in both]
    elif isinstance(got, (list, tuple)) and type(got) is type(expected) and len(got) == len(expected) < 100:
        pairs = zip(range(len(got)), got, expected)
    else:
        return [] if got == expected else [f"{path}: {got!r:.60} for {expected!r:.60}"]
    return [found for key, one, other in pairs for found in differences(one, other, f"{path}/{key}")]


def each(function, place, rows):
    """Returns all rows that fail, on all ranks."""
    failed = []
    for kind, optimizer, sizes in rows:
        if dist.get_world_size() not in sizes:
            continue
        try:
            function(f"{place}/{kind}-{optimizer}-", kind, optimizer, sizes)
        except Exception:
            failed.append(f"{kind}, {optimizer}, {sizes}\n{traceback.format_exc()}")
    if failed:
        raise AssertionError("\n\n".join(failed))


def save_and_go_on(place, kind, optimizer, sizes):
    size = dist.get_world_size()
    if (kind, optimizer) in REFUSED:
        try:
            Run(kind, optimizer).train(STEPS)
        except (AssertionError, NotImplementedError, RuntimeError, ValueError) as error:
            assert REFUSED[kind, optimizer] in str(error), error
            return
        raise AssertionError("torch takes it")
    run = Run(kind, optimizer).train(STOP)
    then = run.whole()
    alone = run.train(STEPS).result()
    leave(f"{place}{size}.whole", then)
    with cairn.torch.Manager(f"{place}{size}") as manager:
        run = Run(kind, optimizer)
        assert manager.restore_latest(run.state) is None
        save = manager.save_async if (sizes.index(size) + len(kind)) % 2 else manager.save
        save(STOP, run.train(STOP).state)
        same(run.train(STEPS).result(), alone, "the run that saves")
    expected = copied(kind, optimizer, size % 2).result() if kind in REBUILT else alone
    with cairn.torch.Manager(f"{place}{size}") as manager:
        run = Run(kind, optimizer, resumes=True)
        assert manager.restore_latest(run.train(size % 2).state) is not None  # also into one that has made a step
        same(run.whole(), then, "what comes back")
        same(run.train(STEPS).result(), expected, "the run that goes on")


def copied(kind, optimizer, used):
    """A run that goes on from copies of the state dicts of a stopped run, without Cairn."""
    before = Run(kind, optimizer).train(STOP)
    parts = [before.net, before.optimizer, before.schedule]
    saved = [copy.deepcopy(one.state_dict()) for one in parts], before.state["random"].state_dict()
    after = Run(kind, optimizer, resumes=True).train(used)
    for one, state in zip([after.net, after.optimizer, after.schedule], saved[0]):
        one.load_state_dict(state)
    after.state["random"].load_state_dict(saved[1])
    after.state.update(losses=before.state["losses"], step=STOP)
    return after.train(STEPS)


def go_on_elsewhere(place, kind, optimizer, sizes):
    if (kind, optimizer) in REFUSED:
        return
    for one in sizes:
        if one == dist.get_world_size():
            continue
        with open(f"{place}{one}.whole", "rb") as file:
            then = pickle.load(file)
        again = f"{place}{one}-again"
        is_saved = os.path.exists(again)  # by another number of ranks, which had restored it
        run = Run(kind, optimizer, resumes=True)
        with cairn.torch.Manager(again if is_saved else f"{place}{one}") as manager:
            assert manager.restore_latest(run.state) is not None
        same(run.whole(), then, f"from {one} ranks")
        dist.barrier()
        if not is_saved:
            with cairn.torch.Manager(again) as manager:
                manager.save(STOP, run.state)
    run.train(STEPS)


def compiled_and_resumed(place):
    each(save_and_go_on, f"{place}/", [("DDP by inductor", "AdamW", (2,))])
    assert torch._inductor.metrics.generated_kernel_count > 0


def leave(path, value):
    if dist.get_rank() == 0:
        with open(path, "wb") as file:
            pickle.dump(value, file)


class Table(unittest.TestCase):
    def test_every_kind(self):
        rows = [(kind, "AdamW", SIZES) for kind in KINDS]
        pairs = [(1, 2), (2, 4), (3, 1), (4, 3), (2, 3), (4, 1)]
        for number, kind in enumerate(KINDS):
            for other, optimizer in enumerate(("SGD", "Adafactor")):
                rows.append((kind, optimizer, pairs[(number + 3 * other) % len(pairs)]))
        rows += [(kind, optimizer, (2, 3)) for kind, optimizer in REFUSED]
        compiled_as_it_is(torch.nn.Identity())  # loads for all ranks what it needs
        for first in range(0, len(rows), TOGETHER):
            self.run_all(rows[first : first + TOGETHER])
        ran = sum(len(sizes) ** 2 for kind, optimizer, sizes in rows if (kind, optimizer) not in REFUSED)
        print(f"{ran} lines", *(f"refused without Cairn: {', '.join(row)}: {why}" for row, why in REFUSED.items()),
              sep="\n")

    def test_code_that_inductor_compiled(self):
        if shutil.which("g++") is None:
            self.skipTest("inductor has no g++")
        with tempfile.TemporaryDirectory() as place:
            with unittest.mock.patch.dict(os.environ, TORCHINDUCTOR_CACHE_DIR=f"{place}/cache"):
                job(2, compiled_and_resumed, place)
        print("1 line of inductor")

    def run_all(self, rows):
        sizes = sorted({size for *_, sizes in rows for size in sizes})
        with tempfile.TemporaryDirectory() as place, self.subTest(rows):
            for function in (save_and_go_on, go_on_elsewhere):
                for size in sizes:
                    job(size, each, function, place, rows)


if __name__ == "__main__":
    unittest.main()
