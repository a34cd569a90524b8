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
from torch_cases import Case, plain, random_states

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
from torch.distributed.nn.functional import all_reduce
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

import cairn
import cairn.torch

torch.set_num_threads(1)
warnings.simplefilter("ignore")  # torch's own
STEPS, STOP = 3, 2
SIZES = 1, 2, 3, 4
TOGETHER = 4  # rows in one job, which shares what torch remembers of operators
WIDTH = 12


# -- models -----------------------------------------------------------------------------------------


class Net(torch.nn.Module):
    """Of layers that are used, and one that never has a gradient."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = torch.nn.Linear(5, WIDTH), torch.nn.LayerNorm(WIDTH)
        self.unused, self.last = torch.nn.Linear(2, 3), torch.nn.Linear(WIDTH, 5)

    def forward(self, x):
        hidden = self.norm(self.first(x)).relu()
        return self.last(torch.nn.functional.dropout(hidden, 0.2))


class Wide(torch.nn.Module):
    """What tensor parallelism cuts."""

    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Linear(5, WIDTH), torch.nn.Linear(WIDTH, 5)

    def forward(self, x):
        return self.last(self.first(x).relu())


class Checkpointed(Net):
    def forward(self, x):
        return checkpoint(super().forward, x, use_reentrant=False)


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.inner = torch.nn.Linear(5, 7, bias=False), torch.nn.Linear(7, 7)
        self.head = torch.nn.Linear(5, 7, bias=False)
        self.head.weight = self.words.weight

    def forward(self, x):
        return self.inner(self.words(x)).tanh() @ self.head.weight


class Adapted(torch.nn.Module):
    """A frozen layer with an adapter, as LoRA has it."""

    def __init__(self, base, rank=2):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = torch.nn.Linear(base.in_features, rank, bias=False)
        self.up = torch.nn.Linear(rank, base.out_features, bias=False)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


class Experts(torch.nn.Module):
    """Each rank has some of them, under keys that the others have not, and a gate that all have."""

    def __init__(self):
        super().__init__()
        self.gate = torch.nn.Linear(5, WIDTH)
        self.experts = torch.nn.ModuleDict()
        for number in range(WIDTH):  # all draw the same numbers
            one = torch.nn.Linear(5, 5)
            if number % dist.get_world_size() == dist.get_rank():
                self.experts[str(number)] = one

    def forward(self, x):
        weights = self.gate(x).softmax(-1)
        mine = sum(weights[:, int(name), None] * one(x).tanh() for name, one in self.experts.items())
        return all_reduce(mine)


class Layers(torch.nn.Module):
    """Some of those that a pipeline has."""

    def __init__(self, numbers):
        super().__init__()
        made = [torch.nn.Linear(5, 5) for _ in range(4)]
        self.layers = torch.nn.ModuleDict({str(number): made[number] for number in numbers})

    def forward(self, x):
        for one in self.layers.values():
            x = one(x).tanh()
        return x


# -- kinds: each makes (what is saved as the model, a function from a batch to its output) -----------


def cut(net, mesh=None, **options):
    fully_shard(net, mesh=mesh or init_device_mesh("cpu", (dist.get_world_size(),)), **options)
    net.set_force_sum_reduction_for_comms(True)
    return net


def fsdp(kind=Net, **options):
    return cut(kind(), **options)


def ddp(kind=Net, unused=True):
    return DistributedDataParallel(kind(), find_unused_parameters=unused)


def grid():
    """(replicas, shards)"""
    return (2, dist.get_world_size() // 2) if dist.get_world_size() % 2 == 0 else (1, dist.get_world_size())


def hsdp():
    return cut(Net(), init_device_mesh("cpu", grid(), mesh_dim_names=("replicas", "shards")))


def by_layers():
    net = Net()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in (net.first, net.last):
        cut(layer, mesh)
    return cut(net, mesh)


PLAN = {"first": ColwiseParallel, "last": RowwiseParallel}


def tensor_parallel():
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    return parallelize_module(Wide(), mesh, {name: how() for name, how in PLAN.items()})


def both():
    mesh = init_device_mesh("cpu", grid(), mesh_dim_names=("data", "tensor"))
    net = parallelize_module(Wide(), mesh["tensor"], {name: how() for name, how in PLAN.items()})
    return cut(net, mesh["data"])


def compiled(make):
    return compiled_as_it_is(make(Wide))


def compiled_as_it_is(net):
    """With the names that it would have, and not compiled, which takes a while."""
    torch.compiler.set_stance("force_eager")
    return torch.compile(net, backend="eager")


def by_inductor():
    torch.compiler.set_stance("default")
    torch._inductor.config.compile_threads = 1  # in this process
    return torch.compile(ddp(Wide, False))


def wrapped():
    net = Net()
    net.norm = checkpoint_wrapper(net.norm)
    return net


def adapted():
    net = Wide()
    net.first, net.last = Adapted(net.first), Adapted(net.last)
    return net


def filled(net, seed):
    """Gives numbers to what has memory only."""
    made = torch.Generator().manual_seed(seed)
    for one in net.parameters():
        full = torch.randn(one.shape, generator=made)
        one.detach().copy_(distribute_tensor(full, one.device_mesh, one.placements))
    return net


def meta(resumes):
    with torch.device("meta"):
        net = Net()
    net = cut(net).to_empty(device="cpu")
    return net if resumes else filled(net, 3)


def stages():
    size, rank = dist.get_world_size(), dist.get_rank()
    return Layers([number for number in range(4) if number * size // 4 == rank])


KINDS = {
    "DDP": ddp,
    "FSDP": fsdp,
    "FSDP of layers": by_layers,
    "FSDP mixed precision": lambda: fsdp(mp_policy=MixedPrecisionPolicy(torch.bfloat16, torch.float32)),
    "FSDP offloaded": lambda: fsdp(offload_policy=CPUOffloadPolicy(pin_memory=False)),
    "HSDP": hsdp,
    "tensor parallel": tensor_parallel,
    "FSDP and tensor parallel": both,
    "compiled DDP": lambda: compiled(lambda kind: ddp(kind, False)),
    "compiled FSDP": lambda: compiled(fsdp),
    "activation checkpointing": lambda: fsdp(Checkpointed),
    "activation checkpointing by a wrapper": lambda: fsdp(wrapped),
    "activation checkpointing DDP": lambda: ddp(Checkpointed),
    "LoRA": lambda: fsdp(adapted),
    "LoRA DDP": lambda: ddp(adapted, False),
    "meta": meta,
    "tied": lambda: fsdp(Tied),
    "tied DDP": lambda: ddp(Tied, False),
    "experts": Experts,
    "pipeline": stages,
}
COMPILED = {"DDP by inductor": by_inductor}  # which takes a while
# All ranks have the same batches.
SAME_DATA = {"tensor parallel", "FSDP and tensor parallel", "experts", "pipeline"}
# Their optimizers are saved by the names of parameters; of the last two each rank has parameters of its own.
BY_NAME = {"FSDP of layers", "compiled DDP", "tied", "experts", "pipeline"}
OPTIMIZERS = {
    "AdamW": lambda parameters: torch.optim.AdamW(parameters, lr=0.01),
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9),
    "Adafactor": lambda parameters: torch.optim.Adafactor(parameters, lr=0.01),
    "AdamW capturable": lambda parameters: torch.optim.AdamW(parameters, lr=0.01, capturable=True),
}
# DDP forms other buckets after its first step, and again after a restart: sums of three and more ranks are
# of another order, with or without Cairn. So these are held to torch's own restart.
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
        """What all ranks have together, by names that do not depend on their number."""
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


def sorted_plain(state):
    return {name: plain(one) for name, one in sorted(state.items())}


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
    """All that fail, on all ranks."""
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
    """A run that goes on from copies of the state dicts of one that has stopped, without Cairn."""
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
        """By names without prefixes."""
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
        """As torch.compile and DistributedDataParallel make them."""
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
        self.refuses("invalid_argument", "and none in 'model/a.'", manager.restore, 3, new,
                     rename={"model/x.*": "model/a."})
        self.refuses("not_found", "model/y.b.w", manager.restore, 3, new, rename={"model/x.*": "model/y.*"})


class Numbers(torch.utils.data.IterableDataset):
    """Goes on from where it was, by a state of its own."""

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
        """Is what torchdata makes of the same state without Cairn."""
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
