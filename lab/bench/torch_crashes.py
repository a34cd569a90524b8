"""What a job finds that was killed while it saved: through Cairn, and in DCP's own files.

    BUILD/torch-venv/bin/python lab/bench/torch_crashes.py [--kills N] [--mib N] [--directory DIR]

PYTHONPATH=BUILD/python. Two ranks of gloo save a sharded state again and again, by dcp.save, whose
numbers are all that of the step. Both are killed with SIGKILL at a random time after their first
save. Another job of two ranks then loads what it finds: of DCP, which was given one path for all
saves, that path; or, with a directory for each step, the newest one; of Cairn its directory. Prints
how often all numbers were those of one step, those of several, or an error.
"""

import argparse
import os
import random
import select
import signal
import sys
import tempfile
import time
import warnings

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tests/python"))
import torch_jobs  # first: it sets what torch reads when it is imported

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard

import cairn.torch

RANKS, TENSORS = 2, 16


def state_of(step, mib):
    mesh = init_device_mesh("cpu", (RANKS,))
    rows = mib * (1 << 20) // 4 // TENSORS // 1024
    return {f"w{number}": DTensor.from_local(torch.full((rows, 1024), float(step)), mesh, [Shard(0)],
                                             run_check=False) for number in range(TENSORS)}


def saves_for_ever(way, place, mib, told):
    warnings.simplefilter("ignore")
    state = state_of(0, mib)
    writer = cairn.torch.StorageWriter(place, max_to_keep=2) if way == "Cairn" else None
    step = 0
    while True:
        step += 1
        for one in state.values():
            one.to_local().fill_(step)
        if way == "Cairn":
            dcp.save(state, checkpoint_id=f"{place}/ckpt-{step}", storage_writer=writer)
        else:
            path = place if way == "DCP, one path" else f"{place}/{step:06}"
            dcp.save(state, storage_writer=dcp.FileSystemWriter(path, sync_files=True))
        if step == 1 and dist.get_rank() == 0:
            os.write(told, b"saved")


def loads(way, place, mib, told):
    warnings.simplefilter("ignore")
    state = state_of(-1, mib)
    try:
        if way == "Cairn":
            reader = cairn.torch.StorageReader(place)
        else:
            newest = place if way == "DCP, one path" else os.path.join(place, max(os.listdir(place)))
            reader = dcp.FileSystemReader(newest)
        dcp.load(state, storage_reader=reader)
    except BaseException as failure:  # DCP's own, of several ranks, is no Exception
        if dist.get_rank() == 0:
            os.write(told, f"an error ({type(failure).__name__})".encode())
        return
    of_all = [None] * RANKS
    found = {value for one in state.values() for value in one.to_local().unique().tolist()}
    dist.all_gather_object(of_all, found)
    if dist.get_rank() == 0:
        os.write(told, b"one step" if len(set().union(*of_all)) == 1 else b"numbers of several steps")


def started(function, way, place, mib):
    """Forks a job in a process group of its own; returns its id and a pipe on which it reports."""
    ends = os.pipe()
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        os.close(ends[0])
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1), os.dup2(silent, 2)
        try:
            torch_jobs.job(RANKS, function, way, place, mib, ends[1])
        finally:
            os._exit(0)
    os.close(ends[1])
    return child, ends[0]


def one_crash(way, place, mib):
    child, end = started(saves_for_ever, way, place, mib)
    if not select.select([end], [], [], 120)[0]:
        sys.exit(f"{way}: no save in two minutes")
    time.sleep(random.uniform(0, 0.5))  # which is what is measured: any moment of a save
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    while select.select([end], [], [], 120)[0] and os.read(end, 100):
        pass  # until the ranks, too, are gone
    os.close(end)
    child, end = started(loads, way, place, mib)
    told = os.read(end, 1000).decode() or "the job ended without a word"
    os.close(end)
    os.waitpid(child, 0)
    return told


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--mib", type=int, default=16, help="of each rank")
    parser.add_argument("--directory", default=None)
    arguments = parser.parse_args()
    random.seed(23)
    ways = ("Cairn", "DCP, one path", "DCP, a directory a step")
    found = {way: {} for way in ways}
    for number in range(arguments.kills):
        for way in ways:
            with tempfile.TemporaryDirectory(dir=arguments.directory) as place:
                told = one_crash(way, place, arguments.mib)
            found[way][told] = found[way].get(told, 0) + 1
    for way in ways:
        print(f"{way}, {arguments.kills} kills:", ", ".join(
            f"{count} × {told}" for told, count in sorted(found[way].items())), flush=True)


main()
