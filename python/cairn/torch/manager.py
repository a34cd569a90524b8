"""Saving and restoring state dicts."""

import torch

from .. import _cairn
from ..manager import CheckpointManager
from .group import group
from .restoring import TorchRestoring
from .state import TorchSaving


class Manager(CheckpointManager):
    """Numbered checkpoints of a PyTorch job in one directory: a CheckpointManager whose states may
    also hold

    torch.Tensor         replicas of all ranks, written once and compared; filled in place, on
                         whatever device
    DTensor              this rank's slices of the tensor, of any mesh
    modules, optimizers, anything with state_dict() and load_state_dict()
    cairn.torch.by_name(optimizer, module)
    cairn.torch.per_rank(value)

    ranks    as cairn.torch.group has it: by default all of torch.distributed

    No pickle is written or read.
    """

    def __init__(self, directory, ranks=None, *, stop=None, **options):
        self.ranks = group(ranks)
        self._last = []  # what the last save was made of, unless one uses it
        super().__init__(directory, self.ranks, stop=stop, **options)

    def _saving(self, state):
        # Taken out while a save uses it: another thread, which will be told that the manager is
        # busy, makes its own.
        try:
            last = self._last.pop()
        except IndexError:
            last = None
        if last is None or not last.fits(state):
            last = TorchSaving(state, self.ranks.rank)
        return last

    def _restoring(self, state, rename):
        return TorchRestoring(state, rename, self.ranks.rank)

    def _save(self, save, step, state, options):
        step, binding, named, kept = self._arguments(step, state, options)
        try:
            return save(step, binding.native, named, kept.through())
        except _cairn.Error as error:
            self._explain(error, state)
            raise
        finally:
            binding.release()
            self._last[:] = [binding] if binding.may_fit else []

    def _explain(self, error, state):
        by_position = [key for key, value in state.items() if isinstance(value, torch.optim.Optimizer)
                       and error.tensor.startswith(f"{key}/")]
        if error.code == "disagreement" and by_position and hasattr(error, "add_note"):  # Python 3.11
            error.add_note(f"The optimizer '{by_position[0]}' is saved by the positions of its parameters, which "
                           "must be the same ones on all ranks. Where ranks have parameters of their own, give "
                           "cairn.torch.by_name(optimizer, module).")

    def save(self, step, state, **options):
        return super().save(step, state, **options)

    save.__doc__ = CheckpointManager.save.__doc__.partition("\n\n        A policy")[0]
