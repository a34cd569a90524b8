"""State dicts: what torch has in them beyond what any state of cairn may have."""

import collections.abc

import random

import numpy as np
import torch
from torch.distributed.tensor import DTensor

from ..leaves import Binding, _error
from .placement import boxes_of
from .tensors import dtype_name, in_memory, part


class PerRank:
    """See cairn.torch.per_rank."""

    def __init__(self, value):
        self.value = value


def per_rank(value):
    """A value of which each rank has its own, such as the state of a random generator.

    It is saved as KEY/rank-N. A restore on more ranks leaves those that have none as they are.
    """
    return PerRank(value)


class RandomStates:
    """The random generators of torch (of the current device, too), NumPy and Python, of each rank.
    A state with one in it goes on with the numbers that would have come.

    >>> import torch
    >>> state = RandomStates().state_dict()
    >>> numbers = torch.rand(2), np.random.rand(2), random.random()
    >>> RandomStates().load_state_dict(state)
    >>> bool((torch.rand(2) == numbers[0]).all()), random.random() == numbers[2]
    (True, True)
    """

    def state_dict(self):
        states = {
            "torch": torch.get_rng_state(),
            "numpy": np.random.get_state(),
            "python": random.getstate(),
        }
        if torch.cuda.is_available():
            states["cuda"] = torch.cuda.get_rng_state()
        return {name: per_rank(state) for name, state in states.items()}

    def load_state_dict(self, states):
        torch.set_rng_state(states["torch"].value)
        np.random.set_state(states["numpy"].value)
        random.setstate(states["python"].value)
        if "cuda" in states:
            torch.cuda.set_rng_state(states["cuda"].value)


def _is_stateful(value):
    return hasattr(value, "state_dict") and hasattr(value, "load_state_dict")


def _are_numbers(values):
    kind = type(values[0]) if len(values) > 0 and not hasattr(values, "_fields") else None
    return kind in (int, float) and all(type(one) is kind for one in values)


class TorchBinding(Binding):
    """Tensors are filled in place; None, tuples and lists of numbers are put back."""

    def __init__(self, values, restoring, rank, size):
        self._rank, self._size = rank, size
        self._held = {}
        self.per_rank_keys = set()  # of all ranks
        super().__init__(values, restoring)

    def _add(self, key, container, name, value):
        if isinstance(value, DTensor):
            self._add_distributed(key, value)
        elif isinstance(value, torch.Tensor):
            self._add_tensor(key, value)
        elif type(value).__name__ == "ShardedTensor":
            raise _error(key, "it is a ShardedTensor", "Use DTensors: fully_shard (FSDP2).")
        elif value is None:
            self.native.add(key, [(np.zeros(0, np.uint8), None, None)], "automatic")
        elif isinstance(value, PerRank):
            self._add_per_rank(key, container, name, value)
        elif _is_stateful(value):
            self._add_stateful(key, value)
        elif isinstance(value, (list, tuple)) and _are_numbers(value):
            self._add_numbers(key, container, name, value)
        elif isinstance(value, tuple) and not all(isinstance(one, (str, bytes)) for one in value):
            self._add_tuple(key, container, name, value)
        else:
            super()._add(key, container, name, value)

    def _add_tensor(self, key, value):
        if self._is_tied(key, value, None):
            return
        tensor = in_memory(key, value, self._restoring, self._put_back)
        shape = tuple(tensor.shape)
        self.native.add_memory(key, [part(dtype_name(key, tensor), tensor, shape, (0,) * len(shape))])

    def _add_distributed(self, key, value):
        if self._is_tied(key, value._local_tensor, tuple(value.shape)):
            return
        name, shape = dtype_name(key, value), tuple(value.shape)
        boxes = boxes_of(key, value)
        local = value._local_tensor
        if hasattr(local, "wait"):  # of a collective that is under way
            local = local.wait()
        if not boxes:
            self.native.add_nothing_named(key, name, shape)
            return
        local = in_memory(key, local, self._restoring, self._put_back)
        self.native.add_memory(key, [
            part(name, local[where] if len(boxes) > 1 else local, shape, start)
            for start, _, where in boxes
        ])

    def _is_tied(self, key, value, shape):
        """Weights under two names are saved once, and filled once."""
        if value.layout != torch.strided or value.device.type == "meta" or value.numel() == 0:
            return False
        same = (value.untyped_storage()._cdata, value.storage_offset(), tuple(value.shape),
                value.stride(), value.dtype, shape)
        return self._held.setdefault(same, key) != key

    def _add_per_rank(self, key, container, name, value):
        held = {f"rank-{self._rank}": value.value}
        before = len(self.native)
        self._add_all(key, held, list(held.items()))
        mine = f"{key}/rank-{self._rank}"
        for one in self.native.keys(before):
            self.per_rank_keys |= {
                f"{key}/rank-{rank}{one[len(mine):]}" for rank in range(self._size)
            }

        def put_back():
            value.value = held[f"rank-{self._rank}"]

        self._put_back.append(put_back)

    def _add_stateful(self, key, value):
        if self._restoring and isinstance(value, torch.optim.Optimizer) and not value.state:
            _make_states(value)
        state = value.state_dict()
        self._add_all(key, state, state.items())
        self._put_back.append(lambda: value.load_state_dict(state))

    def _add_numbers(self, key, container, name, value):
        self._require_changeable(key, container)
        kind = type(value)
        try:
            held = np.array(value, np.int64 if type(value[0]) is int else np.float64)
        except OverflowError:
            raise _error(key, "it needs more than 64 bits", "Save it as a text.") from None
        self.native.add(key, [(held, None, None)], "automatic")

        def put_back():
            container[name] = kind(held.tolist())

        self._put_back.append(put_back)

    def _add_tuple(self, key, container, name, value):
        self._require_changeable(key, container)
        if hasattr(value, "_fields"):
            raise _error(key, "it is a named tuple", "Give a dict: value._asdict().")
        items = list(value)
        self._add_all(key, items, list(enumerate(items)))

        def put_back():
            container[name] = tuple(items)

        self._put_back.append(put_back)


def _make_states(optimizer):
    """An optimizer that has made no step has no states to fill: one of length 0 makes them."""
    parameters = [one for group in optimizer.param_groups for one in group["params"]]
    if any(one.grad is not None for one in parameters):
        raise _error("optimizer", "it has made no step, and its parameters have gradients",
                     "Restore before the first backward().")
    rates = [group["lr"] for group in optimizer.param_groups if "lr" in group]
    for group in optimizer.param_groups:
        if "lr" in group:
            group["lr"] = torch.zeros_like(group["lr"]) if torch.is_tensor(group["lr"]) else 0.0
    for one in parameters:
        if one.requires_grad:
            one.grad = torch.zeros_like(one)
    optimizer.step(closure=None)
    for group, rate in zip((g for g in optimizer.param_groups if "lr" in g), rates):
        group["lr"] = rate
    optimizer.zero_grad(set_to_none=True)


