"""The tensors that a save leaves where they are until its release."""

import collections.abc
import weakref

import torch

from ..leaves import _refused
from .state import ByName, local_of

_STEP = ".step"

# The saves that an optimizer's next step releases. Its hook stays: PyTorch goes through the hooks while it calls
# them, and raises if one removes itself.
_waiting = weakref.WeakKeyDictionary()


def _release_all(optimizer, *_):
    waiting = _waiting.get(optimizer, [])
    while waiting:
        waiting.pop().release()


def _optimizer_of(value):
    found = value.optimizer if isinstance(value, ByName) else value
    return found if isinstance(found, torch.optim.Optimizer) else None


def _trained(optimizer):
    for group in optimizer.param_groups:
        yield from group["params"]
    for its in optimizer.state.values():
        yield from its.values()


def _values(state):
    for value in state.values():
        if isinstance(value, collections.abc.Mapping):
            yield from _values(value)
        else:
            yield value


class Stays:
    """What the option "until" of a save asks for. `options` are those of the save for the library."""

    def __init__(self, state, options):
        self.options, self.tensors = options, None
        self._optimizer = None
        until = options.get("until")
        if isinstance(until, str) and until.endswith(_STEP):
            self._optimizer = self._named(state, until.removesuffix(_STEP))
            self.options = {**options, "until": "released"}
            self.tensors = list(filter(torch.is_tensor, _trained(self._optimizer)))
        elif isinstance(until, str) and until not in ("captured", "released"):
            raise _refused(f'until="{until}" cannot be used', "nothing has this name",
                           f'Give "captured", "released", or "KEY{_STEP}" with the key of an optimizer in the state.')
        elif until == "released" and isinstance(state, collections.abc.Mapping):
            self.tensors = []
            for value in _values(state):
                optimizer = _optimizer_of(value)
                if optimizer is not None:
                    self.tensors += filter(torch.is_tensor, _trained(optimizer))
                elif isinstance(value, torch.nn.Module):
                    self.tensors += value.parameters()

    @staticmethod
    def _named(state, key):
        value = state
        for name in key.split("/"):
            value = value.get(name) if isinstance(value, collections.abc.Mapping) else None
        optimizer = _optimizer_of(value)
        if optimizer is None:
            raise _refused(f'until="{key}{_STEP}" cannot be used', f"the state has no optimizer {key!r}",
                           "Give the key of an optimizer in the state.")
        return optimizer

    def addresses(self):
        """For the library: where these tensors begin, those of the host and of CUDA's devices; nothing if the option
        is not given. What computes them on a device is complete: the thread that writes does not wait for it."""
        if self.tensors is None:
            return ()
        local = [one for one in map(local_of, self.tensors)
                 if one.device.type in ("cpu", "cuda") and one.numel() > 0]
        for device in {one.device for one in local if one.device.type == "cuda"}:
            torch.cuda.current_stream(device).synchronize()
        return ([one.data_ptr() for one in local],)

    def release_before_step(self, handle):
        """Releases the save before the next step of the optimizer."""
        if self._optimizer is None or getattr(handle, "stage", "") != "captured":
            return
        waiting = _waiting.get(self._optimizer)
        if waiting is None:
            waiting = _waiting[self._optimizer] = []
            self._optimizer.register_step_pre_hook(_release_all)
        waiting.append(handle)
