"""Of which class an optimizer or a schedule was that was saved, beside the one that is restored into. No class is
looked for by a name that a file has: names are compared, and told."""

import json

import torch
from torch.optim.lr_scheduler import LRScheduler

from .. import own
from ..forms import CLASS, unknown

_TORCH = "torch.optim."
_BASES = ("Optimizer", "LRScheduler", "_LRScheduler")
# What a group has that says how a step is computed, and not what.
_WAYS = ("foreach", "fused", "capturable", "differentiable")


def names_of(value):
    """Of the class, and of the first of torch's own that it derives from; None: of something else."""
    if not isinstance(value, (torch.optim.Optimizer, LRScheduler)):
        return None
    theirs = [one for one in type(value).__mro__ if one.__module__.startswith(_TORCH) and one.__name__ not in _BASES]
    return list(dict.fromkeys(map(own.name_of, [type(value), *theirs[:1]])))


def read(text):
    """The names that the attribute CLASS has."""
    names = json.loads(text)
    if not isinstance(names, list) or not names or not all(isinstance(one, str) for one in names):
        raise unknown(text, CLASS)
    return names


def are_others(saved, present):
    """Whether both are torch's own, or derive from such, and not from the same. A wrapper does not; modules may
    have been renamed."""
    ends = [names[-1] for names in (saved, present)]
    return all(one.startswith(_TORCH) for one in ends) and len({one.rpartition(".")[2] for one in ends}) > 1


def told(value, saved):
    """For an error: what it is, and was if that is known and not the same."""
    name = own.name_of(type(value))
    was = f", and was a {saved[0]} when it was saved" if saved and saved[0] != name else ""
    return f"it is a {name}{was}"


def switched(groups, saved):
    """(number, name, present value) of what is on in a group of an optimizer, and was off, or the other way round."""
    for number, (one, its) in enumerate(zip(groups, saved)):
        for name, value in one.items():
            was = its.get(name) if isinstance(its, dict) else None
            if type(value) is type(was) is bool and name not in _WAYS and was != value:
                yield number, name, value


def lacking(optimizer, states):
    """What torch's own class reads of each parameter's state when that is loaded, and one that was saved has not;
    None: all is there, or nothing is known. `states`: the names in each. An object without anything tries it."""
    kind = type(optimizer)
    if kind.load_state_dict is not torch.optim.Optimizer.load_state_dict or not (
            kind.__setstate__.__module__.startswith(_TORCH)):
        return None
    groups = [dict(one) for one in optimizer.param_groups]
    parameters = (one for group in groups for one in group["params"])
    state = {one: dict.fromkeys(names, torch.zeros(())) for one, names in zip(parameters, states) if names}
    try:
        object.__new__(kind).__setstate__({"defaults": dict(optimizer.defaults), "state": state, "param_groups": groups})
    except KeyError as error:
        return next((name for name in error.args if any(name not in one for one in state.values())), None)
    except Exception:  # of values, which are not there yet
        return None
    return None
