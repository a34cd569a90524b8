"""State dicts of torch: the values in them that other states do not have, and their saves."""

import collections.abc
import contextlib
import functools
import random

import numpy as np
import torch
from torch.distributed.tensor import DTensor, Shard

from .. import _cairn, dtypes, texts
from ..forms import ARRAYS, CLASS, PARTS, PLAIN, SEQUENCES, SHARDED
from ..leaves import Described, _error, json_of
from ..saving import NATURAL, NOTHING, Kinds, Saving, below
from . import classes, devices
from .placement import boxes_of
from .tensors import DTYPES, LACKING, TENSORS, bytes_of, dtype_name, in_memory, scope_of

SEQUENCES[torch.Size] = "torch.Size"
texts.KINDS[torch.dtype] = "torch.dtype", str, lambda text: _of_torch(text, torch.dtype)
texts.KINDS[torch.device] = "torch.device", str, torch.device


def _of_torch(text, kind):
    found = getattr(torch, text.removeprefix("torch."), None)
    if not isinstance(found, kind):
        raise ValueError(f"torch has no {text}")
    return found


class PerRank:
    """See cairn.torch.per_rank."""

    def __init__(self, value):
        self.value = value


def per_rank(value):
    """A value that differs on each rank, such as the state of a random generator.

    It is saved as KEY/rank-N. A restore on more ranks leaves the value as it is on ranks without one.
    """
    return PerRank(value)


class ByName:
    """See cairn.torch.by_name."""

    def __init__(self, optimizer, modules):
        self.optimizer = optimizer
        self.names = {one: name for module in modules for name, one in module.named_parameters()}
        for group in optimizer.param_groups:
            for one in group["params"]:
                if one not in self.names:
                    raise _error("by_name", f"the optimizer has a parameter of shape {tuple(one.shape)} that is "
                                 "in none of the modules", "Give all modules that it trains.")

    def state_dict(self):
        """The state of each parameter, by name and number of the group; and the options of each group."""
        saved = self.optimizer.state_dict()
        state, groups = {}, {}
        for number, (group, its) in enumerate(zip(self.optimizer.param_groups, saved["param_groups"])):
            for at, one in zip(its["params"], group["params"]):
                state[self.names[one]] = {str(number): saved["state"].get(at, {})}
            groups[str(number)] = {name: one for name, one in its.items() if name != "params"}
        return {"state": state, "param_groups": groups}


def by_name(optimizer, *modules):
    """An optimizer whose state is saved under the names that its parameters have in the modules, such
    as KEY/state/layers.0.weight/0/exp_avg, where 0 is the number of its group. Use it if ranks have
    parameters of their own, such as stages of a pipeline and experts, or if the order of parameters or
    groups may change. The other values of a group must be the same on all ranks.

    >>> model = torch.nn.Linear(2, 3)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    >>> list(by_name(optimizer, model).state_dict()["state"])
    ['weight', 'bias']
    """
    return ByName(optimizer, modules)


