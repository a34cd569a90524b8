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
    """This rank as a group of its own."""
    return torch.group(dist.new_group([dist.get_rank()], use_local_synchronization=True) if dist.is_initialized()
                       else None)


def _refuse_storage_options(options):
    if options is not None:
        raise _refused("the checkpoint cannot be saved", "it has storage_options", "Give the options of a manager.")


def _save(path, ranks, step, state, options):
    """The directory gets its name when it has a checkpoint, and keeps the one that it has until the next is
    committed."""
    place = path if os.path.isdir(path) else f"{path}.unfinished"
    with torch.Manager(place, ranks, **{"max_to_keep": 1, "overwrite": True, **options}) as manager:
        try:
            manager.restore_latest({}, unused="silent")  # what is there is of this run, or was to be replaced: none of another's
        except Error:  # it is damaged
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
    """Each checkpoint is a directory with one of Cairn's in it, which rank 0 writes. It has what Lightning
    gives it.

    options  of a cairn.torch.Manager: store={"format": "hdf5"}
    """

    def __init__(self, **options):
        self.options, self._ranks = options, None

    def _group(self):
        self._ranks = self._ranks or _alone()
        return self._ranks

    def save_checkpoint(self, checkpoint, path, storage_options=None):
        _refuse_storage_options(storage_options)
        # In a list its dicts come back with their keys in this order.
        _save(os.fspath(path), self._group(), checkpoint["global_step"], {"checkpoint": [checkpoint]}, self.options)

    def load_checkpoint(self, path, map_location=None, weights_only=None):
        """Tensors come to the devices that they were on. No pickle is read, whatever `weights_only` says."""
        return _restore(os.fspath(path), self._group(), {"checkpoint": None})

    def remove_checkpoint(self, path):
        shutil.rmtree(path)


class _Optimizer:
    """In the form in which its strategy saves it: by the names of its parameters."""

    def __init__(self, strategy, optimizer):
        self._strategy, self._optimizer = strategy, optimizer

    def state_dict(self):
        return self._strategy.optimizer_state(self._optimizer)

    def load_state_dict(self, saved):
        set_optimizer_state_dict(self._strategy.model, self._optimizer, saved)


class AllRanks:
    """For a strategy of Lightning's: class Strategy(cairn.lightning.AllRanks, ModelParallelStrategy). All ranks
    write, each a share of what is replicated, or its own of DTensors; and each one's random generators are saved,
    too.

    checkpoints  options of a cairn.torch.Manager, as a dict
    """

    def __init__(self, *arguments, checkpoints=None, **options):
        super().__init__(*arguments, **options)
        self.checkpoints, self._ranks = dict(checkpoints or {}), None

    def _group(self):
        """Collective the first time."""
        self._ranks = self._ranks or torch.group()
        return self._ranks

    def save_checkpoint(self, checkpoint, filepath, storage_options=None):
        _refuse_storage_options(storage_options)
        tensors = {name: checkpoint.pop(name) for name in _TENSORS if name in checkpoint}
        rest = self.broadcast(checkpoint)  # times in it are of each rank
        state = {**tensors, "checkpoint": [rest]} if self.restore_checkpoint_after_setup else {
            "checkpoint": [{**rest, **tensors}]}
        self.barrier()  # nobody looks for the directory while another still makes it
        _save(os.fspath(self.broadcast(filepath)), self._group(), rest["global_step"],
              {**state, "random": torch.RandomStates()}, self.checkpoints)
        self.barrier()

    def load_checkpoint(self, checkpoint_path, weights_only=None):
        state = {"checkpoint": None, "random": torch.RandomStates()}
        if self.restore_checkpoint_after_setup:  # what is restored is there, and is not loaded once more
            state["state_dict"] = self.lightning_module
            if self.optimizers:
                state["optimizer_states"] = [_Optimizer(self, one) for one in self.optimizers]
        return _restore(os.fspath(self.broadcast(checkpoint_path)), self._group(), state)

    def remove_checkpoint(self, filepath):
        if self.is_global_zero:
            shutil.rmtree(filepath)
