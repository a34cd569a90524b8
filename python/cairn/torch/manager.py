"""Saving and restoring state dicts."""

from .. import _cairn
from ..manager import CheckpointManager
from .group import group
from .state import TorchBinding


class Manager(CheckpointManager):
    """Numbered checkpoints of a PyTorch job in one directory: a CheckpointManager whose states may
    also hold

    torch.Tensor         replicas of all ranks, written once and compared; filled in place, on
                         whatever device
    DTensor              this rank's slices of the tensor, of any mesh
    modules, optimizers, anything with state_dict() and load_state_dict()
    None, tuples, lists of numbers
    cairn.torch.per_rank(value)

    ranks    as cairn.torch.group has it: by default all of torch.distributed

    No pickle is written or read.
    """

    def __init__(self, directory, ranks=None, *, stop=None, **options):
        self.ranks = group(ranks)
        self._last = []  # what the last save was made of, unless one uses it
        super().__init__(directory, self.ranks, stop=stop, **options)

    def _binding(self, state, restoring):
        if restoring:
            return TorchBinding(state, True, self.ranks.rank, self.ranks.size)
        # Taken out while a save uses it: another thread, which will be told that the manager is
        # busy, makes its own.
        try:
            last = self._last.pop()
        except IndexError:
            last = None
        if last is None or not last.fits(state):
            last = TorchBinding(state, False, self.ranks.rank, self.ranks.size)
        return last

    def save(self, step, state, **options):
        return self._and_release(self._native.save, step, state, options)

    def save_async(self, step, state, **options):
        return self._and_release(self._native.save_async, step, state, options)

    save.__doc__ = CheckpointManager.save.__doc__.partition("\n\n        A policy")[0]
    save_async.__doc__ = CheckpointManager.save_async.__doc__

    def _and_release(self, save, step, state, options):
        step, binding, *options = self._arguments(step, state, options)
        try:
            return save(step, binding.native, *options)
        finally:
            binding.release()
            self._last[:] = [binding]

    def _arguments(self, step, state, options, restoring=False):
        step, binding, named, *code = super()._arguments(step, state, options, restoring)
        if restoring:
            # Of ranks that the job had not when it saved.
            named += [(f"may_be_missing.{key}", "true") for key in sorted(binding.per_rank_keys)]
        return step, binding, named, *code
