from os import PathLike
from typing import Any
from collections.abc import Mapping

from . import CheckpointManager

class Manager(CheckpointManager):
    """Numbered checkpoints of a JAX job: a CheckpointManager whose states are dicts of pytrees."""

    def __init__(
        self,
        directory: str | PathLike[str],
        comm: Any = None,
        *,
        stop: bool | Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None: ...
