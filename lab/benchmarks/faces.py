#!/usr/bin/env python3
"""What the faces of other languages cost beside C++: scripts/bench --faces [options].

The four programs live on and take turns, in an order drawn anew, each with a directory of its own on
one file system; who has no turn sleeps. Each save is of the same bytes, over the files of the
checkpoint before the last, fsynced. Also: what a lazy reader reads of a tensor of 1 GiB, by the
kernel's count, and how long `import cairn` takes beyond `import numpy`.
"""

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
GOALS = {"Python": 1.03, "C": 1.01, "Fortran": 1.01}


class Contestant:
    def __init__(self, name, program, place, options):
        self.name, self.place = name, os.path.join(place, name)
        os.mkdir(self.place)
        for rank in range(options.ranks):
            os.mkfifo(f"{self.place}/go.{rank}")
        each = options.mib * 2**20 // options.ranks // 4096 * 4096
        self.job = subprocess.Popen(
            ["mpirun", "--oversubscribe", "-n", str(options.ranks), *program, self.place, str(each)],
            stdout=subprocess.PIPE, text=True, env=options.environment)
        self.go = [open(f"{self.place}/go.{rank}", "w") for rank in range(options.ranks)]

    def say(self, line):
        for one in self.go:
            one.write(line + "\n")
            one.flush()

    def turn(self):
        self.say("save")
        told = self.job.stdout.readline()
        if not told:
            sys.exit(f"{self.name} ended with {self.job.wait()}")
        return float(told)

    def end(self):
        self.say("end")
        if self.job.wait() != 0:
            sys.exit(f"{self.name} ended with {self.job.returncode}")


def same_bytes(contestants):
    """Checks that all contestants have saved the same amount."""
    sizes = set()
    for one in contestants:
        run = os.path.join(one.place, "run")
        files = [name for name in os.listdir(run) if ".data-" in name]
        # Some bytes of metadata, such as the time, vary with the digits of their numbers.
        sizes.add((len(files), sum(os.path.getsize(os.path.join(run, name)) for name in files) // 4096))
    if len(sizes) != 1:
        sys.exit(f"files, and their pages, differ: {sizes}")


def saves(options, place):
    programs = {name: [os.path.join(options.build, "bin", "faces_" + name.lower())] for name in ["C", "Fortran"]}
    programs["C++"] = [os.path.join(options.build, "bin", "faces_cpp")]
    programs["Python"] = [options.python, os.path.join(HERE, "faces_save.py")]
    seconds = {name: [] for name in programs}
    for start in range(options.starts):
        there = os.path.join(place, str(start))
        os.mkdir(there)
        contestants = [Contestant(name, program, there, options) for name, program in programs.items()]
        for repetition in range(-3, options.repetitions):  # the first ones make their files
            random.shuffle(contestants)
            for one in contestants:
                subprocess.run(["sync", "-f", there], check=True)
                took = one.turn()
                if repetition >= 0:
                    seconds[one.name].append(took)
        for one in contestants:
            one.end()
        same_bytes(contestants)
        shutil.rmtree(there)
    return seconds


def python(options, code, *arguments):
    told = subprocess.run([options.python, "-c", code, *arguments], env=options.environment,
                          capture_output=True, text=True)
    if told.returncode != 0:
        sys.exit(told.stderr)
    return json.loads(told.stdout)


LAZY = """
import json, sys, cairn, numpy as np
rows, parts = 1024, 64  # of 1 MiB; slices of 16 MiB
prefix = sys.argv[1] + "/lazy"
one = np.random.default_rng(1).random((rows // parts, 2**17))
shape = (rows, 2**17)
with cairn.CheckpointManager(prefix) as manager:
    path = manager.save(1, {"u": cairn.patches([cairn.slice(one, shape, (i, 0))
                                                for i in range(0, rows, rows // parts)])})
def count():
    with open("/proc/self/io") as file:
        return int(file.readline().split()[1])  # rchar: what read calls have returned
before = count()
opened = cairn.open(path)["u"]
between = count()
row = opened[500]
after = count()
assert row.tobytes() == one[500 % (rows // parts)].tobytes()
print(json.dumps({"slice": opened.slices[0][4], "open": between - before, "read": after - between,
                  "tensor": one.nbytes * parts}))
"""

IMPORT = """
import json, time
before = time.perf_counter()
import numpy
between = time.perf_counter()
import cairn
print(json.dumps([between - before, time.perf_counter() - between]))
"""


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench --faces", description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True)
    parser.add_argument("--python", default=sys.executable, help="an interpreter with numpy and mpi4py")
    parser.add_argument("-n", "--ranks", type=int, default=2)
    parser.add_argument("--mib", type=int, default=512)
    parser.add_argument("--repetitions", type=int, default=15)
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--directory", help="where to save (default: the build folder)")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    options.environment = dict(os.environ, PYTHONPATH=os.path.join(os.path.abspath(options.build), "python"))
    place = tempfile.mkdtemp(prefix="faces.", dir=options.directory or options.build)
    try:
        lazy = python(options, LAZY, place)
        shutil.rmtree(os.path.join(place, "lazy"))
        imports = [python(options, IMPORT) for _ in range(21)][1:]
        seconds = saves(options, place)
    finally:
        shutil.rmtree(place)
    result = {"seconds": seconds, "lazy": lazy, "imports": imports, "options": [options.ranks, options.mib],
              "time": time.strftime("%Y-%m-%d")}
    if options.json:
        with open(options.json, "w") as file:
            json.dump(result, file)
    print(f"save of {options.mib} MiB on {options.ranks} ranks, {len(seconds['C++'])} turns each")
    print("language   median (min, max) in s       / C++ in the same turn: median (quartiles)   reach")
    for name in ["C++", "C", "Fortran", "Python"]:
        mine = seconds[name]
        ratios = [a / b for a, b in zip(mine, seconds["C++"])]
        low, middle, high = statistics.quantiles(ratios, n=4)
        text = f"{name:8} {statistics.median(mine):9.4f} ({min(mine):.4f}, {max(mine):.4f})"
        if name in GOALS:
            of_medians = statistics.median(mine) / statistics.median(seconds["C++"])
            text += f"   {middle:.3f} ({low:.3f}, {high:.3f}), of medians {of_medians:.3f}   <= {GOALS[name]}"
        print(text)
    print(f"one row of a tensor of {lazy['tensor']} bytes: open reads {lazy['open']} bytes, the row "
          f"{lazy['read']}; its slice has {lazy['slice']}")
    numpy_s, cairn_s = zip(*imports)
    print(f"import cairn: {statistics.median(cairn_s):.4f} s beyond numpy's {statistics.median(numpy_s):.4f} "
          f"(most {max(cairn_s):.4f}); <= 0.1")


if __name__ == "__main__":
    main()