class RandomStates:
    """The random generators of torch (of the current device, too), NumPy and Python, of each rank.
    After a restore they go on with the same numbers as in a run without interruption.

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


_CONTAINERS = (collections.abc.Mapping, list, tuple)


def is_stateful(value):
    return hasattr(value, "state_dict") and hasattr(value, "load_state_dict")


def _state_dict_of(value):
    """The state dict; without new objects for the parameters, if the module has no code of its own for it."""
    if isinstance(value, torch.nn.Module):
        if type(value).state_dict is torch.nn.Module.state_dict and not any(
                one._state_dict_hooks for one in value.modules()):
            return value.state_dict(keep_vars=True)
    return value.state_dict()


def _of_rank(rank, value):
    return {f"rank-{rank}": value.value}


def parameters_of(key, value):
    """The parameters of an optimizer, by the paths under which it has values for them."""
    if not isinstance(value, torch.optim.Optimizer):
        return {}
    each = (one for group in value.param_groups for one in group["params"])
    return {f"{key}/state/{number}": one for number, one in enumerate(each)}


def waited_for(local):
    """The tensor; first waits for a collective under way that makes it."""
    return local.wait() if hasattr(local, "wait") else local


def local_of(value):
    return waited_for(value._local_tensor) if isinstance(value, DTensor) else value


def plain(key, host):
    dtype_name(key, host)
    return host.as_subclass(torch.Tensor)


def _copied(key, value):
    """For the library: a copy of the elements of a tensor that is not plain memory."""
    return plain(key, in_memory(key, local_of(value), False, None))


def require_known(key, value):
    if type(value).__name__ == "ShardedTensor":
        raise _error(key, "it is a ShardedTensor", "Use DTensors: fully_shard (FSDP2).")
    if isinstance(value, torch.Tensor) and torch.nn.parameter.is_lazy(value):
        raise _error(key, "it has no shape yet, as what a lazy module has before its first use",
                     "Use the module once before.")


def _placements(value):
    return value.placements if isinstance(value, DTensor) else None


def _word(placement):
    return f"S{placement.dim}" if type(placement) is Shard else "R"


class TorchKinds(Kinds):
    _MODULE = "cairn.torch"
    _RESTORES = False

    def _memory_of(self, key, tensor, is_part=False):
        """The tensor; or its bytes, if checkpoints lack its dtype."""
        name = LACKING.get(tensor.dtype)
        if not self._note_dtype(key, np.dtype(np.uint8) if tensor.dtype == torch.uint8 else None, name):
            return tensor
        if is_part and dtypes.more_of(name):
            raise _error(key, f"a checkpoint has no dtype {tensor.dtype} of DTensors", "Convert it.")
        return bytes_of(key, waited_for(tensor), self._RESTORES)

    def _holds(self, value):
        if isinstance(value, _CONTAINERS) and is_stateful(value):
            return PARTS
        return super()._holds(value)

    def _holds_leaf(self, value):
        if isinstance(value, DTensor):
            return SHARDED
        if isinstance(value, texts.FUNCTIONS):
            return PLAIN
        return ARRAYS if isinstance(value, torch.Tensor) else super()._holds_leaf(value)


class TorchSaving(TorchKinds, Saving):
    """The native state of a save. A later save may reuse it if `fits` returns True for its state: keys,
    kinds of values, dtypes, shapes and placements are the same as before. `fits` has then updated
    the addresses of tensors, and the numbers and texts.

    by_grad: parameters that need no gradient are frozen.
    """

    def __init__(self, values, rank, by_grad=False):
        self._rank, self._by_grad = rank, by_grad
        self._tree = _cairn.Tree(TENSORS, _copied)
        self._boxes = {}  # by mesh, placements and shape
        self._in_module = False
        self._parameters = {}  # parameters of the optimizer that is walked, by path
        # Within a scope, places with the same memory are one tensor. A scope has a number, and the
        # path from which ties are named if a form has them.
        self._object = None, 0  # scope of the object whose state dict is walked
        self._scope, self._scopes = (None, 0), 0  # scope of all other values
        super().__init__(values)
        self._parameters = {}

    def fits(self, values):
        return self._tree.fits(self.native, values)

    @property
    def may_fit(self):
        return self._tree.may_fit

    def release(self):
        """Releases all objects of the application until the next save."""
        self._tree.release()

    def _add(self, key, value):
        if isinstance(value, torch.Tensor) and not isinstance(value, DTensor):
            self._close_tensor(key, value)
        elif isinstance(value, _CONTAINERS) and is_stateful(value):
            self._add_by_itself(key, value)
        elif isinstance(value, Described):  # a description needs a tensor of its own
            with self._scoped():
                super()._add(key, value)
        else:
            super()._add(key, value)

    @contextlib.contextmanager
    def _scoped(self, path=None):
        was, self._scopes = self._scope, self._scopes + 1
        self._scope = path, self._scopes
        yield
        self._scope = was

    def _add_dict(self, key, value):
        """A restore may make it anew, so nothing in it may be tied to a tensor outside."""
        with contextlib.nullcontext() if self._in_dict else self._scoped():
            super()._add_dict(key, value)

    def _close(self, key, value, made=False):
        is_dict = isinstance(value, collections.abc.Mapping)
        with self._scoped(key) if is_dict else contextlib.nullcontext():
            super()._close(key, value, made)

    def _add_by_itself(self, key, value):
        require_known(key, value)
        if isinstance(value, DTensor):
            self._add_distributed(key, value, self._scope[1])
        elif isinstance(value, PerRank):
            self._tree.enter_fetched(value, functools.partial(_of_rank, self._rank))
            with self._scoped():
                self._add_all(key, _of_rank(self._rank, value))
            self._tree.leave()
        elif isinstance(value, ByName):
            self._add_by_name(key, value)
        elif is_stateful(value):
            self._add_stateful(key, value)
        else:
            super()._add_by_itself(key, value)

    def _add_open(self, key, value):
        if hasattr(value, "_fields"):
            self._refuse(key, value)
        super()._add_open(key, value)

    def _add_stateful(self, key, value):
        """Adds an object with a state dict. For a module its own tensors decide what is restored, as for a
        dict of arrays; for other objects, what was saved."""
        state = _state_dict_of(value)
        self._tree.enter_fetched(value, _state_dict_of)
        was = self._in_module, self._parameters
        self._in_module = isinstance(value, torch.nn.Module)
        self._parameters = parameters_of(key, value)
        if not self._in_module and self._holds(state) < PARTS:
            self._close_object(key, state)
        elif isinstance(state, collections.abc.Mapping):
            self._add_all(key, state)
        else:
            self._add(key, state)
        self._say_class(key, value)
        self._in_module, self._parameters = was
        self._tree.leave()

    def _say_class(self, key, value):
        names = classes.names_of(value)
        if names is not None:
            self._say(key, json_of(CLASS, names), CLASS)

    def _close_tensor(self, key, value):
        """Does what _close() does, for a tensor that is a value by itself, as most are."""
        before = len(self.native)
        text = f'"{self._form_leaf(key, value, False)}"'
        if len(self.native) > before and not self._is_told(key, text, value):
            self._say(key, text)

    def _close_object(self, key, state):
        self._scopes += 1
        self._object = key, self._scopes
        self._close(key, state, made=True)
        self._object = None, 0

    def _add_by_name(self, key, value):
        state = value.state_dict()
        self._tree.enter_fetched(value, ByName.state_dict)
        was, self._parameters = self._parameters, {}
        parameters = {name: one for one, name in value.names.items()}
        self._enter(state, list(state))
        self._enter(state["state"], list(state["state"]))
        for name, its in state["state"].items():
            self._enter(its, list(its))
            for number, moments in its.items():
                place = f"{below(f'{key}/state', name)}/{number}"
                self._parameters[place] = parameters[name]
                self._close_object(place, moments)
            self._leave()
        self._leave()
        self._enter(state["param_groups"], list(state["param_groups"]))
        for number, options in state["param_groups"].items():
            self._close_object(f"{key}/param_groups/{number}", options)
        self._leave()
        self._leave()
        self._say_class(key, value.optimizer)
        self._parameters = was
        self._tree.leave()

    def _is_told(self, key, text, value):
        if text == '"tensor"':
            return value.dim() > 0 or DTYPES.get(value.dtype) not in NATURAL
        return text not in ('"numpy"', '"array"') and super()._is_told(key, text, value)

    def _form_leaf(self, key, value, made):
        if isinstance(value, texts.FUNCTIONS) and self._object[0] is not None and texts.name_of(value):
            self._never()
            self._add_array(key, NOTHING)
            return f"function {texts.name_of(value)}"
        if not isinstance(value, torch.Tensor):
            return super()._form_leaf(key, value, made)
        require_known(key, value)
        # A restore makes one tensor for each place. But in the state dict of an object places with the same
        # memory get the same tensor, as with torch.load.
        path, scope = self._object if made else self._scope
        if made and path is None or self._in_module and key.endswith("_extra_state"):
            scope = -1
        is_distributed = isinstance(value, DTensor)
        add = self._add_distributed if is_distributed else self._add_tensor
        tie = add(key, value, scope)
        if isinstance(tie, str) and path is not None:
            return "same", tie[len(path) + 1 :]
        if isinstance(tie, str):
            self._ties.setdefault(tie, []).append(key)
        parameter = self._parameters.get(key.rpartition("/")[0])
        if parameter is not None and parameter.shape == value.shape and (
                _placements(parameter) == _placements(value)):
            return "as parameter"
        if is_distributed:
            return "DTensor on " + " ".join(map(_word, value.placements))
        return f"tensor on {value.device.type}" if made and devices.is_elsewhere(value) else "tensor"

    def _add_tensor(self, key, value, scope):
        """Adds a tensor. Returns the key of the tensor to which it is tied, if any."""
        scope = scope_of(value, scope)
        memory = self._memory_of(key, value)
        given = _cairn.GivenTensor(key, memory, memory, None, None, False, scope, False)
        self._mark(given, value)
        value = memory
        done = self._tree.tensor(self.native, given, devices.is_elsewhere(value))
        return self._noted(key, done or self._add_copied(key, given, value))

    def _add_distributed(self, key, value, scope):
        where = value.device_mesh, value.placements, value.shape
        boxes = self._boxes.get(where)
        if boxes is None:
            boxes = self._boxes.setdefault(where, boxes_of(key, value))
        local = self._memory_of(key, value._local_tensor, True)
        scope = scope_of(value, scope)
        given = _cairn.GivenTensor(key, value, local, value._spec, boxes, False, scope, False)
        self._mark(given, value)
        done = self._tree.tensor(self.native, given, devices.is_elsewhere(local))
        if not done and not boxes:
            self._tree.never()
            self.native.add_nothing_named(key, dtype_name(key, local), tuple(value.shape))
            return True
        return self._noted(key, done or self._add_copied(key, given, local))

    def _mark(self, given, value):
        # Buffers and the state of optimizers need no gradient either, and change.
        if self._by_grad and isinstance(value, torch.nn.Parameter):
            given.trains = value.requires_grad

    def _noted(self, key, tie):
        if isinstance(tie, str):
            self._said.pop(key, None)  # the other tensor has the attribute with the dtype
        return tie

    def _add_copied(self, key, given, local):
        """Adds a tensor by a copy: one of a collective under way, a conjugate, or one of another class."""
        tie = local.device.type != "meta" and self._tree.tie(given)
        if tie:
            return tie
        host = _copied(key, given.value)
        require_its_part(key, given, host)
        if not self._tree.prepared(self.native, given, host):
            refuse_memory(key, given)
        return True

    def _add_array_of_theirs(self, key, array):
        if type(array) is np.ndarray and dtypes.lacking(array.dtype) is None:
            self._tree.array(self.native, key, array)
        else:
            self._tree.never()
            self._add_array(key, array)

    def _add_held(self, key, value, array):
        super()._add_held(key, value, array)
        self._tree.held(value, array)

    def _enter(self, container, keys=None, ordered=False):
        self._tree.enter(container, keys or [], ordered)

    def _leave(self):
        self._tree.leave()

    def _note_same(self, value):
        self._tree.same(value)

    def _note_texts(self, value):
        self._tree.texts(value, self._texts)

    def _never(self):
        self._tree.never()


def require_its_part(key, given, host):
    if given.boxes is not None and tuple(host.shape) != given.boxes.local_shape():
        raise _error(key, f"its part on this rank has the shape {tuple(host.shape)}, where "
                     f"{given.value.placements} mean {given.boxes.local_shape()}",
                     "Distribute it with torch's distribute_tensor.")


def refuse_memory(key, given):
    raise _error(key, f"it is a {type(given.value).__name__}, which is no plain memory",
                 "Give tensor.contiguous(), or its parts under keys of their own.")
