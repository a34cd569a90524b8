#!/usr/bin/env python3
"""The inner pieces of two trees in one run: each benchmark is run by both, one right after the other.

usage: pieces.py --build BUILD --against OTHER_BUILD [--repetitions N] [options of Google Benchmark]
"""
import argparse
import json
import statistics
import subprocess
from pathlib import Path

PROGRAMS = ("pieces_bench", "coverage_bench")


def names(program, options):
    listed = subprocess.run([program, *options, "--benchmark_list_tests"], check=True, capture_output=True, text=True)
    return listed.stdout.split("\n")[:-1]


def seconds(program, options, name):
    """Processor time of one iteration, in seconds; a benchmark that counts its own time gives that."""
    units = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1}
    answer = subprocess.run([program, *options, f"--benchmark_filter=^{name}$", "--benchmark_format=json"],
                            check=True, capture_output=True, text=True)
    row = json.loads(answer.stdout)["benchmarks"][0]
    manual = "/manual_time" in name or "/real_time" in name
    return row["real_time" if manual else "cpu_time"] * units[row["time_unit"]]


def compare(this, other, options, repetitions):
    """Yields each name, and in each repetition how many times as fast as the other tree this one
    is."""
    shared = [name for name in names(this, options) if name in set(names(other, options))]
    options = [one for one in options if not one.startswith("--benchmark_filter")]
    for name in shared:
        ratios = []
        for turn in range(repetitions):
            order = (this, other) if turn % 2 == 0 else (other, this)
            took = {program: seconds(program, options, name) for program in order}
            ratios.append(took[other] / took[this])
        yield name, ratios


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--against", type=Path, required=True)
    parser.add_argument("--repetitions", type=int, default=5)
    known, options = parser.parse_known_args()
    print(f"{'times as fast as the other: median (least .. most)':60} of {known.repetitions}")
    everything = []
    for program in PROGRAMS:
        both = [folder / "bin" / program for folder in (known.build, known.against)]
        for name, ratios in compare(*both, options, known.repetitions):
            everything.append(statistics.median(ratios))
            print(f"{name:60} {everything[-1]:5.2f} ({min(ratios):.2f} .. {max(ratios):.2f})", flush=True)
    if everything:
        print(f"{'all of them, geometric mean':60} {statistics.geometric_mean(everything):5.2f}")


if __name__ == "__main__":
    main()
