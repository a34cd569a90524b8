#!/usr/bin/env python3
"""Measures Cairn beside plain I/O and other ways to save, in one run. Started by scripts/bench."""
import argparse
import datetime
import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import against
import application
import fewer
import goals
import turns

HERE = Path(__file__).parent
MIB = 1 << 20
FEWER = "--fewer-bytes"
PEERS = {"PyTorch DCP": "torch_dcp.py", "TensorFlow SaveV2": "tensorflow_save.py", "ADIOS2 BP5": "adios2_bp5.py"}


def numbers(text):
    return [int(part) for part in text.split(",")]


def parse():
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True, type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--tree", help=argparse.SUPPRESS)
    parser.add_argument("-d", "--directory", type=Path, help="on the file system to be measured (default: the build folder)")
    parser.add_argument("-n", "--ranks", type=numbers, help="default: 1,2")
    parser.add_argument("--states", type=lambda text: text.split(","), help="of one,small,mix (default: all)")
    parser.add_argument("--sizes", type=numbers, help="MiB of the whole state, for one and mix (default: 16,512)")
    parser.add_argument("--repetitions", type=int, help="default: 9; with --application: 40")
    parser.add_argument("--starts", type=int, help="of all programs, among which repetitions are shared; the first of each is dropped (default: 3)")
    parser.add_argument("--quick", action="store_true", help="2 ranks, 16 MiB, 2 repetitions: to see that it works")
    parser.add_argument("--json", type=Path, help="rows to a file")
    parser.add_argument("--peers", action="store_true", help="others' libraries too, where they are installed")
    parser.add_argument("--python", action="append", default=[], help="an interpreter to look for peers with; may come again")
    parser.add_argument("--against", type=Path, metavar="TREE", help="another checkout of Cairn, built and run in turn with this one")
    parser.add_argument("--application", action="store_true", help="only: Gray-Scott with and without saves")
    parser.add_argument("--seconds", type=float, help="with --application: length of a turn (default: 2)")
    parser.add_argument("--side", type=int, help="with --application: cells a side (default: 4096)")
    modes = parser.add_mutually_exclusive_group()
    modes.add_argument("--mpi-io", action="store_const", dest="mode", const="--mpi-io", help="only Writer::mpi_io and its like")
    modes.add_argument("--hdf5", action="store_const", dest="mode", const="--hdf5", help="only HDF5 files")
    modes.add_argument("--saves", action="store_const", dest="mode", const="--saves", help="only blocking saves")
    modes.add_argument("--async", action="store_const", dest="mode", const="--async", help="only asynchronous saves")
    modes.add_argument("--restore", action="store_const", dest="mode", const="--restore", help="only restores")
    modes.add_argument("--ways", action="store_const", dest="mode", const="--ways", help="only new or recycled files, buffered or direct")
    modes.add_argument("--fewer-bytes", action="store_const", dest="mode", const=FEWER,
                       help="what is not copied, not written, shared or encoded; restores; one table of all figures")
    parser.add_argument("--tests", type=Path, default=Path("build/test/dev"),
                        help="with --fewer-bytes: a build of the tests, for space on disks (default: build/test/dev)")
    options = parser.parse_args()
    quick = options.quick
    options.ranks = options.ranks or ([2] if quick or options.mode or options.application else [1, 2])
    options.states = options.states or (["one"] if options.mode else ["one", "small", "mix"])
    options.sizes = options.sizes or ([goals.LARGE] if quick and options.mode == FEWER else [16] if quick else [512] if options.mode else [16, 512])
    options.repetitions = options.repetitions or (2 if quick else 40 if options.application else 9)
    options.starts = options.starts or (1 if quick else 3)
    options.seconds = options.seconds or (0.2 if quick else 2)
    options.side = options.side or (512 if quick else 4096)
    options.directory = (options.directory or options.build).resolve()
    unknown = set(options.states) - {"one", "small", "mix"}
    if unknown or min([*options.sizes, *options.ranks, options.starts, options.repetitions]) < 1:
        parser.error("states are one, small and mix; sizes, ranks, starts and repetitions are 1 or more")
    if options.mode == FEWER and (len(options.ranks) > 1 or options.sizes != [max(options.sizes[0], goals.LARGE)] or
                                  options.states != ["one"] or options.against):
        parser.error(f"--fewer-bytes has one number of ranks, one size from {goals.LARGE} MiB, and no --states and --against")
    if options.against and options.peers:
        parser.error("--against compares two checkouts, without --peers")
    return options


def output_of(*command):
    return subprocess.run(command, capture_output=True, text=True).stdout


def machine(directory):
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")),
               platform.processor())
    memory = int(next(line.split()[1] for line in open("/proc/meminfo") if line.startswith("MemTotal")))
    system = output_of("df", "--output=fstype", str(directory)).split()[-1]
    if system in ("tmpfs", "ramfs"):
        sys.exit(f"scripts/bench: {directory} is on {system}, where nothing is ever written to a disk; give -d")
    return (f"{platform.system()} {'.'.join(platform.release().split('.')[:2])}, {os.cpu_count()} cores ({cpu}), "
            f"{memory / MIB:.0f} GiB, {system}, {output_of('mpirun', '--version').splitlines()[0]}, "
            f"load at the beginning {os.getloadavg()[0]:.1f}")


def mpirun(np):
    return ["mpirun", "--oversubscribe", "--bind-to", "none", "-np", str(np)]


