from collections.abc import Mapping
from typing import Any

import keras

from . import torch

class Checkpoints(keras.callbacks.Callback):  # type: ignore[misc]
    """Goes on from the newest checkpoint when a training begins, and saves at the ends of epochs."""

    manager: torch.Manager
    every: int
    def __init__(self, manager: torch.Manager, every: int = 1) -> None: ...
    def on_train_begin(self, logs: Mapping[str, Any] | None = None) -> None: ...
    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None: ...
    def on_train_end(self, logs: Mapping[str, Any] | None = None) -> None: ...
