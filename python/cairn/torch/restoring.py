"""Restores state dicts."""

import collections.abc
import functools
import itertools
import re

import torch
from torch import distributed
from torch.distributed.tensor import DTensor, Replicate, Shard

from .. import _cairn, restoring
from ..forms import CLASS
from ..leaves import _error, _refused
from . import classes, devices
from .placement import boxes_of
from .state import (ByName, PerRank, RandomStates, TorchKinds, is_stateful, parameters_of, plain,
                    refuse_memory, require_its_part, require_known, waited_for)
from .tensors import OF_NAME, TENSORS, dtype_name, in_memory, scope_of


@functools.cache
def _device(name):
    """The device of this kind if this process can use it, else the host."""
    try:
        torch.empty(0, device=name)
    except (AssertionError, NotImplementedError, RuntimeError):
        return "cpu"
    return name


def _is_as(value, found):
    return value.dtype == OF_NAME.get(found[0]) and tuple(value.shape) == tuple(found[1])


def _names_in(form):
    return [name for name, _ in form.items()] if form is not None and form.is_mapping else []


def _each(form):
    """The names in each dict that a dict or a list has as an element."""
    if form is None or form.is_leaf:
        return []
    return [_names_in(one) for one in ([its for _, its in form.items()] if form.is_mapping else form.parts())]


