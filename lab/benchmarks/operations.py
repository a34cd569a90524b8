#!/usr/bin/env python3
"""Counts what a steady save does to paths, rank by rank, with strace.

usage: scripts/bench --operations [-n N[,N...]] [--saves A,B] [--format FORMAT] [--async]
                                  [--directory DIR] [--json FILE]

Gray-Scott runs with A saves and with B; the difference, divided by B - A, is one save in the middle
of a run: what begins and ends a run takes no part. Counted are system calls that take a path under
the directory of the checkpoints, and those that make a file or a directory durable.
"""
import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

KINDS = {
    "open": {"open", "openat", "openat2", "creat"},
    "stat": {"stat", "lstat", "newfstatat", "statx", "access", "faccessat", "faccessat2"},
    "rename": {"rename", "renameat", "renameat2"},
    "unlink": {"unlink", "unlinkat", "rmdir"},
    "mkdir": {"mkdir", "mkdirat"},
    "other": {"link", "linkat", "symlink", "truncate", "statfs", "chmod", "fchmodat", "utimensat"},
    "fsync": {"fsync", "fdatasync", "syncfs"},
}
KIND_OF = {call: kind for kind, calls in KINDS.items() for call in calls}
CALL = re.compile(r"^(?:\d+ +)?(\w+)\((.*)$")


def count(trace, home):
    """Calls by kind in one rank's trace, for paths under `home`."""
    found = collections.Counter()
    for line in trace.read_text(encoding="utf-8", errors="replace").splitlines():
        call = CALL.match(line)
        kind = KIND_OF.get(call.group(1)) if call else None
        if kind is None or "resumed>" in line:
            continue
        arguments = call.group(2)
        if kind == "fsync":
            found[kind] += f"<{home}" in arguments
        elif f'"{home}' in arguments:
            found[kind] += 1
        elif f"<{home}" in arguments and '""' not in arguments:
            found[kind] += 1  # relative to a directory that is open
    return found


def run(options, program, ranks, saves, folder):
    home = folder / f"run-{ranks}-{saves}"
    traced = ("exec strace -f -qq -y -s 4096 -o " + str(folder / f"trace-{ranks}-{saves}")
              + ".$OMPI_COMM_WORLD_RANK -e trace=%file,fsync,fdatasync,syncfs \"$@\"")
    command = ["mpirun", "--oversubscribe", "-n", str(ranks), "sh", "-c", traced, "-", program,
               "--size", "64", "--steps", str(2 * saves), "--checkpoint-every", "2",
               "--max-to-keep", "2", "--checkpoint-dir", str(home), "--no-progress",
               "--format", options.format]
    if options.asynchronous:
        command.append("--async")
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)
    if done.returncode:
        sys.exit(f"scripts/bench --operations: {' '.join(command)} ended with "
                 f"{done.returncode}\n{done.stdout}")
    return [count(folder / f"trace-{ranks}-{saves}.{rank}", home) for rank in range(ranks)]


def numbers(text):
    return [int(part) for part in text.split(",")]


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build/bench")
    parser.add_argument("-n", "--ranks", type=numbers, default=[1, 2, 4])
    parser.add_argument("--saves", type=numbers, default=[8, 16])
    parser.add_argument("--format", choices=("bundle", "hdf5"), default="bundle")
    parser.add_argument("--async", dest="asynchronous", action="store_true")
    parser.add_argument("--directory")
    parser.add_argument("--json")
    options = parser.parse_args(arguments)
    program = str(pathlib.Path(options.build, "bin", "gray_scott").resolve())
    few, many = options.saves
    rows = []
    with tempfile.TemporaryDirectory(prefix="operations.", dir=options.directory) as name:
        folder = pathlib.Path(os.path.realpath(name))
        for ranks in options.ranks:
            before, after = (run(options, program, ranks, saves, folder) for saves in (few, many))
            for rank in range(ranks):
                rows.append({"ranks": ranks, "rank": rank,
                             **{kind: (after[rank][kind] - before[rank][kind]) / (many - few)
                                for kind in KINDS}})
    print(f"{options.format}, {'asynchronous' if options.asynchronous else 'blocking'}, steady: "
          "operations on paths a save, and how many of them make something durable")
    print(f"{'ranks':>5} {'rank':>4} " + " ".join(f"{kind:>7}" for kind in (*KINDS, "all")))
    for row in rows:
        values = [row[kind] for kind in KINDS]
        print(f"{row['ranks']:5} {row['rank']:4} "
              + " ".join(f"{value:7.1f}" for value in (*values, sum(values))))
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
