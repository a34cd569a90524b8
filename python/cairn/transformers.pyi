from typing import Any

import transformers

from . import torch

class Checkpoints:
    """For a Trainer of one's own: class MyTrainer(cairn.transformers.Checkpoints, transformers.Trainer)."""

    manager: torch.Manager
    def __init__(self, *arguments: Any, manager: torch.Manager, **options: Any) -> None: ...
    def train(
        self, resume_from_checkpoint: str | bool | None = None, *arguments: Any, **options: Any
    ) -> Any: ...

class Trainer(Checkpoints, transformers.Trainer):
    """A transformers.Trainer whose checkpoints are those of a cairn.torch.Manager."""