class TorchRestoring(TorchKinds, restoring.Restoring):
    """Tensors are filled in place. An object with load_state_dict() gets its saved state dict when all bytes
    are there, and is not touched before. In a module its own tensors decide which ones are filled; in an
    optimizer and other objects the saved ones do, and missing tensors are made."""

    _ARRAYS = "tensor"
    _RESTORES = True

    def __init__(self, values, rename, rank):
        self._rank = rank
        super().__init__(values, rename)

    def _forget(self):
        super()._forget()
        self._tree = _cairn.Tree(TENSORS, None)
        self._boxes = {}  # by mesh, placements and shape
        self._parameters = {}  # parameters of the optimizer that is walked, by path
        self._used = set()  # storages that are filled
        self._at_last = []
        self._others = {}  # warnings about objects of another class than the saved one, by key
        self._are_dicts = False  # values that are made under a key without a form are dicts
        self._loaded = []  # keys of objects whose load_state_dict() was called

    def put_back(self):
        self._warn(self._others.values())
        super().put_back()
        for one in self._at_last:  # last, since the other functions may draw random numbers
            one()

    def _is_changed(self, value):
        return is_stateful(value) or isinstance(value, (ByName, PerRank)) or super()._is_changed(value)

    def _fit(self, key, value, form=None):
        if not is_stateful(value):
            return super()._fit(key, value, form)
        form = form or self._form_at(key)
        self._note_place(key, value, form)
        if form is not None and form.kind == "None":
            raise _error(key, "it was None when it was saved", "Leave it out of the state.")
        self._fit_stateful(key, value, form)
        return None

    def _fit_by_itself(self, key, value, form):
        if isinstance(value, torch.Tensor):
            self._fill(key, value)
            return None
        if isinstance(value, PerRank):
            self._fit_per_rank(key, value)
            return None
        if isinstance(value, ByName):
            self._fit_by_name(key, value)
            return None
        require_known(key, value)
        return super()._fit_by_itself(key, value, form)

    def _fit_per_rank(self, key, value):
        path = f"{key}/rank-{self._rank}"
        self._apart.append(key)
        if self._find(path) is None and not self._is_below(path):
            if self._is_below(key):
                self._kept.append(path)  # the job that saved did not have this rank
            else:
                self._missing(key, None)
            return
        self._fit_into(path, vars(value), "value", value.value)

    def _make_unsaid(self, key, kind=None):
        names = self._names(key, None)
        if names and all(re.fullmatch(r"rank-\d+", str(one)) for one in names):
            return self._make_per_rank(key)
        was = self._are_dicts  # the values of an optimizer by name are dicts
        self._are_dicts = was or self._stored.said(self._name(key), CLASS) is not None
        maker = super()._make_unsaid(key, dict if self._are_dicts else kind)
        self._are_dicts = was
        return maker

    def _make_per_rank(self, key):
        path = f"{key}/rank-{self._rank}"
        self._apart.append(key)
        is_there = self._find(path) is not None or self._is_below(path)
        maker = self._make_part(path) if is_there else (lambda: None)
        return lambda: PerRank(maker())

    # -- what has load_state_dict() -----------------------------------------------------------------

    def _fit_stateful(self, key, value, form):
        is_module = isinstance(value, torch.nn.Module)
        if form is None and not is_module and self._find(key) is None and not self._is_below(key):
            self._missing(key, None)
            return
        state = value.state_dict()
        self.classes.see(state)
        was, self._parameters = self._parameters, parameters_of(key, value)
        saved = self._see_class(key, value)
        if isinstance(value, torch.optim.Optimizer):
            self._require_way(key, False)
        if is_module:
            maker = self._fit_module(key, state)
        elif form is not None:
            if isinstance(value, torch.optim.Optimizer):
                self._require_its_groups(key, value, form)
                its = dict(form.items()) if form.is_mapping else {}
                self._require_what_it_wants(key, value, saved, _each(its.get("state")), _each(its.get("param_groups")))
            maker = self._make(key, form, state)
        elif isinstance(value, torch.optim.Optimizer) and "state" in state:
            self._require_what_it_wants(key, value, saved, map(self._names, self._parameters, itertools.repeat(None)))
            maker = self._fit_unmarked_optimizer(key, state)
        else:
            if isinstance(value, RandomStates):  # either job may have had no device
                self._apart.append(key)
                state = {name: one for name, one in state.items()
                         if name != "cuda" or self._is_below(f"{key}/{name}")}
            maker = self._fit(key, state) or (lambda: state)
        self._parameters = was
        later = self._at_last if isinstance(value, RandomStates) else self._put_back
        later.append(lambda: self._load(key, value, maker(), saved))

    # -- of which class it was ----------------------------------------------------------------------

    def _see_class(self, key, value):
        """The saved class names of an optimizer or schedule, if known. Notes a warning if they differ."""
        text = None if self._stored is None else self._stored.said(self._name(key), CLASS)
        saved, there = None if text is None else classes.read(text), classes.names_of(value)
        if saved and there and classes.are_others(saved, there):
            self._others[key] = (f"'{key}' was a {saved[0]} when it was saved, and is restored into a {there[0]}, which "
                                 "may take it for something else. To begin with a new one, leave it out of the state.")
        return saved

    def _require_what_it_wants(self, key, optimizer, saved, states, groups=()):
        """Raises before anything is touched. `states`, `groups`: names in each parameter's state and group."""
        name = classes.lacking(optimizer, saved, states)
        wants = None if name is None else f"{name!r} of each parameter, which was not saved"
        if wants is None and groups:
            names = classes.unsaved(optimizer, saved, groups)
            wants = f"{', '.join(map(repr, names))} of its groups, which were saved without" if names else None
        if wants is not None:
            raise _error(key, f"{classes.told(optimizer, saved)}, and wants {wants}",
                         "Restore into an optimizer of the class that was saved, or leave it out of the state.")

    def _require_way(self, key, is_by_name):
        """An optimizer was saved by name if its groups have no numbers of parameters."""
        each = [f"{key}/param_groups/{one}" for one in self._names(f"{key}/param_groups", None)]
        form = self._form_at(key)
        if form is None and not each:
            return
        was_by_name = form is None and not any(
            "params" in [*self._names(one, None), *_names_in(self._form_at(one))] for one in each)
        if was_by_name and not is_by_name:
            raise _error(key, "it was saved by the names of its parameters, and is restored by their positions",
                         "Give cairn.torch.by_name(optimizer, module).")
        if is_by_name and not was_by_name:
            raise _error(key, "it was saved by the positions of its parameters, and is restored by their names",
                         "Restore into the optimizer itself; what saves the next one may be cairn.torch.by_name.")

    def _load(self, key, value, made, saved):
        groups = made.get("param_groups") if isinstance(made, dict) else None
        if isinstance(value, torch.optim.Optimizer) and isinstance(groups, list) and key not in self._others:
            self._warn(f"'{key}/param_groups/{number}' has {name}={on} here, and was saved with {not on}: what was saved "
                       "decides. To go on otherwise, begin with a new one, and leave it out of the state."
                       for number, name, on in classes.switched(value.param_groups, groups))
        try:
            value.load_state_dict(made)
        except Exception as error:
            before = ", ".join(f"'{one}'" for one in self._loaded)
            raise _refused(
                f"'{key}' does not take what was saved: its load_state_dict() raised {type(error).__name__}: {error}",
                f"{classes.told(value, saved)}; filled already are all tensors and arrays"
                + (f", and {before}" if before else ""),
                f"Restore into an object like the one that was saved, or leave '{key}' out of the state. Make those "
                "that are filled anew, or restore into them once more.", key, "application") from error
        self._loaded.append(key)

    def _warn(self, messages):
        for one in messages:
            if self._rank == 0:
                _cairn.warn(one)

    def _fit_module(self, key, state):
        for name, one in list(state.items()):
            place = self._below(key, name)
            is_own = name.rpartition(".")[2] == "_extra_state"
            is_lazy = isinstance(one, torch.Tensor) and torch.nn.parameter.is_lazy(one)
            if (is_own or is_lazy) and (self._find(place) is not None or self._is_below(place)):
                one = None  # the saved value decides its form
            self._fit_into(place, state, name, one)
        self._whole.append(key)
        return lambda: state

    def _fit_unmarked_optimizer(self, key, state):
        """A function for the saved state of an optimizer without a form."""
        groups = {name: one for name, one in state.items() if name != "state"}
        self._fit_all(key, groups)
        makers = {}
        for number, (path, parameter) in enumerate(self._parameters.items()):
            for name in self._stored.names_below(path):
                found = self._find(f"{path}/{name}")
                if found is not None:
                    is_like = tuple(found[1]) == tuple(parameter.shape)
                    there = state["state"].get(number, {}).get(name)
                    makers[number, name] = self._make_array(
                        f"{path}/{name}", "as parameter" if is_like else "tensor", found, there)

        def make():
            made = {}
            for (number, name), one in makers.items():
                made.setdefault(number, {})[name] = one()
            return {**groups, "state": made}

        return make

    def _fit_by_name(self, key, value):
        """Each parameter gets the state saved under its name; its group gets those parameters' options."""
        if not self._is_below(key):
            self._missing(key, None)
            return
        self._require_way(key, True)
        there = value.optimizer.state_dict()
        was, self._parameters = self._parameters, {}
        makers, groups, states, saved_options = {}, [], [], []
        for number, (group, its) in enumerate(zip(value.optimizer.param_groups, there["param_groups"])):
            found = {}  # by saved group: one of its parameters
            for at, one in zip(its["params"], group["params"]):
                path = self._below(f"{key}/state", value.names[one])
                words = self._stored.names_below(self._name(path))
                if not words:
                    self._missing(path, None)
                    makers[at] = lambda one=there["state"].get(at): one
                for word in words:
                    found.setdefault(word, value.names[one])
                    place = f"{path}/{word}"
                    self._parameters[place] = one
                    states.append(_names_in(self._form_at(place)))
                    makers[at] = self._make_stored(place, None, there["state"].get(at))
            if len(found) > 1:
                raise _error(key, " and ".join(f"'{name}'" for name in found.values()) + " are in one "
                             "group, and were in two", "Make the optimizer with the groups that it had.")
            options = {name: one for name, one in its.items() if name != "params"}
            path = f"{key}/param_groups/{next(iter(found), number)}"
            form = self._form_at(path)
            saved_options.append(_names_in(form) if form is not None else options)
            maker = self._make_stored(path, None, options) if self._is_below(path) else lambda one=options: one
            groups.append((its["params"], maker))
        self._parameters = was
        saved = self._see_class(key, value.optimizer)
        self._require_what_it_wants(key, value.optimizer, saved, states, saved_options)
        self._whole.append(f"{key}/state")
        self._put_back.append(lambda: self._load(key, value.optimizer, {
            "state": {at: made for at, one in makers.items() if (made := one())},
            "param_groups": [{**maker(), "params": numbers} for numbers, maker in groups]}, saved))

    def _require_its_groups(self, key, value, form):
        groups = dict(form.items()).get("param_groups") if form.is_mapping else None
        if groups is None or groups.is_leaf or groups.is_mapping:
            return
        saved = [self._length(f"{key}/param_groups/{number}/params", dict(one.items())["params"])
                 for number, one in enumerate(groups.parts())]
        there = [len(one["params"]) for one in value.param_groups]
        if saved != there:
            self._refuse_parameters(key, f"it has groups of {there} parameters, and was saved with {saved}")

    def _refuse_parameters(self, key, reason):
        """Raises for an optimizer. If the model differs, too, as is often the case, the error names it."""
        wrong, way_out = self._unlike_module("", self._values) or (None, "Make it with the parameters that it had.")
        if wrong:
            reason = f"{reason}; a module of the state is another one, too: {wrong}"
        raise _error(key, reason, way_out)

    def _unlike_module(self, path, container):
        """A difference between a module of the dict and the checkpoint, and what to do; None: none found."""
        for name, value in container.items():
            key = self._below(path, name)
            if isinstance(value, torch.nn.Module):
                unlike = self._unlike(key, value.state_dict())
                wrong = self._unlike_ties(key, value) or unlike and (
                    unlike, "Make the model as it was saved, and the optimizer of its parameters.")
            else:
                is_dict = isinstance(value, collections.abc.Mapping) and not is_stateful(value)
                wrong = self._unlike_module(key, value) if is_dict else None
            if wrong:
                return wrong
        return None

    def _unlike_ties(self, key, module):
        """Parameters that are tied here and were not when they were saved, or the reverse; and what to do."""
        here = {self._below(key, name): one for name, one in module.named_parameters(remove_duplicate=False)}
        first = {}
        for place, one in here.items():
            same = self._all_ties().get(place)
            if same in here and here[same] is not one:
                return f"'{place}' was tied to '{same}' when it was saved", (
                    f"Tie them again. Or restore the module alone, with rename={{'{self._name_here(place)}': '{same}'}}, "
                    "and begin with a new optimizer.")
            other = first.setdefault(id(one), place)
            if other != place and self._find(other) is not None and self._find(place) is not None and (
                    place not in self._rename):
                return f"'{place}' is tied to '{other}', and was not when it was saved", (
                    "Make the model without it. Or restore the module alone, which asks for equal weights, and begin "
                    "with a new optimizer.")
        return None

    def _unlike(self, key, state):
        there = set()
        for name, value in state.items():
            place = self._below(key, name)
            found = self._find(place)
            there.add(self._name(place))
            if found is None and not self._is_below(place) and self._name(place) not in self._all_ties():
                return f"'{place}' was not saved"
            if found is not None and isinstance(value, torch.Tensor) and tuple(value.shape) != tuple(found[1]):
                return f"'{place}' has the shape {tuple(value.shape)}, and had {tuple(found[1])}"
        gone = [name for name in self._stored.names_below(self._name(key)) if f"{self._name(key)}/{name}" not in there]
        return f"'{key}/{gone[0]}' was saved, and is not in it" if gone else None

    def _length(self, key, form):
        found = self._find(key)
        return found[1][0] if form.is_leaf and found is not None else len(form.parts())

    # -- tensors that are there ---------------------------------------------------------------------

    def _fill(self, key, value, made=False):
        require_known(key, value)
        local, spec, boxes = value, None, None
        if isinstance(value, DTensor):
            where = value.device_mesh, value.placements, value.shape
            boxes = self._boxes.get(where)
            if boxes is None:
                boxes = self._boxes.setdefault(where, boxes_of(key, value))
            local, spec = value._local_tensor, value._spec
        local = self._memory_of(key, local, boxes is not None)
        if boxes is not None and not boxes:
            self.native.add_nothing_named(key, dtype_name(key, local), tuple(value.shape))
            return
        # Of tied weights those after the first one may not have been saved. Those that were saved are
        # restored, and the library compares tensors that go to the same memory.
        scope, wanted = scope_of(value, -1 if made else 0), self._find(key) is not None
        given = _cairn.GivenTensor(key, value, local, spec, boxes, True, scope, wanted)
        if not self._tree.tensor(self.native, given, devices.is_elsewhere(local)):
            self._fill_copied(key, given, waited_for(local), wanted)
        elif local.numel() > 0:
            self._used.add(local.untyped_storage().data_ptr())

    def _fill_copied(self, key, given, local, wanted):
        """Fills a tensor by a copy: one of another class, or of a device that cannot be read in pieces."""
        if local.device.type != "meta" and not wanted and self._tree.tie(given):
            return
        host = plain(key, in_memory(key, local, True, self._put_back))
        require_its_part(key, given, host)
        if not self._tree.prepared(self.native, given, host):
            refuse_memory(key, given)

    # -- tensors that are made ----------------------------------------------------------------------

    def _sequence_of(self, kind):
        return torch.Size if kind == "torch.Size" else super()._sequence_of(kind)

    def _make_array(self, key, kind, found, present):
        if kind in ("array", "numpy"):
            return super()._make_array(key, kind, found, present)
        if found[0] not in OF_NAME:
            raise _error(key, f"torch has no dtype {found[0]}", "Read it by cairn.open.")
        parameter = self._parameters.get(key.rpartition("/")[0])
        if kind == "as parameter" and parameter is not None:
            if tuple(parameter.shape) != tuple(found[1]):
                self._refuse_parameters(key, f"its parameter has the shape {tuple(parameter.shape)}, and had "
                                        f"{tuple(found[1])}")
        is_distributed = kind.startswith("DTensor") or (
            kind == "as parameter" and isinstance(parameter, DTensor))

        def make():
            if isinstance(present, torch.Tensor) and isinstance(present, DTensor) == is_distributed and (
                    _is_as(present, found) and self._is_fillable(present)):
                return present
            with torch.inference_mode(False):
                return self._new(key, kind, found, parameter)

        tensor = self._shared(key, lambda one: _is_as(one, found), make)
        self._fill(key, tensor, made=True)
        if tensor is not present:
            self._own.append(key)
        return lambda: tensor

    def _is_fillable(self, value):
        local = value._local_tensor if isinstance(value, DTensor) else value
        if hasattr(local, "wait") or TENSORS.elsewhere(local) is None or (
                any(size > 1 and step == 0 for size, step in zip(local.shape, local.stride()))):
            return False
        return local.numel() == 0 or local.untyped_storage().data_ptr() not in self._used

    def _new(self, key, kind, found, parameter):
        dtype, shape = OF_NAME[found[0]], found[1]
        if parameter is not None and parameter.device.type != "meta":
            if kind == "as parameter":
                return torch.empty_like(parameter.detach(), dtype=dtype)
            if kind.startswith("DTensor") and isinstance(parameter, DTensor):
                return self._distributed(kind, shape, dtype, parameter.device_mesh)
        if kind.startswith("DTensor"):
            raise _error(key, "it was a DTensor, and nothing here tells on which mesh it is to lie",
                         "Give the object its state before the restore.")
        return torch.empty(shape, dtype=dtype, device=_device(kind.partition(" on ")[2] or "cpu"))

    def _distributed(self, kind, shape, dtype, mesh):
        """A DTensor with the saved placements if the mesh has as many dimensions, else whole on each rank."""
        words = kind.partition(" on ")[2].split()
        if len(words) != mesh.ndim:
            words = ["R"] * mesh.ndim
        placements = [Replicate() if word == "R" else Shard(int(word[1:])) for word in words]
        return distributed.tensor.empty(*shape, dtype=dtype, device_mesh=mesh, placements=placements)
