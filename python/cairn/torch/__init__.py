"""Checkpoints of PyTorch programs, on one process or on all of a job.

>>> import cairn.torch, tempfile, torch
>>> model = torch.nn.Linear(2, 3)
>>> with cairn.torch.Manager(tempfile.mkdtemp()) as manager:
...     prefix = manager.save(10, {"model": model, "step": 10})
...     state = {"model": torch.nn.Linear(2, 3), "step": 0}
...     report = manager.restore_latest(state)
>>> bool((state["model"].weight == model.weight).all()), state["step"]
(True, 10)
"""

from .cursor import Cursor
from .group import group
from .manager import Manager
from .state import RandomStates, by_name, per_rank

__all__ = ["Cursor", "Manager", "RandomStates", "StorageReader", "StorageWriter", "by_name", "group", "per_rank"]


def __getattr__(name):
    # Imported late: torch.distributed.checkpoint takes long to import, and not every program uses it.
    if name in ("StorageReader", "StorageWriter"):
        from . import dcp

        return getattr(dcp, name)
    raise AttributeError(f"module 'cairn.torch' has no attribute {name!r}")
