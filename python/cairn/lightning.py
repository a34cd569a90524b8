"""Checkpoints of Lightning's Trainer.

    trainer = Trainer(…, plugins=[cairn.lightning.CheckpointIO()])
    trainer.fit(model, ckpt_path="last")

    class Strategy(cairn.lightning.AllRanks, DDPStrategy): ...

    trainer = Trainer(…, strategy=Strategy())
"""

import os
import shutil

import torch.distributed as dist
from lightning.fabric.plugins import CheckpointIO as _CheckpointIO
from torch.distributed.checkpoint.state_dict import set_optimizer_state_dict

from . import torch
from ._cairn import Error
from .leaves import _refused

__all__ = ["AllRanks", "CheckpointIO"]

_TENSORS = "state_dict", "optimizer_states"


def _alone():
    """A group of this rank alone."""
    return torch.group(dist.new_group([dist.get_rank()], use_local_synchronization=True) if dist.is_initialized()
                       else None)


def _refuse_storage_options(options):
    if options is not None:
        raise _refused("the checkpoint cannot be saved", "it has storage_options", "Give the options of a manager.")


def _save(path, ranks, step, state, options):
    """The directory gets its name when it has a checkpoint, and an older checkpoint stays until the new one
    is committed."""
    place = path if os.path.isdir(path) else f"{path}.unfinished"
    with torch.Manager(place, ranks, **{"max_to_keep": 1, "overwrite": True, **options}) as manager:
        try:
            manager.restore_latest({}, unused="silent")  # what is there is of this run, or was to be replaced: none of another's
        except Error:  # the checkpoint is damaged
            pass
        manager.save(step, state)
        is_first = manager.ranks.rank == 0
    if place != path and is_first:
        os.rename(place, path)
        parent = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY)
        try:
            os.fsync(parent)
        finally:
            os.close(parent)


def _restore(path, ranks, state):
    with torch.Manager(path, ranks, read_only=True) as manager:
        if manager.restore_latest(state) is None:
            raise _refused(f"{path} cannot be restored", "it has no checkpoint", "Give another ckpt_path.",
                           code="not_found")
    return state["checkpoint"][0]


class CheckpointIO(_CheckpointIO):
    """Each checkpoint is a directory with a checkpoint of Cairn, which rank 0 writes. It has the values that
    Lightning passes.

    options  of a cairn.torch.Manager: store={"format": "hdf5"}
    """

    def __init__(self, **options):
        self.options, self._ranks = options, None

    def _group(self):
        self._ranks = self._ranks or _alone()
        return self._ranks

    def save_checkpoint(self, checkpoint, path, storage_options=None):
        _refuse_storage_options(storage_options)
        # A list, because dicts in a list come back with their keys in the same order.
        _save(os.fspath(path), self._group(), checkpoint["global_step"], {"checkpoint": [checkpoint]}, self.options)

    def load_checkpoint(self, path, map_location=None, weights_only=None):
        """Restores tensors to their devices when saved. Reads no pickle, whatever `weights_only` says."""
        return _restore(os.fspath(path), self._group(), {"checkpoint": None})

    def remove_checkpoint(self, path):
        shutil.rmtree(path)


class _Optimizer:
    """An optimizer in the form in which its strategy saves it: by the names of its parameters."""

    def __init__(self, strategy, optimizer):
        self._strategy, self._optimizer = strategy, optimizer

    def state_dict(self):
        return self._strategy.optimizer_state(self._optimizer)

    def load_state_dict(self, saved):
        set_optimizer_state_dict(self._strategy.model, self._optimizer, saved)


class AllRanks:
    """For a strategy of Lightning: class Strategy(cairn.lightning.AllRanks, ModelParallelStrategy). All ranks
    write: each a share of the replicated tensors, or its own shards of DTensors. The random generators of
    each rank are saved, too.

    checkpoints  options of a cairn.torch.Manager, as a dict
    """

    def __init__(self, *arguments, checkpoints=None, **options):
        super().__init__(*arguments, **options)
        self.checkpoints, self._ranks = dict(checkpoints or {}), None

    def _group(self):
        """The group of all ranks. Collective the first time."""
        self._ranks = self._ranks or torch.group()
        return self._ranks

    def save_checkpoint(self, checkpoint, filepath, storage_options=None):
        _refuse_storage_options(storage_options)
        tensors = {name: checkpoint.pop(name) for name in _TENSORS if name in checkpoint}
        rest = self.broadcast(checkpoint)  # it has times, which differ on each rank
        state = {**tensors, "checkpoint": [rest]} if self.restore_checkpoint_after_setup else {
            "checkpoint": [{**rest, **tensors}]}
        self.barrier()  # no rank may look for the directory while another still makes it
        _save(os.fspath(self.broadcast(filepath)), self._group(), rest["global_step"],
              {**state, "random": torch.RandomStates()}, self.checkpoints)
        self.barrier()

    def load_checkpoint(self, checkpoint_path, weights_only=None):
        state = {"checkpoint": None, "random": torch.RandomStates()}
        if self.restore_checkpoint_after_setup:  # tensors are filled in place, and not loaded again
            state["state_dict"] = self.lightning_module
            if self.optimizers:
                state["optimizer_states"] = [_Optimizer(self, one) for one in self.optimizers]
        return _restore(os.fspath(self.broadcast(checkpoint_path)), self._group(), state)

    def remove_checkpoint(self, filepath):
        if self.is_global_zero:
            shutil.rmtree(filepath)