def pythons(options):
    found = options.python + [shutil.which("python3")]
    return [path for path in dict.fromkeys(found) if path]


def find_peers(options):
    """The (name, command) of each peer that can run; prints those that cannot."""
    found = []
    for name, script in PEERS.items():
        for python in pythons(options):
            if subprocess.run([python, HERE / "peers" / script, "--probe"], capture_output=True).returncode == 0:
                found.append((name, [python, HERE / "peers" / script]))
                break
        else:
            print(f"skipped: {name}, which none of {', '.join(pythons(options))} can import", flush=True)
    return found


def start_peer(options, name, command, np, state, size):
    folder = options.directory / "cairn_bench_peers" / command[1].stem
    quiet = {**os.environ, "TF_ENABLE_ONEDNN_OPTS": "0"}
    return turns.Program(name, command + [folder, str(np), state, str(size)], quiet)


def show(rows, title):
    print(f"\n{title}")
    print(f"{'':32} {'':52} {'GB/s: min   median      max':>27} {'x raw':>7} {'CPU s':>7}")
    for row in rows:
        ratio = f"{row['ratio_to_raw']:7.2f}" if row["ratio_to_raw"] else " " * 7
        print(f"{row['measure']:32} {row['what']:52} {row['min']:9.2f} {row['median']:8.2f} {row['max']:8.2f} "
              f"{ratio} {row['cpu_seconds_of_rank_0']:7.3f}", flush=True)


def start_bench(options, build, directory, np, state, size):
    mode = [options.mode] if options.mode else []
    return turns.Program("save_restore_bench", mpirun(np) + [build / "bin" / "save_restore_bench", directory, state,
                                                             str(size)] + mode)


def take_turns(options, peers, np, state, size, repetitions, seed, samples):
    """Adds to the samples; returns how caches were dropped."""
    programs = []
    try:
        programs.append(start_bench(options, options.build, options.directory, np, state, size))
        for name, command in peers:
            programs.append(start_peer(options, name, command, np, state, size))
        turns.compete(programs, repetitions, seed, samples)
        return programs[0].note
    finally:
        for program in programs:
            program.end()


def measure_against(options, np, state, size):
    """Compares this tree with another one; returns rows of both."""
    samples = {}, {}
    for start in range(shared := min(options.starts, options.repetitions)):
        repetitions = options.repetitions // shared + (start < options.repetitions % shared)
        programs = []
        try:
            for build, name in (options.build, "this"), (options.against, "other"):
                folder = options.directory / f"cairn_bench_{name}"
                folder.mkdir(exist_ok=True)
                programs.append(start_bench(options, build, folder, np, state, size))
            against.compete(programs, repetitions, start + 1, samples)
        finally:
            for program in programs:
                program.end()
            for name in "this", "other":
                shutil.rmtree(options.directory / f"cairn_bench_{name}", ignore_errors=True)
    rows = [row | {"np": np, "state": state, "mib": size, "tree": options.tree} for row in against.rows(*samples)]
    against.show(rows, f"{state}, {size} MiB on {np} ranks, {options.repetitions} repetitions in {shared} starts")
    return rows


def measure(options, peers, np, state, size):
    """It is chance which program's files are on faster parts of the disk, and that does not change
    while the program lives: so all start several times."""
    samples = {}
    starts = min(options.starts, options.repetitions)
    for start in range(starts):
        repetitions = options.repetitions // starts + (start < options.repetitions % starts)
        caches = take_turns(options, peers, np, state, size, repetitions, start + 1, samples)
    rows = [row | {"mib": size} for row in turns.rows(samples, np, state)]
    show(rows, f"{state}, {size} MiB on {np} ranks, {options.repetitions} repetitions in {starts} starts "
         f"(one more, at the beginning of each, is dropped), caches dropped by {caches}")
    return rows


def main():
    options = parse()
    options.directory.mkdir(parents=True, exist_ok=True)
    settings = {"machine": machine(options.directory), "date": datetime.date.today().isoformat()}
    print(f"{settings['date']} {settings['machine']}", flush=True)
    rows = []
    if options.mode == FEWER:
        return measure_fewer(options, settings)
    if options.application:
        for np in options.ranks:
            rows += application.measure(mpirun(np), options, np)
    else:
        peers = find_peers(options) if options.peers and not options.mode else []
        for np in options.ranks:
            for state in options.states:
                for size in [16] if state == "small" else options.sizes:
                    rows += (measure_against(options, np, state, size) if options.against else
                             measure(options, peers, np, state, size))
                    if options.json:
                        write(options.json, rows, settings)
    if options.json:
        write(options.json, rows, settings)
    if not options.against:
        goals.show(rows)
    shutil.rmtree(options.directory / "cairn_bench_peers", ignore_errors=True)


def measure_fewer(options, settings):
    def one(mode):
        options.mode = mode
        return measure(options, [], options.ranks[0], "one", options.sizes[0])

    figures = list(fewer.measure(options, mpirun, one))
    print(f"\nfewer bytes, {'to see that it works' if options.quick else 'all figures'}")
    for figure in figures:
        print(goals.line(*figure))
    if options.json:
        write(options.json, [dict(zip(("figure", "value", "goal", "more_is_better"), one)) for one in figures], settings)


def write(path, rows, settings):
    path.write_text(json.dumps([row | settings for row in rows], indent=1) + "\n")


if __name__ == "__main__":
    try:
        main()
    except (RuntimeError, OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"scripts/bench: {error}")
