"""cairn.torch beside torch.distributed.checkpoint's own files, and beside plain files, in one run.

    BUILD/torch-venv/bin/python lab/bench/torch_beside_dcp.py [--mib N] [--rounds N] [--directory DIR]

PYTHONPATH=BUILD/python, CAIRN_TOOL=BUILD/bin/cairn. Two ranks of gloo hold N MiB each of a sharded
model of 64 tensors. Every round does each thing once, in turn, so that what the machine does beside
meets all of them; the first round is left out. All saves go to new files and call fsync. What is
read has just been written, so it is in the page cache; then it leaves that, and is read from disk.
Then the plan of 10,000 small DTensors on
four ranks, and safetensors out and in by one process, beside a save and a restore by one. Prints
least, median and largest of each, and the median of the ratios within the rounds.
"""

import argparse
import glob
import mmap
import os
import shutil
import statistics
import subprocess
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

job, torch_jobs.LIMIT_SECONDS = torch_jobs.job, 3600
RANKS, TENSORS, MANY = 2, 64, 10_000


def seconds_of(call):
    """Seconds of the slowest rank; ranks begin together."""
    several = dist.is_initialized()
    if several:
        dist.barrier()
    begin = time.perf_counter()
    result = call()
    took = torch.tensor(time.perf_counter() - begin)
    if several:
        dist.all_reduce(took, dist.ReduceOp.MAX)
    return took.item(), result


def model(mib, mesh):
    rows = mib * (1 << 20) // 4 // TENSORS // 1024
    return {f"w{number}": DTensor.from_local(torch.rand(rows, 1024), mesh, [Shard(0)], run_check=False)
            for number in range(TENSORS)}


def write_plainly(path, tensors):
    with open(path, "wb", buffering=0) as file:
        for one in tensors:
            left = memoryview(one.numpy()).cast("B")
            while left:
                left = left[file.write(left):]
        os.fsync(file.fileno())


class Direct:
    """Raw I/O past the page cache, of as many bytes, with aligned memory."""

    PIECE = 8 << 20

    def __init__(self, size):
        self._size, self._memory = size, mmap.mmap(-1, self.PIECE)
        self._memory.write(os.urandom(self.PIECE))

    def _pieces(self, path, flags, call):
        file = os.open(path, flags | os.O_DIRECT, 0o666)
        for at in range(0, self._size, self.PIECE):
            size = min(self.PIECE, self._size - at)
            if call(file, [memoryview(self._memory)[:size]], at) != size:
                raise OSError(f"{path}: less than {size} bytes")
        return file

    def write(self, path):
        file = self._pieces(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, os.pwritev)
        os.fsync(file)
        os.close(file)

    def read(self, path):
        os.close(self._pieces(path, os.O_RDONLY, os.preadv))


def forget(*patterns):
    """Makes files durable and drops them from the page cache."""
    together = dist.barrier if dist.is_initialized() else lambda: None
    together()
    for path in (one for pattern in patterns for one in glob.glob(pattern)):
        file = os.open(path, os.O_RDONLY)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)
    together()


def read_plainly(path, tensors):
    with open(path, "rb", buffering=0) as file:
        for one in tensors:
            left = memoryview(one.numpy()).cast("B")
            while left:
                left = left[file.readinto(left):]


