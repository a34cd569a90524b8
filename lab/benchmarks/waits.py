#!/usr/bin/env python3
"""Measures how long people wait for Cairn: CPU seconds from nothing, beside their goals.

usage: scripts/bench --waits [--jobs N] [NAME...]

Each wait begins with a fresh clone of what is committed, without a compiler cache and with all packages installed.
Without NAME all are measured:

  cairn.hpp, mpi.hpp  a source that includes only <cairn/cairn.hpp>, only <cairn/mpi.hpp>; the least of five
  demo                scripts/demo
  build               the library for use (preset release), with tool and examples
  quick, test         scripts/test --quick, scripts/test

Exit status 1 if a goal is missed or a command fails.
"""
import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GOALS = {"cairn.hpp": 1, "mpi.hpp": 1, "demo": 240, "build": 9 * 60, "quick": 5 * 60, "test": 24 * 60}


class Failure(Exception):
    pass


def cpu_seconds(command, clone, log):
    """CPU seconds, in user and system mode, of a command and of all that it has waited for."""
    environment = dict(os.environ, CCACHE_DISABLE="1")
    for name in ("CMAKE_CXX_COMPILER_LAUNCHER", "CMAKE_C_COMPILER_LAUNCHER"):
        environment.pop(name, None)
    with open(log, "w", encoding="utf-8") as out:
        started = subprocess.Popen(command, cwd=clone, env=environment, stdin=subprocess.DEVNULL, stdout=out,
                                   stderr=subprocess.STDOUT)
        _, status, used = os.wait4(started.pid, 0)
    started.returncode = os.waitstatus_to_exitcode(status)
    if started.returncode != 0:
        tail = Path(log).read_text(encoding="utf-8", errors="replace").splitlines()[-20:]
        raise Failure("\n".join([f"{' '.join(command)} ended with {started.returncode} after "
                                 f"{used.ru_utime + used.ru_stime:.2f} CPU s:", *tail]))
    return used.ru_utime + used.ru_stime


def include(header, clone, log):
    """The least of five compilations. A configured build has the header that says what it was built with."""
    build = clone / "build/includes"
    cpu_seconds(["cmake", "--preset", "release", "-B", str(build)], clone, log)
    source = clone / "build/include.cpp"
    source.write_text(f"#include <cairn/{header}>\n", encoding="utf-8")
    told = subprocess.run(["mpicc", "--showme:compile"], text=True, capture_output=True)
    if header == "mpi.hpp" and told.returncode != 0:
        raise Failure("mpicc is not Open MPI's")
    command = ["c++", "-std=c++20", "-c", str(source), "-o", os.devnull, f"-I{clone}/include", f"-I{build}/include",
               *(told.stdout.split() if header == "mpi.hpp" else [])]
    return min(cpu_seconds(command, clone, log) for _ in range(5))


def wait_for(name, clone, jobs, log):
    many = ["--jobs", str(jobs)]
    if name == "demo":
        return cpu_seconds(["scripts/demo", "--no-install", *many], clone, log)
    if name == "build":
        return cpu_seconds(["cmake", "--preset", "release"], clone, log) + \
            cpu_seconds(["cmake", "--build", "build/release", "--parallel", str(jobs)], clone, log)
    if name in ("quick", "test"):
        return cpu_seconds(["scripts/test", "--no-install", *(["--quick"] if name == "quick" else []), *many], clone, log)
    return include(name, clone, log)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(GOALS))
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in GOALS]
    if unknown:
        parser.error(f"no such wait: {', '.join(unknown)}; there are {', '.join(GOALS)}")
    missed = False
    print(f"{'wait':<12}{'CPU s':>9}{'goal':>8}{'wall s':>9}")
    for name in arguments.names or GOALS:
        with tempfile.TemporaryDirectory(prefix="cairn-waits.") as place:
            clone, log = Path(place) / "cairn", Path(place) / "log"
            subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(clone)], check=True)
            start = time.monotonic()
            try:
                seconds = wait_for(name, clone, arguments.jobs, log)
            except Failure as failure:
                print(f"{name:<12} FAILED: {failure}", flush=True)
                missed = True
                continue
        reached = seconds <= GOALS[name]
        missed = missed or not reached
        print(f"{name:<12}{seconds:>9.2f}{GOALS[name]:>8}{time.monotonic() - start:>9.0f}  "
              f"{'reached' if reached else 'MISSED'}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
