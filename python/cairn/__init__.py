"""Checkpoints of parallel programs: saved on any number of ranks, restored on any other.

>>> import cairn, numpy, tempfile
>>> directory = tempfile.mkdtemp()
>>> with cairn.CheckpointManager(directory) as manager:
...     prefix = manager.save(1, {"model": {"w": numpy.ones((2, 2))}, "epoch": 3})
>>> list(cairn.open(directory))
['epoch', 'model/w']
"""

from . import libraries  # first: it loads _cairn
from .errors import Error
from ._cairn import MaxShardSizePolicy, SaveHandle, ShardableTensor
from ._cairn import build_options, has_mpi, is_newer_version, option_names
from ._cairn import restore_option_names, stop_option_names
from ._cairn import version as __version__
from .bundle import BundleWriter, merge
from .checkpoint import Checkpoint, Tensor, checkpoints, open, steps
from .cursor import Cursor
from .leaves import described, indexed, nothing, patches, private
from .leaves import ragged, resizable, slice, sparse
from .manager import CheckpointManager, restore_hdf5, set_log, set_wait_limits
from .migration import Application, Migration
from .options import PerDevicePolicy, Saver

__all__ = [
    "Application",
    "BundleWriter",
    "Checkpoint",
    "CheckpointManager",
    "Cursor",
    "Error",
    "MaxShardSizePolicy",
    "Migration",
    "PerDevicePolicy",
    "SaveHandle",
    "Saver",
    "ShardableTensor",
    "Tensor",
    "build_options",
    "checkpoints",
    "described",
    "has_mpi",
    "indexed",
    "is_newer_version",
    "merge",
    "nothing",
    "open",
    "option_names",
    "patches",
    "private",
    "ragged",
    "resizable",
    "restore_hdf5",
    "restore_option_names",
    "set_log",
    "set_wait_limits",
    "slice",
    "sparse",
    "steps",
    "stop_option_names",
]
