"""The answering side of turns.py for peers in Python: one process a rank, driven through pipes.

A peer is a class with PHASES = {contestant number: [methods, one after the other, with a barrier
after each]}, made in each worker as Peer(folder, rank, ranks, tensors). Time runs from the moment
that the workers are told to begin until the slowest has answered.
"""
import json
import multiprocessing
import os
import shutil
import sys
import time
import traceback
from pathlib import Path

SMALL_BYTES = 4096


def own_tensors(state, mib, np):
    """Names and bytes of the tensors of one rank; as lab/bench/sample.cpp cuts them, but a rank's part of
    each is a tensor of its own."""
    if state == "one":
        return {"u": (mib << 20) // np}
    if state == "small":
        return {f"small/{i}": SMALL_BYTES for i in range(2000)}
    small = {f"small/{i}": 2048 // np for i in range(1000)}
    replicas = {f"replica/{i}": (128 << 10) // np for i in range(8)}
    rest = (mib << 20) - 1000 * 2048 - 8 * (128 << 10) - 20 * 8
    medium = {f"medium/{i}": rest * 15 // 100 // 300 // np // 512 * 512 for i in range(300)}
    large = {f"large/{i}": rest * 85 // 400 // np // 8192 * 8192 for i in range(4)}
    return {**small, **replicas, **medium, **large, **{f"scalar/{i}": 8 for i in range(20)}}


def values(sizes, rank):
    """Doubles without a pattern that a disk could compress."""
    import numpy
    random = numpy.random.default_rng(rank)
    return {name: random.random(size // 8) for name, size in sizes.items()}


def sync(path):
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def sync_tree(folder):
    """Syncs what a peer leaves in the page cache, so that its save is as durable as the others."""
    for root, _, files in os.walk(folder):
        for name in files:
            sync(os.path.join(root, name))
        sync(root)


def drop_caches(folder):
    for path in Path(folder).rglob("*"):
        if path.is_file():
            with open(path, "rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    try:
        Path("/proc/sys/vm/drop_caches").write_text("1")
    except OSError:
        pass


def clear(folder):
    shutil.rmtree(folder, ignore_errors=True)
    Path(folder).mkdir(parents=True)


def work(peer_class, folder, rank, ranks, sizes, pipe):
    try:
        peer = peer_class(folder, rank, ranks, values(sizes, rank))
        pipe.send("ready")
        while (method := pipe.recv()) is not None:
            getattr(peer, method)()
            pipe.send("done")
    except Exception:  # pylint: disable=broad-except
        traceback.print_exc()
        pipe.send("failed")


class Workers:
    def __init__(self, peer_class, folder, ranks, sizes):
        context = multiprocessing.get_context("spawn")
        self.pipes, self.processes = [], []
        for rank in range(ranks):
            ours, theirs = context.Pipe()
            process = context.Process(target=work, args=(peer_class, folder, rank, ranks, sizes, theirs), daemon=True)
            process.start()
            self.pipes.append(ours)
            self.processes.append(process)
        self.wait()

    def wait(self):
        for pipe in self.pipes:
            if pipe.recv() == "failed":
                sys.exit("a rank of this peer failed")

    def call(self, method):
        for pipe in self.pipes:
            pipe.send(method)
        self.wait()

    def end(self):
        for pipe in self.pipes:
            pipe.send(None)
        for process in self.processes:
            process.join()


def main(peer_class, contestants):
    """contestants: [(measure, what, folder of its own, before, timed, after)], methods by name;
    `before` may also be "fresh" (an empty folder) or "cold" (nothing in the page cache)."""
    folder, ranks, state, mib = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    messages = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # libraries that print
    clear(folder)
    sizes = own_tensors(state, mib, ranks)
    workers = Workers(peer_class, str(folder), ranks, sizes)

    def answer(line):
        print("@", json.dumps(line), file=messages, flush=True)

    answer({"np": ranks, "contestants": [
        {"measure": measure, "what": what, "yardstick": False, "bytes": sum(sizes.values()) * ranks}
        for measure, what, *_ in contestants]})
    for line in sys.stdin:
        if not line.startswith("run "):
            break
        _, _, place, before, timed, after = contestants[int(line[4:])]
        place = folder / place
        for step in before:
            if step == "fresh":
                clear(place)
            elif step == "cold":
                os.sync()
                drop_caches(place)
            else:
                place.mkdir(exist_ok=True)
                workers.call(step)
        os.sync()
        start = time.monotonic()
        for method in timed:
            workers.call(method)
        seconds = time.monotonic() - start
        for method in after:
            workers.call(method)
        answer({"seconds": seconds})
    workers.end()
    shutil.rmtree(folder, ignore_errors=True)
