"""Models for the tests of cairn.torch, and the kinds of parallel models that are made of them."""

import torch_jobs  # first: it sets what torch reads when it is imported

import torch
import torch.distributed as dist
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
from torch.distributed.nn.functional import all_reduce
from torch.distributed.tensor import distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

WIDTH = 12


# -- models -----------------------------------------------------------------------------------------


class Net(torch.nn.Module):
    """Some layers are used, and one never gets a gradient."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = torch.nn.Linear(5, WIDTH), torch.nn.LayerNorm(WIDTH)
        self.unused, self.last = torch.nn.Linear(2, 3), torch.nn.Linear(WIDTH, 5)

    def forward(self, x):
        hidden = self.norm(self.first(x)).relu()
        return self.last(torch.nn.functional.dropout(hidden, 0.2))


class Wide(torch.nn.Module):
    """A model that tensor parallelism can cut."""

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
    """A frozen layer with an adapter, as in LoRA."""

    def __init__(self, base, rank=2):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = torch.nn.Linear(base.in_features, rank, bias=False)
        self.up = torch.nn.Linear(rank, base.out_features, bias=False)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


class Experts(torch.nn.Module):
    """Each rank has some of the experts, under keys that the others lack, and all have the gate."""

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
    """One rank's stage of a pipeline."""

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
    """Fills parameters that have only memory with numbers."""
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
