from collections.abc import Mapping
from os import PathLike
from typing import Any, Generic, TypeVar

import torch
from torch.distributed.checkpoint import storage
from torch.distributed.checkpoint.metadata import Metadata, StorageMeta
from torch.distributed.checkpoint.planner import LoadPlan, LoadPlanner, SavePlan, SavePlanner
from torch.futures import Future

from .. import CheckpointManager
from .. import Cursor as _Cursor

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

class Cursor(_Cursor):
    """cairn.Cursor over the ranks of torch.distributed."""

    def __init__(
        self, samples: int, ranks: Any = None, *, seed: int = 0, shuffle: bool = True
    ) -> None: ...

class PerRank(Generic[_T]):
    value: _T

def per_rank(value: _T) -> PerRank[_T]:
    """A value of which each rank has its own."""

class ByName:
    def state_dict(self) -> dict[str, Any]: ...

def by_name(optimizer: torch.optim.Optimizer, *modules: torch.nn.Module) -> ByName:
    """An optimizer whose state is saved under the names of its parameters."""

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

class StorageWriter(storage.StorageWriter):
    """Saves of torch.distributed.checkpoint as numbered checkpoints in a directory."""

    manager: Manager
    def __init__(
        self, directory: str | PathLike[str], ranks: Any = None, **options: Any
    ) -> None: ...
    def reset(self, checkpoint_id: str | PathLike[str] | None = None) -> None: ...
    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None: ...
    def prepare_local_plan(self, plan: SavePlan) -> SavePlan: ...
    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]: ...
    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[storage.WriteResult]]: ...
    def finish(self, metadata: Metadata, results: list[list[storage.WriteResult]]) -> None: ...
    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | PathLike[str]) -> bool: ...
    def storage_meta(self) -> StorageMeta | None: ...

class StorageReader(storage.StorageReader):
    """Loads of torch.distributed.checkpoint from a checkpoint of any origin."""

    def __init__(
        self, path: str | PathLike[str] | None = None, ranks: Any = None, *, unpickle: bool = False
    ) -> None: ...
    def reset(self, checkpoint_id: str | PathLike[str] | None = None) -> None: ...
    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata: ...
    def set_up_storage_reader(
        self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any
    ) -> None: ...
    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan: ...
    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]: ...
    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]: ...
    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | PathLike[str]) -> bool: ...