def one_round(place, number, state, writer, apart):
    mine = [one.to_local() for one in state.values()]
    target = {key: DTensor.from_local(torch.zeros_like(one.to_local()), one.device_mesh, [Shard(0)],
                                      run_check=False) for key, one in state.items()}
    plain, theirs = f"{place}/plain-{number}-{dist.get_rank()}", f"{place}/dcp-{number}"
    direct, raw = Direct(sum(one.nbytes for one in mine)), plain + "-direct"
    step = 2 * number + 1
    ours = f"{place}/cairn/ckpt-{step}"
    took = {}

    def timed(name, call):
        took[name], result = seconds_of(call)
        return result

    timed("copy in memory", lambda: [torch.clone(one) for one in mine])
    timed("save: raw, O_DIRECT", lambda: direct.write(raw))
    timed("save: plain new files", lambda: write_plainly(plain, mine))
    timed("save: DCP's writer", lambda: dcp.save(
        state, storage_writer=dcp.FileSystemWriter(theirs, sync_files=True)))
    timed("save: dcp.save, Cairn", lambda: dcp.save(state, checkpoint_id=ours, storage_writer=writer))
    into = [one.to_local() for one in target.values()]
    loads = [("plain files", lambda: read_plainly(plain, into)),
             ("DCP's reader", lambda: dcp.load(target, storage_reader=dcp.FileSystemReader(theirs))),
             ("dcp.load, Cairn", lambda: dcp.load(
                 target, storage_reader=cairn.torch.StorageReader(ours)))]
    for name, load in loads:
        timed(f"load: {name}", load)
    for name, load in loads:
        forget(plain, f"{theirs}/*", f"{ours}*")
        timed(f"from disk: {name}", load)
    timed("from disk: raw, O_DIRECT", lambda: direct.read(raw))
    assert all(torch.equal(a.to_local(), b.to_local()) for a, b in zip(state.values(), target.values()))
    future = timed("blocked: DCP's writer", lambda: dcp.async_save(
        state, process_group=apart,
        storage_writer=dcp.FileSystemWriter(theirs + "-async", sync_files=True)))
    future.result()
    dist.barrier()
    future = timed("blocked: dcp.async_save, Cairn", lambda: dcp.async_save(
        state, process_group=apart, checkpoint_id=f"{place}/cairn/ckpt-{step + 1}",
        storage_writer=writer))
    future.result()
    dist.barrier()
    if dist.get_rank() == 0:
        shutil.rmtree(theirs)
        shutil.rmtree(theirs + "-async")
    os.remove(plain)
    os.remove(raw)
    return took


def beside(place, mib, rounds):
    warnings.simplefilter("ignore")
    state = model(mib, init_device_mesh("cpu", (RANKS,)))
    # Nothing is removed during measurements: DCP and plain files remove nothing either.
    writer = cairn.torch.StorageWriter(f"{place}/cairn", max_to_keep=0, write={"recycle": False})
    apart = dist.new_group(backend="gloo")  # DCP's thread sends messages while ours do
    took = [one_round(place, number, state, writer, apart) for number in range(rounds)][1:]
    writer.manager.close()
    if dist.get_rank() == 0:
        bytes_of_all = RANKS * sum(one.to_local().nbytes for one in state.values())
        show(took, bytes_of_all, [
            ("save: dcp.save, Cairn", "save: raw, O_DIRECT"),
            ("save: dcp.save, Cairn", "save: plain new files"),
            ("save: dcp.save, Cairn", "save: DCP's writer"),
            ("load: dcp.load, Cairn", "load: plain files"),
            ("load: dcp.load, Cairn", "load: DCP's reader"),
            ("from disk: dcp.load, Cairn", "from disk: raw, O_DIRECT"),
            ("from disk: dcp.load, Cairn", "from disk: plain files"),
            ("from disk: dcp.load, Cairn", "from disk: DCP's reader"),
            ("blocked: dcp.async_save, Cairn", "blocked: DCP's writer")])


