"""Compares the class of a saved optimizer or schedule with the one that is restored into. No class is found
by a name in a file: names are only compared, and named in errors."""

import json

import torch
from torch.optim.lr_scheduler import LRScheduler

from .. import own
from ..forms import CLASS, unknown

_TORCH = "torch.optim."
_BASES = ("Optimizer", "LRScheduler", "_LRScheduler")
# Options of a group that say how a step is computed, not what.
_WAYS = ("foreach", "fused", "capturable", "differentiable")
# The values that a step of these optimizers reads from a parameter's state, if it has one.
_READS = {"ASGD": ("ax", "eta", "mu"), "Adadelta": ("square_avg", "acc_delta"), "Adagrad": ("sum",),
          "Adamax": ("exp_avg", "exp_inf"), "RMSprop": ("square_avg",), "Rprop": ("prev", "step_size"),
          **dict.fromkeys(("Adam", "AdamW", "NAdam", "RAdam", "SparseAdam"), ("exp_avg", "exp_avg_sq"))}


def names_of(value):
    """The names of the class, and of torch's class from which it derives; None for other objects."""
    if not isinstance(value, (torch.optim.Optimizer, LRScheduler)):
        return None
    theirs = [one for one in type(value).__mro__ if one.__module__.startswith(_TORCH) and one.__name__ not in _BASES]
    return list(dict.fromkeys(map(own.name_of, [type(value), *theirs[:1]])))


def read(text):
    """The names in the attribute CLASS."""
    names = json.loads(text)
    if not isinstance(names, list) or not names or not all(isinstance(one, str) for one in names):
        raise unknown(text, CLASS)
    return names


def are_others(saved, present):
    """Whether both classes are torch's own, or derive from these, but not from the same one. A wrapper does
    not derive from one; modules may have been renamed."""
    return all(names[-1].startswith(_TORCH) for names in (saved, present)) and _end(saved) != _end(present)


def _end(names):
    return names[-1].rpartition(".")[2]


def told(value, saved):
    """For an error: the class of the object, and the saved class if it is known and differs."""
    name = own.name_of(type(value))
    was = f", and was a {saved[0]} when it was saved" if saved and saved[0] != name else ""
    return f"it is a {name}{was}"


def switched(groups, saved):
    """(number of the group, name, present value) of options that are on and were off, or the reverse."""
    for number, (one, its) in enumerate(zip(groups, saved)):
        for name, value in one.items():
            was = its.get(name) if isinstance(its, dict) else None
            if type(value) is type(was) is bool and name not in _WAYS and was != value:
                yield number, name, value


def _loads_as_torch(kind):
    """Whether the class has no code of its own that loads groups."""
    return kind.load_state_dict is torch.optim.Optimizer.load_state_dict and (
        kind.__setstate__.__module__.startswith(_TORCH))


def unsaved(optimizer, saved, groups):
    """Options of its groups that were not saved, if the saved class is another one; for the same class torch
    sets them. `groups`: the names that were saved in each."""
    present = names_of(optimizer)
    if not saved or not present or _end(saved) == _end(present) or not (
            are_others(saved, present) or _loads_as_torch(type(optimizer))):
        return []
    return sorted({name for group, its in zip(optimizer.param_groups, groups) for name in group
                   if name != "params" and name not in its})


def lacking(optimizer, saved, states):
    """A value that torch's class reads from each parameter's state, and that a saved state lacks; None if all
    are there, or if nothing is known. `states`: the names in each."""
    states = list(states)
    found = _lacking_when_loaded(optimizer, states)
    present = names_of(optimizer)
    if found is None and saved and are_others(saved, present):
        return next((name for name in _READS.get(_end(present), ())
                     if any(names and name not in names for names in states)), None)
    return found


def _lacking_when_loaded(optimizer, states):
    """Finds it out by loading the states into an empty object of the class."""
    kind = type(optimizer)
    if not _loads_as_torch(kind):
        return None
    groups = [dict(one) for one in optimizer.param_groups]
    parameters = (one for group in groups for one in group["params"])
    state = {one: dict.fromkeys(names, torch.zeros(())) for one, names in zip(parameters, states) if names}
    try:
        object.__new__(kind).__setstate__({"defaults": dict(optimizer.defaults), "state": state, "param_groups": groups})
    except KeyError as error:
        return next((name for name in error.args if any(name not in one for one in state.values())), None)
    except Exception:  # an error about values, which are not there yet
        return None
    return None
