"""Jobs of torch.distributed whose ranks are forked: torch is imported once for all of them."""

import os
import select
import signal
import sys
import tempfile
import traceback

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")

import torch
import torch.distributed as dist

LIMIT_SECONDS = 100  # for what hangs


def _rank(rank, size, store, function, arguments):
    torch.set_num_threads(1)
    if size > 0:
        dist.init_process_group("gloo", store=dist.FileStore(store, size), rank=rank,
                                world_size=size)
    function(*arguments)
    if dist.is_initialized():
        dist.destroy_process_group()


def job(size, function, *arguments):
    """Runs the function on `size` ranks; 0: on one without torch.distributed. Raises the errors of
    any of them."""
    with tempfile.TemporaryDirectory() as place:
        ranks = []
        for rank in range(max(size, 1)):
            ends = os.pipe()
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    os.close(ends[0])
                    _rank(rank, size, os.path.join(place, "store"), function, arguments)
                    status = 0
                except BaseException:
                    os.write(ends[1], traceback.format_exc()[-60000:].encode())
                finally:
                    import cairn.manager

                    try:
                        cairn.manager._end_all()
                    finally:
                        sys.stdout.flush()
                        os._exit(status)
            os.close(ends[1])
            ranks.append((child, ends[0]))
        told = []
        for rank, (child, end) in enumerate(ranks):
            text = b""
            while True:
                if not select.select([end], [], [], LIMIT_SECONDS)[0]:
                    for other, _ in ranks:
                        os.kill(other, signal.SIGKILL)
                    text += b"it hangs"
                    break
                piece = os.read(end, 65536)
                if not piece:
                    break
                text += piece
            os.close(end)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            if status != 0:
                told.append(f"rank {rank} of {size} ended with {status}:\n{text.decode()}")
        if told:
            raise AssertionError("\n".join(told))