def plans(place):
    """Planning: a state is made of the tensors, or recognised as that of the save before, and
    ranks agree on the writers. CPU seconds are those of one rank, including its waits."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    state = {f"{number}": DTensor.from_local(torch.zeros(2), mesh, [Shard(0)], run_check=False)
             for number in range(MANY)}
    with cairn.torch.Manager(place) as manager:
        bind, bound = manager._saving, {}

        def measured(*arguments):
            begin, cpu = time.perf_counter(), time.process_time()
            binding = bind(*arguments)
            bound.update(wall=time.perf_counter() - begin, cpu=time.process_time() - cpu)
            return binding

        manager._saving = measured
        for step in range(6):
            cpu = time.process_time()
            saved = seconds_of(lambda: manager.save(step, state))[0]
            cpu = time.process_time() - cpu
            plan = manager.statistics()["last"][-1]["seconds"]["plan"]
            of_all = [None] * dist.get_world_size()
            dist.all_gather_object(of_all, (bound["cpu"], cpu))
            if dist.get_rank() == 0:
                print(f"{MANY} DTensors on {dist.get_world_size()} ranks, save {step + 1}: "
                      f"{saved * 1e3:.0f} ms, of which planning {(bound['wall'] + plan) * 1e3:.1f}: "
                      f"the state {bound['wall'] * 1e3:.1f}, the plan {plan * 1e3:.1f}; CPU of the "
                      f"state and of all, by rank: "
                      + ", ".join(f"{a * 1e3:.1f}/{b * 1e3:.0f}" for a, b in of_all), flush=True)


def cached(*patterns):
    """Reads files into the page cache."""
    for path in (one for pattern in patterns for one in glob.glob(pattern)):
        with open(path, "rb", buffering=0) as file:
            while file.read(1 << 20):
                pass


def copy_plainly(source, destination):
    with open(source, "rb", buffering=0) as source, open(destination, "wb", buffering=0) as copy:
        while piece := source.read(1 << 20):
            copy.write(piece)
        os.fsync(copy.fileno())


def one_process(place, mib, rounds):
    rows = mib * (1 << 20) // 4 // TENSORS // 1024
    state = {f"w{number}": torch.rand(rows, 1024) for number in range(TENSORS)}
    tool = os.environ["CAIRN_TOOL"]
    took = []
    for number in range(rounds):
        one = {}
        here = f"{place}/{number}"
        prefix, file = f"{here}/ckpt-1", f"{here}/m.safetensors"

        def timed(name, call):
            one[name] = seconds_of(call)[0]

        def tool_seconds(name, *words):
            timed(name, lambda: subprocess.run([tool, "convert", *words], check=True,
                                               stdout=subprocess.DEVNULL))

        os.mkdir(here)
        with cairn.torch.Manager(here) as manager:
            timed("save", lambda: manager.save(1, state))
            forget(f"{prefix}*")
            timed("restore", lambda: manager.restore(1, state))
        for where, prepare in (("disk", forget), ("cache", cached)):
            prepare(f"{prefix}*")
            tool_seconds(f"safetensors out, from {where}", prefix, f"{here}/{where}.safetensors")
            prepare(f"{prefix}*")
            tool_seconds(f"Zarr out, from {where}", prefix, f"{here}/{where}.zarr")
            os.rename(f"{here}/{where}.safetensors", file)
            prepare(file)
            timed(f"plain copy, from {where}", lambda: copy_plainly(file, f"{here}/copy"))
            prepare(file)
            os.mkdir(f"{here}/{where}")
            tool_seconds(f"safetensors in, from {where}", file, f"{here}/{where}/in-1")
        shutil.rmtree(here)
        took.append(one)
    show(took[1:], sum(one.nbytes for one in state.values()), [
        (f"{what}, from {where}", than) for where in ("disk", "cache") for what, than in (
            ("safetensors out", "save"), ("safetensors out", f"plain copy, from {where}"),
            ("safetensors in", "restore"), ("safetensors in", "save"),
            ("safetensors in", f"plain copy, from {where}"), ("Zarr out", "save"))])


def show(took, size, ratios):
    print(f"\n{len(took)} rounds, {size / (1 << 20):.0f} MiB in all")
    print(f"{'':32} {'least':>9} {'median':>9} {'most':>9}      GiB/s")
    for name in took[0]:
        all_seconds = sorted(one[name] for one in took)
        middle = statistics.median(all_seconds)
        print(f"{name:32} {all_seconds[0]:8.3f}s {middle:8.3f}s {all_seconds[-1]:8.3f}s "
              f"{size / (1 << 30) / middle:10.2f}")
    for ours, other in ratios:
        ratio = statistics.median(one[other] / one[ours] for one in took)
        print(f"{ours} is {ratio:.2f} times as fast as {other}")
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mib", type=int, default=128, help="of each rank")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--directory", default=None, help="on the disk that is to be measured")
    parser.add_argument("--only", choices=["ranks", "plans", "files"], help="one of the three parts")
    arguments = parser.parse_args()
    only = arguments.only
    with tempfile.TemporaryDirectory(dir=arguments.directory) as place:
        if only in (None, "ranks"):
            job(RANKS, beside, place, arguments.mib, arguments.rounds)
        for ranks in (1, 4) if only in (None, "plans") else ():
            job(ranks, plans, f"{place}/plans-{ranks}")
        if only in (None, "files"):
            os.mkdir(f"{place}/one")
            one_process(f"{place}/one", arguments.mib, arguments.rounds)


main()
