"""Saves and restores state dicts."""

import collections.abc

import torch

from .. import _cairn, disagreements
from ..leaves import _refused
from ..manager import CheckpointManager as _CheckpointManager
from .group import group
from .restoring import TorchRestoring
from .state import ByName, TorchSaving, is_stateful
from .stays import Stays


def _at(key, state):
    """The value of the state with this key, and where it lies."""
    path, value = "", state
    while isinstance(value, collections.abc.Mapping) and not is_stateful(value):
        found = [(f"{path}{name}", one) for name, one in value.items()
                 if f"{key}/".startswith(f"{path}{name}/")]
        if not found:
            break
        path, value = max(found, key=lambda one: len(one[0]))
        path += "/"
    return path[:-1], value


def _without_requires_grad(options):
    """The options of the library, and whether parameters without gradients are frozen."""
    frozen = options.get("frozen")
    if frozen == "requires_grad":
        frozen = {"requires_grad": True}
    if not isinstance(frozen, collections.abc.Mapping) or "requires_grad" not in frozen:
        return options, False
    by_grad = frozen["requires_grad"]
    if not isinstance(by_grad, bool):
        raise _refused("the option frozen.requires_grad cannot be used", f"it is {by_grad!r}", "Give True or False.")
    rest = {name: value for name, value in frozen.items() if name != "requires_grad"}
    return {**options, "frozen": rest}, by_grad


class Manager(_CheckpointManager):
    """Numbered checkpoints of a PyTorch job in one directory: a CheckpointManager whose states may
    also hold

    torch.Tensor         replicas on all ranks, written once and compared; filled in place, on
                         any device
    DTensor              this rank's slices of the tensor, on any mesh
    modules, optimizers, anything with state_dict() and load_state_dict()
    cairn.torch.by_name(optimizer, module)
    cairn.torch.per_rank(value)

    ranks    as in cairn.torch.group: by default all ranks of torch.distributed
    frozen   also "requires_grad", or with other options {"requires_grad": True, "read_every": 5}:
             parameters of modules that need no gradient are frozen, until they do again

    No pickle is written or read.
    """

    def __init__(self, directory, ranks=None, *, stop=None, **options):
        self.ranks = group(ranks)
        options, self._by_grad = _without_requires_grad(options)
        self._last = []  # the native state of the last save, unless a save uses it
        super().__init__(directory, self.ranks, stop=stop, **options)

    def _saving(self, state):
        # It is taken out while a save uses it: another thread, whose call will throw busy, makes a state
        # of its own.
        try:
            last = self._last.pop()
        except IndexError:
            last = None
        if last is None or not last.fits(state):
            last = TorchSaving(state, self.ranks.rank, self._by_grad)
        return last

    def _for(self, binding, state, options):
        binding.stays = Stays(state, options)
        return binding.stays.options

    def _restoring(self, state, rename):
        return TorchRestoring(state, rename, self.ranks.rank)

    def _save(self, save, step, state, options):
        step, binding, named, kept = self._arguments(step, state, options)
        stays = binding.stays
        try:
            more = stays.addresses() if save == self._native.save_async else ()
            saved = save(step, binding.native, named, kept.through(), *more)
        except _cairn.Error as error:
            self._explain(error, state)
            raise
        finally:
            binding.release()
            self._last[:] = [binding] if binding.may_fit else []
        stays.release_before_step(saved)
        return self._hold(saved, stays.tensors)

    def _explain(self, error, state):
        if error.code != "disagreement" or not error.tensor:
            return
        disagreements.explain(error)
        key, value = _at(error.tensor, state)
        if isinstance(value, torch.optim.Optimizer):
            way_out = (f"The optimizer '{key}' is saved by the positions of its parameters, which must be the same "
                       "ones on all ranks. Where ranks have parameters of their own, give "
                       "cairn.torch.by_name(optimizer, module).")
        elif isinstance(value, (torch.nn.Module, ByName)):
            way_out = (f"What lies under '{key}' is the same tensor on all ranks if its name is. Where ranks have "
                       "modules of their own, as stages of a pipeline have, give these the names that they have "
                       'in the whole model: ModuleDict({"2": …, "3": …}).')
        else:
            way_out = "What is each rank's own, give as cairn.torch.per_rank(value)."
        disagreements.change(error, way_out=f"{error.way_out} {way_out}")

    def save_async(self, step, state, **options):
        """Copies the state and returns: then tensors may be changed. See wait() and poll().

        until="optimizer.step": "optimizer" is the key of an optimizer in the state. Returns without a copy of
        the parameters that it trains, and of its own state; before its next step() what was not written yet
        is copied. Until then only that step may change them. All else is copied at the call: buffers, random
        states, other optimizers and their parameters, values of Python; and tensors of devices that are not
        CUDA's or not contiguous.

        until="released": the same for the parameters of all modules and all optimizers of the state; then
        call handle.release() before they change.
        """
        return super().save_async(step, state, **options)

    def save(self, step, state, **options):
        return super().save(step, state, **options)

    save.__doc__ = _CheckpointManager.save.__doc__.partition("\n\n        A policy")[0]
