"""Samples for the ranks of torch.distributed."""

import os
import types

import torch.distributed as dist

from .. import cursor
from ..leaves import _error


def _places(ranks):
    if ranks is not None:
        return ranks
    if dist.is_available() and dist.is_initialized():
        return types.SimpleNamespace(rank=dist.get_rank(), size=dist.get_world_size())
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise _error("ranks", "WORLD_SIZE says that there are several, and torch.distributed is not initialised",
                     "Call torch.distributed.init_process_group() first.")
    return None


class Cursor(cursor.Cursor):
    """cairn.Cursor over the ranks of torch.distributed: deals the samples of an epoch, each once, to any
    number of ranks. It is a sampler for DataLoaders.

    ranks  the ranks that get the samples. None: all of torch.distributed, or one if it is not
           initialised; or a process group, such as mesh["data"].get_group(): ranks with the same
           number in different groups take the same samples

    >>> import cairn.torch
    >>> data = cairn.torch.Cursor(10, shuffle=False)
    >>> loader = torch.utils.data.DataLoader(range(10), batch_size=4, sampler=data)
    >>> for batch in data.over(loader):
    ...     print(batch.tolist())
    ...     data.done()             # before a save that the loop's body ends with
    [0, 1, 2, 3]
    [4, 5, 6, 7]
    [8, 9]
    >>> data.epoch
    1
    """

    __slots__ = ()

    def __init__(self, samples, ranks=None, *, seed=0, shuffle=True):
        super().__init__(samples, _places(ranks), seed=seed, shuffle=shuffle)
