"""The copy of the state that dcp.async_save writes."""

import torch
from torch.distributed._state_dict_utils import _copy_state_dict, _create_cpu_state_dict
from torch.distributed.tensor import DTensor


class Staging:
    """An AsyncStager of torch: it copies a state dict into memory that it reuses, since new memory costs
    more than the copy."""

    _synchronize_after_execute = False

    def __init__(self):
        self._copy, self._tensors, self._in_use = None, [], False

    @property
    def should_synchronize_after_execute(self):
        return self._synchronize_after_execute

    def stage(self, state_dict, *args, **kwargs):
        if self._in_use:  # by a save that has not ended
            return self._copied(state_dict, self._made_for(state_dict))
        if self._copy is None or not _same(self._copy, state_dict):
            self._copy = self._made_for(state_dict)
            self._tensors = list(_tensors_in(self._copy))
        self._in_use = True
        return self._copied(state_dict, self._copy)

    def was_saved(self, tensors):
        """Called when a save has ended or failed. Does nothing if the tensors are not this object's copy."""
        ours = set(map(id, self._tensors))
        if any(id(one) in ours for one in tensors):
            self._in_use = False

    def synchronize_staging(self):
        pass

    def close(self):
        self._copy, self._tensors = None, []

    @staticmethod
    def _made_for(state_dict):
        return _create_cpu_state_dict(state_dict, pin_memory=torch.cuda.is_available())

    @staticmethod
    def _copied(state_dict, copy):
        return _copy_state_dict(state_dict, copy, type_check=False)


def _same(old, new):
    """Whether the copy of one can hold the other."""
    if isinstance(new, torch.Tensor):
        return isinstance(old, torch.Tensor) and _form(old) == _form(new) is not None
    if isinstance(new, dict):
        return isinstance(old, dict) and list(old) == list(new) and all(
            _same(old[key], new[key]) for key in new)
    if isinstance(new, (list, tuple)):
        return isinstance(old, (list, tuple)) and len(old) == len(new) and all(map(_same, old, new))
    return type(old) is type(new)


def _form(tensor):
    """What a copy must have in common with its tensor: torch fills the copy's memory, but does not change
    where it lies in the whole tensor. None for other kinds of values."""
    form = tensor.shape, tensor.dtype
    if isinstance(tensor, DTensor):
        return *form, tensor.device_mesh, tensor.placements, tensor._local_tensor.shape
    return None if type(tensor).__name__ == "ShardedTensor" else form


def _tensors_in(state):
    if isinstance(state, torch.Tensor):
        yield state
    elif isinstance(state, (dict, list, tuple)):
        for one in state.values() if isinstance(state, dict) else state:
            yield from _tensors_in(one)
