"""State dicts: what torch has in them beyond what any state of cairn may have."""

import collections.abc

import random

import numpy as np
import torch
from torch.distributed.tensor import DTensor

from .. import _cairn
from ..leaves import Binding, _error
from .placement import boxes_of
from . import devices
from .tensors import TENSORS, dtype_name, in_memory


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


def _state_dict_of(value, restoring):
    """Without copies of its parameters' objects, where nothing of the module's own makes the dict."""
    module = isinstance(value, torch.nn.Module) and not restoring
    if module and type(value).state_dict is torch.nn.Module.state_dict and not any(
            one._state_dict_hooks for one in value.modules()):
        return value.state_dict(keep_vars=True)
    return value.state_dict()


class TorchBinding(Binding):
    """Tensors are filled in place; None, tuples and lists of numbers are put back.

    A save may be made of a binding again where `fits` says so of its state: keys, kinds of values,
    dtypes, shapes and placements are the same as before. Where the tensors lie then, and what
    numbers and texts are then, it has found by itself.
    """

    def __init__(self, values, restoring, rank, size):
        self._rank, self._size = rank, size
        self._tree = _cairn.Tree(TENSORS)
        self._boxes = {}  # of meshes, placements and shapes
        self.per_rank_keys = set()  # of all ranks
        super().__init__(values, restoring)

    def fits(self, values):
        return self._tree.fits(values)

    def release(self):
        """Nothing of the application's is kept alive until the next save."""
        self._tree.release()

    def _add_all(self, path, container, items, given=None):
        items = list(items)
        self._tree.enter(container if given is None else given, [name for name, _ in items])
        super()._add_all(path, container, items)
        self._tree.leave()

    def _add(self, key, container, name, value):
        if isinstance(value, DTensor):
            self._add_distributed(key, value)
        elif isinstance(value, torch.Tensor):
            given = _cairn.GivenTensor(key, value, value, None, None, self._restoring)
            if not self._tree.tensor(self.native, given, devices.is_elsewhere(value)):
                self._add_copied(key, given, value, lambda value: value)
        elif type(value).__name__ == "ShardedTensor":
            raise _error(key, "it is a ShardedTensor", "Use DTensors: fully_shard (FSDP2).")
        elif value is None:
            self.native.add(key, [(np.zeros(0, np.uint8), None, None)], "automatic")
            self._tree.same(value)
        elif isinstance(value, PerRank):
            self._add_per_rank(key, container, name, value)
        elif _is_stateful(value):
            self._add_stateful(key, value)
        elif isinstance(value, (list, tuple)) and _are_numbers(value):
            self._add_numbers(key, container, name, value)
        elif isinstance(value, tuple) and not all(isinstance(one, (str, bytes)) for one in value):
            self._add_tuple(key, container, name, value)
        elif type(value) is np.ndarray:
            self._tree.array(self.native, key, value)
        else:
            if not isinstance(value, _KNOWN):
                self._tree.never()
            super()._add(key, container, name, value)

    def _note(self, value, renew):
        self._tree.renewed(value, renew)

    def _add_distributed(self, key, value):
        where = value.device_mesh, value.placements, value.shape
        boxes = self._boxes.get(where)
        if boxes is None:
            boxes = self._boxes.setdefault(where, boxes_of(key, value))
        if not boxes:
            self._add_nothing(key, value)
            return
        local = value._local_tensor
        given = _cairn.GivenTensor(key, value, local, value._spec, boxes, self._restoring)
        if self._tree.tensor(self.native, given, devices.is_elsewhere(local)):
            return
        self._add_copied(key, given, local, lambda value: _waited_for(value._local_tensor))

    def _add_nothing(self, key, value):
        spec, kind = value._spec, value.dtype
        self.native.add_nothing_named(key, dtype_name(key, value), tuple(value.shape))
        self._tree.renewed(value, lambda new: new._spec == spec and new.dtype == kind)

    def _add_copied(self, key, given, local, local_of):
        """Of a collective that is under way, a conjugate, of a class of its own."""
        if local.device.type != "meta" and self._tree.is_tied(given):
            return

        def host_of(value, put_back):
            host = in_memory(key, local_of(value), self._restoring, put_back)
            dtype_name(key, host)
            return host.as_subclass(torch.Tensor)

        host = host_of(given.value, self._put_back)
        if given.boxes is not None and tuple(host.shape) != given.boxes.local_shape():
            raise _error(key, f"its part on this rank has the shape {tuple(host.shape)}, where "
                         f"{given.value.placements} mean {given.boxes.local_shape()}",
                         "Distribute it with torch's distribute_tensor.")
        if not self._tree.prepared(self.native, given, host, lambda value: host_of(value, None)):
            raise _error(key, f"it is a {type(given.value).__name__}, which is no plain memory",
                         "Give tensor.contiguous(), or its parts under keys of their own.")

    def _add_per_rank(self, key, container, name, value):
        held = {f"rank-{self._rank}": value.value}
        before = len(self.native)
        self._tree.enter_fetched(value, lambda value: {f"rank-{self._rank}": value.value})
        self._add_all(key, held, held.items())
        self._tree.leave()
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
        state = _state_dict_of(value, self._restoring)
        self._tree.enter_fetched(value, lambda value: _state_dict_of(value, False))
        self._add_all(key, state, state.items())
        self._tree.leave()
        self._put_back.append(lambda: value.load_state_dict(state))

    def _add_numbers(self, key, container, name, value):
        self._require_changeable(key, container)
        kind = type(value)
        try:
            held = self._of_place(container, name,
                                  np.array(value, np.int64 if type(value[0]) is int else np.float64))
        except OverflowError:
            raise _error(key, "it needs more than 64 bits", "Save it as a text.") from None
        self.native.add(key, [(held, None, None)], "automatic")

        def put_back():
            container[name] = kind(held.tolist())

        def renew(new):
            if not _are_numbers(new) or len(new) != len(held) or type(new[0]) is not type(value[0]):
                return False
            try:
                held[:] = new
            except OverflowError:
                return False
            return True

        self._put_back.append(put_back)
        self._note(value, renew)

    def _add_tuple(self, key, container, name, value):
        self._require_changeable(key, container)
        if hasattr(value, "_fields"):
            raise _error(key, "it is a named tuple", "Give a dict: value._asdict().")
        items = list(value)
        self._add_all(key, items, enumerate(items), given=value)

        def put_back():
            container[name] = tuple(items)

        self._put_back.append(put_back)


def _waited_for(local):
    """Of a collective that is under way."""
    return local.wait() if hasattr(local, "wait") else local


# What the walk of a tree knows, beside what TorchBinding itself does.
_KNOWN = (collections.abc.Mapping, str, bytes, list, tuple, bool, int, float, complex, np.generic)


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
