from collections.abc import Mapping
from os import PathLike
from typing import Any, Generic, TypeVar

import torch.distributed.checkpoint

from .. import CheckpointManager

_T = TypeVar("_T")

class Manager(CheckpointManager):
    """Numbered checkpoints of a PyTorch job: a CheckpointManager whose states may also hold tensors,
    DTensors, and modules, optimizers and all else that has state_dict() and load_state_dict()."""

    def __init__(
        self,
        directory: str | PathLike[str],
        ranks: Any = None,
        *,
        stop: bool | Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None: ...

class PerRank(Generic[_T]):
    value: _T

def per_rank(value: _T) -> PerRank[_T]:
    """A value of which each rank has its own."""

class RandomStates:
    """The random generators of torch, NumPy and Python, of each rank."""

    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, states: Mapping[str, Any]) -> None: ...

class Group:
    @property
    def rank(self) -> int: ...
    @property
    def size(self) -> int: ...

def group(ranks: Any = None) -> Group:
    """What managers are made on. Collective."""

class StorageWriter(torch.distributed.checkpoint.StorageWriter):
    """Saves of torch.distributed.checkpoint as numbered checkpoints in a directory."""

    manager: Manager
    def __init__(
        self, directory: str | PathLike[str], ranks: Any = None, **options: Any
    ) -> None: ...

class StorageReader(torch.distributed.checkpoint.StorageReader):
    """Loads of torch.distributed.checkpoint from a checkpoint of any origin."""

    def __init__(
        self, path: str | PathLike[str] | None = None, ranks: Any = None, *, unpickle: bool = False
    ) -> None: ...
