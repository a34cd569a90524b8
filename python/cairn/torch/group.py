"""Makes the ranks of torch.distributed a group for the library."""

import datetime
import hashlib
import os
import socket

import torch
import torch.distributed as dist

from .. import _cairn
from ..leaves import _error


def group(ranks=None):
    """Collective over `ranks`. Makes the group for managers.

    ranks  None: all ranks of torch.distributed, or one if it is not initialised; a process group;
           or a communicator of mpi4py

    From a process group it makes another one, of gloo, whatever the backend of the given one. Only
    checkpoints send messages in it, so they never mix with the application's collectives, which
    another thread may use. Its timeout is a day; cairn.set_wait_limits limits waits.
    """
    if ranks is not None and not isinstance(ranks, dist.ProcessGroup):
        return ranks if isinstance(ranks, _cairn.Group) else _cairn.group_of(ranks)
    if ranks is not None and not _is_alive(ranks):
        raise _error("ranks", "the process group was destroyed", "Give one that is in use.")
    if not dist.is_available() or not dist.is_initialized():
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            raise _error("ranks", "WORLD_SIZE says that there are several, and torch.distributed is "
                         "not initialised", "Call torch.distributed.init_process_group() first.")
        return _cairn.group_of(None)
    members = dist.get_process_group_ranks(ranks if ranks is not None else dist.group.WORLD)
    if dist.get_rank() not in members:
        raise _error("ranks", f"rank {dist.get_rank()} is not in the process group",
                     "Make the manager on the ranks of the group only.")
    if len(members) == 1:
        return _cairn.group_of(None)
    own = dist.new_group(
        members, backend="gloo", timeout=datetime.timedelta(days=1),
        use_local_synchronization=ranks is not None,  # else every rank of the job would have to call this
    )
    return _cairn.torch_group(own, _nodes(own, len(members)))


def _is_alive(process_group):
    if not dist.is_initialized():
        return False
    try:
        return len(dist.get_process_group_ranks(process_group)) > 0
    except (KeyError, ValueError):
        return False


_of_readers = {}


def group_of_readers(ranks=None):
    """The same, made once for all readers: to make one takes longer than to read a small model, and a
    reader ends before another one begins."""
    if ranks is None and dist.is_available() and dist.is_initialized():
        ranks = dist.group.WORLD
    if not isinstance(ranks, dist.ProcessGroup):
        return group(ranks)
    known = _of_readers.get(id(ranks))
    if known is None or known[0] is not ranks:
        world = ranks is dist.group.WORLD
        known = _of_readers[id(ranks)] = ranks, group(None if world else ranks)
    return known[1]


def _nodes(own, size):
    """The node of each rank: ranks of one host have the same number."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            boot = file.read()
    except OSError:
        boot = ""
    name = hashlib.sha256(f"{socket.gethostname()} {boot}".encode()).digest()
    mine = torch.frombuffer(bytearray(name[:8]), dtype=torch.int64)
    all_names = [torch.empty_like(mine) for _ in range(size)]
    dist.all_gather(all_names, mine, group=own)
    numbers = {}
    return [numbers.setdefault(one.item(), len(numbers)) for one in all_names]
