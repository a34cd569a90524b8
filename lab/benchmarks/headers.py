#!/usr/bin/env python3
"""Lists the headers that cost the library's build most, by clang's -ftime-trace.

usage: scripts/bench --headers [--every N] [--most N]

Compiles each source of src/ and mpi/ but the tool's by itself, as Cairn's build does without precompiled headers and
unity sources, and sums the seconds in each header: with those that it includes, and alone. Clang leaves out what takes
less than half a millisecond.

  --every N  only every Nth source
  --most N   how many headers are listed (default: 10)
"""
import argparse
import collections
import concurrent.futures
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GENERATED = ROOT / "src/layout/bundle"


def configured(build):
    """The compilations of the library's sources: (source, folder, command)."""
    subprocess.run(["cmake", "-S", ROOT, "-B", build, "-G", "Ninja", "-DCMAKE_CXX_COMPILER=clang++",
                    "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", "-DCMAKE_UNITY_BUILD=OFF", "-DCMAKE_BUILD_TYPE=Debug",
                    "-DCAIRN_FORTRAN=OFF", "-DCAIRN_KOKKOS=OFF", "-DCAIRN_EXAMPLES=OFF"],
                   check=True, stdout=subprocess.DEVNULL)
    generated = build / "src/layout/bundle/generated"
    generated.mkdir(parents=True)
    subprocess.run(["protoc", f"--cpp_out={generated}", "-I", GENERATED, *sorted(GENERATED.glob("*.proto"))], check=True)
    for one in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        source = Path(one["file"])
        folder = source.relative_to(ROOT).parts[:2] if source.is_relative_to(ROOT) else ()
        if folder and folder[0] in ("src", "mpi") and folder[1] not in ("cli", "testing"):
            yield source, one["directory"], shlex.split(one["command"])


def seconds_in(events, share):
    """[header, seconds with what it includes, alone] of each event, which lasts for microseconds of the clock, times
    the share of a core that the compiler had."""
    found, around = [], []
    for one in sorted(events, key=lambda event: (event["ts"], -event["dur"])):
        while around and around[-1][0] <= one["ts"]:
            around.pop()
        entry = [one["args"]["detail"], one["dur"] * share / 1e6, one["dur"] * share / 1e6]
        if around:
            around[-1][1][2] -= entry[1]
        around.append((one["ts"] + one["dur"], entry))
        found.append(entry)
    return found


def traced(number, folder, command, place):
    """The seconds in each header of one compilation."""
    output = place / f"{number}.o"
    command = [*command[:command.index("-o")], "-o", str(output), *command[command.index("-o") + 2:], "-ftime-trace"]
    begin = time.monotonic()
    started = subprocess.Popen(command, cwd=folder)
    _, status, used = os.wait4(started.pid, 0)
    took = time.monotonic() - begin
    started.returncode = os.waitstatus_to_exitcode(status)
    if started.returncode != 0:
        raise subprocess.CalledProcessError(started.returncode, command)
    trace = output.with_suffix(".json")
    events = json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
    output.unlink()
    trace.unlink()
    return seconds_in([one for one in events if one["name"] == "Source"], min(1, (used.ru_utime + used.ru_stime) / took))


def short(name):
    """A header as it is included."""
    name = os.path.normpath(name)
    for root in (ROOT / "include", ROOT / "src", ROOT):
        if Path(name).is_relative_to(root):
            return str(Path(name).relative_to(root))
    parts = name.split("/")
    for word in ("c++", "include"):
        if word in parts:
            at = len(parts) - parts[::-1].index(word)
            return "/".join(parts[at + (word == "c++"):])
    return name


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--most", type=int, default=10)
    arguments = parser.parse_args()
    whole, alone, sources = collections.Counter(), collections.Counter(), collections.Counter()
    with tempfile.TemporaryDirectory(prefix="cairn-headers.") as place:
        place = Path(place)
        commands = sorted(configured(place / "build"))[::arguments.every]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for found in pool.map(lambda job: traced(job[0], *job[1][1:], place), enumerate(commands)):
                for name, seconds, own in found:
                    whole[short(name)] += seconds
                    alone[short(name)] += own
                for name in {name for name, _, _ in found}:
                    sources[short(name)] += 1
    total = sum(alone.values())
    print(f"{len(commands)} sources, {total:.0f} s in headers\n")
    print("| header | s with what it includes | s alone | sources |\n|---|---|---|---|")
    for name, seconds in whole.most_common(arguments.most):
        print(f"| `{name}` | {seconds:.1f} | {alone[name]:.1f} | {sources[name]} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
