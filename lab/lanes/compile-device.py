#!/usr/bin/env python3
"""Compiles all that includes Kokkos with a device's compiler, and links nothing.

usage: compile-device.py ROOT BUILD LANGUAGE

BUILD is a configured build of ROOT. A source that includes Kokkos but would be compiled as
C++ is a fault too. Prints each file that was compiled. Exit status 1 if one was not.
"""
import json
import os
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

FOLDERS = ("include", "src", "mpi", "kokkos", "tests", "examples", "lab")
INCLUDES_KOKKOS = re.compile(r'#\s*include\s*[<"](Kokkos_\w+\.hpp|cairn/kokkos[\w/]*\.hpp)[>"]')
INCLUDES_OURS = re.compile(r'#\s*include\s*"([^"]+)"')


def sources_with_kokkos(root):
    """Sources that include Kokkos, directly or through headers beside them or of the tests."""
    def has_kokkos(path, seen):
        text = path.read_text()
        if INCLUDES_KOKKOS.search(text):
            return True
        for name in INCLUDES_OURS.findall(text):
            for folder in (path.parent, root / "tests", root):
                header = (folder / name).resolve()
                if header.is_file() and header not in seen:
                    seen.add(header)
                    if has_kokkos(header, seen):
                        return True
        return False

    # Trilinos has a Kokkos of its own, for the host.
    without = root / "examples/trilinos"
    return {path for folder in FOLDERS for path in sorted((root / folder).rglob("*.cpp"))
            if not path.is_relative_to(without) and has_kokkos(path, set())}


def device_entries(root, build, language):
    """(source, command) of each file that CMake has compiled in the language."""
    marker = {"CUDA": ["-x", "cu"], "HIP": ["-x", "hip"]}[language]
    for entry in json.loads((build / "compile_commands.json").read_text()):
        command = shlex.split(entry["command"])
        if any(command[i:i + 2] == marker for i in range(len(command))):
            yield Path(entry["file"]), command


def compile_one(build, source, command):
    """None, or the compiler's errors. It is called as the build would call it."""
    target = build / command[command.index("-o") + 1]
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    run = subprocess.run(command, cwd=build, text=True, capture_output=True)
    if run.returncode == 0 and target.is_file():
        print(f"  compiled {source}", flush=True)
        return None
    return f"FAILED {source}\n{shlex.join(command)}\n{run.stdout}{run.stderr}"


def main(root, build, language):
    entries = list(device_entries(root, build, language))
    if not entries:
        print(f"no source is compiled as {language}", file=sys.stderr)
        return 1
    # The program of the install test belongs to another project. It is compiled as the tests are.
    outside = root / "tests/install/project/kokkos.cpp"
    like, command = next(one for one in entries if one[0].parent == root / "tests/kokkos")
    command = [str(outside) if word == str(like) else word for word in command]
    command[command.index("-o") + 1] = "outside.o"
    entries.append((outside, command))

    def short(source):
        return source.relative_to(root if source.is_relative_to(root) else build)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        failures = [text for text in pool.map(
            lambda one: compile_one(build, short(one[0]), one[1]), entries) if text]
    for source in sorted(sources_with_kokkos(root) - {source for source, _ in entries}):
        failures.append(f"FAILED {short(source)}: includes Kokkos, but is not compiled as {language}")
    for text in failures:
        print(text)
    print(f"{len(entries)} files for {language}, {len(failures)} faults")
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve(), sys.argv[3]))
