"""CPU of a save of many small tensors by one process: Cairn's own, beside that of state_dict() and of the bytes.

    PYTHONPATH=BUILD/python BUILD/torch-venv/bin/python lab/bench/torch_many.py [--tensors 10000] [--rounds 9] [DIRECTORY]

Every round does each thing once, in turn. Times are of all threads of the process, in user and kernel.
Cairn's own is that of a save, less state_dict() and a copy and a write of as many bytes, with fsync.
"""

import argparse
import contextlib
import os
import statistics
import tempfile
import time

import torch

import cairn.torch


class Many(torch.nn.Module):
    """Layers with a weight and a bias each."""

    def __init__(self, tensors, width):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(width, width) for _ in range(tensors // 2))


def cpu_of(call):
    """Milliseconds of CPU of the process and of this thread, and on the clock."""
    begin = time.process_time(), time.thread_time(), time.perf_counter()
    call()
    end = time.process_time(), time.thread_time(), time.perf_counter()
    return [(b - a) * 1e3 for a, b in zip(begin, end)]


def write(place, data):
    with open(f"{place}/plain", "wb", buffering=0) as file:
        file.write(bytearray(data))
        os.fsync(file.fileno())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", nargs="?", help="where to save (default: $TMPDIR)")
    parser.add_argument("--tensors", type=int, default=10_000)
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    torch.set_num_threads(1)
    with contextlib.ExitStack() as stack:
        place = stack.enter_context(tempfile.TemporaryDirectory(dir=options.directory))
        model = Many(options.tensors, options.width)
        plain = list(model.state_dict().values())
        data = torch.cat([one.flatten() for one in plain]).numpy().tobytes()
        manager = stack.enter_context(cairn.torch.Manager(
            f"{place}/run", max_to_keep=2, write={"skip_unchanged": "off"}))
        bind, bound = manager._saving, []

        def saving(state):
            made = []
            bound.append(cpu_of(lambda: made.append(bind(state))))
            return made[0]

        manager._saving = saving
        rounds = []
        for step in range(options.rounds + 2):
            one = {"state_dict()": cpu_of(model.state_dict), "the bytes": cpu_of(lambda: write(place, data)),
                   "a save": cpu_of(lambda: manager.save(step, {"model": model}))}
            one["of it the state"] = bound.pop()
            if step > 1:
                rounds.append(one)
            elif step == 0:
                print(f"{len(plain)} tensors, {len(data) / 1e6:.1f} MB; the first save: {one['a save'][0]:.1f} ms of CPU")
        for name in rounds[0]:
            cpu, main, wall = zip(*(one[name] for one in rounds))
            print(f"{name:16} {min(cpu):7.1f} ms of CPU at least, {statistics.median(cpu):7.1f} in the middle; of the "
                  f"main thread {min(main):.1f}; on the clock {min(wall):.1f}")
        # Other programs make CPU times longer, too, so the smallest are nearest to the truth.
        own = [one["a save"][0] - one["state_dict()"][0] - one["the bytes"][0] for one in rounds]
        least = [min(one[name][0] for one in rounds) for name in ("a save", "state_dict()", "the bytes")]
        state = min(one["of it the state"][0] for one in rounds)
        print(f"Cairn's own: {least[0] - least[1] - least[2]:.1f} ms of CPU, by the least of each; {statistics.median(own):.1f} "
              f"in the middle of the rounds. Behind the state, in C++ and with the bytes: {least[0] - state:.1f}")


if __name__ == "__main__":
    main()
