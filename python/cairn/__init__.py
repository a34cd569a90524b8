"""Checkpoints of parallel programs: saved on any number of ranks, restored on any other.

>>> import cairn, numpy, tempfile
>>> directory = tempfile.mkdtemp()
>>> with cairn.CheckpointManager(directory) as manager:
...     prefix = manager.save(1, {"model": {"w": numpy.ones((2, 2))}, "epoch": 3})
>>> list(cairn.open(directory))
['epoch', 'model/w']
"""

from ._cairn import Error, SaveHandle, build_options, has_mpi, option_names
from ._cairn import restore_option_names, stop_option_names
from ._cairn import version as __version__
from .checkpoint import Checkpoint, Tensor, checkpoints, open, steps
from .leaves import described, nothing, patches, slice
from .manager import CheckpointManager

__all__ = [
    "Checkpoint",
    "CheckpointManager",
    "Error",
    "SaveHandle",
    "Tensor",
    "build_options",
    "checkpoints",
    "described",
    "has_mpi",
    "nothing",
    "open",
    "option_names",
    "patches",
    "restore_option_names",
    "slice",
    "steps",
    "stop_option_names",
]
