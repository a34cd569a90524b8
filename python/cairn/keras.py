"""Checkpoints of Keras's model.fit, with PyTorch as its backend.

    manager = cairn.torch.Manager("run", max_to_keep=3)
    model.fit(inputs, targets, epochs=30, callbacks=[cairn.keras.Checkpoints(manager)])
"""

import keras

from . import torch
from .leaves import _refused

__all__ = ["Checkpoints"]


def _tensors_of(variables):
    """The tensors of variables by path; with a number if several variables share a path."""
    tensors = {}
    for number, one in enumerate(variables):
        tensors[f"{one.path}_{number}" if one.path in tensors else one.path] = one.value.detach()
    return tensors


class Checkpoints(keras.callbacks.Callback):
    """Restores the newest checkpoint when a training begins, and saves at the ends of epochs: the variables
    of the model and its optimizer, and the random generators. The step of a checkpoint is the number of
    completed epochs.

    manager  a cairn.torch.Manager
    every    saves each so many epochs; the last one is always saved
    """

    def __init__(self, manager, every=1):
        super().__init__()
        if keras.backend.backend() != "torch":
            raise _refused("this callback cannot be used", f"Keras runs on {keras.backend.backend()}",
                           "Set KERAS_BACKEND=torch before keras is imported.", code="unsupported")
        self.manager, self.every = manager, every
        self._epoch = self._saved = None

    def _state(self):
        return {"model": _tensors_of(self.model.variables), "optimizer": _tensors_of(self.model.optimizer.variables),
                "random": torch.RandomStates(), "epoch": self._epoch}

    def on_train_begin(self, logs=None):
        if not self.model.optimizer.built:
            self.model.optimizer.build(self.model.trainable_variables)
        state = self._state()
        report = self.manager.restore_latest(state)
        if report is not None:
            self._epoch = self._saved = self.model._initial_epoch = state["epoch"]

    def on_epoch_end(self, epoch, logs=None):
        self._epoch = epoch + 1
        if self._epoch % self.every == 0:
            self._save()

    def on_train_end(self, logs=None):
        if self._epoch != self._saved:
            self._save()
        self.model._initial_epoch = None

    def _save(self):
        self.manager.save(self._epoch, self._state())
        self._saved = self._epoch
