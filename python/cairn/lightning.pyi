from os import PathLike
from typing import Any

import lightning.fabric.plugins

class CheckpointIO(lightning.fabric.plugins.CheckpointIO):
    """Each checkpoint is a directory with one of Cairn's in it, which rank 0 writes."""

    options: dict[str, Any]
    def __init__(self, **options: Any) -> None: ...
    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | PathLike[str], storage_options: Any = None
    ) -> None: ...
    def load_checkpoint(
        self,
        path: str | PathLike[str],
        map_location: Any = None,
        weights_only: bool | None = None,
    ) -> dict[str, Any]: ...
    def remove_checkpoint(self, path: str | PathLike[str]) -> None: ...

class AllRanks:
    """For a strategy of Lightning's: class Strategy(cairn.lightning.AllRanks, ModelParallelStrategy)."""

    checkpoints: dict[str, Any]
    def __init__(
        self, *arguments: Any, checkpoints: dict[str, Any] | None = None, **options: Any
    ) -> None: ...
    def save_checkpoint(
        self,
        checkpoint: dict[str, Any],
        filepath: str | PathLike[str],
        storage_options: Any = None,
    ) -> None: ...
    def load_checkpoint(
        self, checkpoint_path: str | PathLike[str], weights_only: bool | None = None
    ) -> dict[str, Any]: ...
    def remove_checkpoint(self, filepath: str | PathLike[str]) -> None: ...
