#!/usr/bin/env python3
"""Compiles all that includes Kokkos with a device's compiler, and links nothing.

usage: compile-device.py ROOT BUILD LANGUAGE

BUILD is a configured Ninja build of ROOT. A source that includes Kokkos but would be compiled as
C++ is a fault too. Prints each file that was compiled. Exit status 1 if one was not.
"""
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

FOLDERS = ("include", "src", "mpi", "kokkos", "tests", "examples", "bench")
INCLUDES_KOKKOS = re.compile(r'#\s*include\s*[<"](Kokkos_\w+\.hpp|cairn/kokkos[\w/]*\.hpp)[>"]')
INCLUDES_OURS = re.compile(r'#\s*include\s*"([^"]+)"')


def sources_with_kokkos(root):
    """Sources that include Kokkos, be it through headers beside them or of the tests."""
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

    return {path for folder in FOLDERS for path in sorted((root / folder).rglob("*.cpp"))
            if has_kokkos(path, set())}


def output_of(entry):
    words = shlex.split(entry["command"])
    return words[words.index("-o") + 1]


def main(root, build, language):
    entries = json.loads((build / "compile_commands.json").read_text())
    marker = {"CUDA": re.compile(r"-x cu\b"), "HIP": re.compile(r"-x hip\b")}[language]
    device = [entry for entry in entries if marker.search(entry["command"])]
    if not device:
        print(f"no source is compiled as {language}", file=sys.stderr)
        return 1
    objects = {output_of(entry): Path(entry["file"]) for entry in device}
    failed = subprocess.run(["ninja", "-C", build, "-k", "0", *objects]).returncode != 0

    # The program of the install test belongs to another project. It is compiled as the tests are.
    outside = root / "tests/install/project/kokkos.cpp"
    pattern = next(entry for entry in device if "test_kokkos.dir" in output_of(entry))
    command = shlex.split(pattern["command"])
    command = [str(outside) if word == pattern["file"] else word for word in command]
    command[command.index("-o") + 1] = "outside.o"
    failed |= subprocess.run(command, cwd=build).returncode != 0
    objects["outside.o"] = outside

    done = 0
    print(f"compiled as {language}:")
    for output, source in sorted(objects.items(), key=lambda item: str(item[1])):
        there = (build / output).exists()
        done += there
        name = source.relative_to(root if source.is_relative_to(root) else build)
        print(f"  {'' if there else 'FAILED '}{name}")
    for source in sorted(sources_with_kokkos(root) - set(objects.values())):
        print(f"  FAILED {source.relative_to(root)}: includes Kokkos, but is not compiled as {language}")
        failed = True
    print(f"{done} of {len(objects)} files compiled")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve(), sys.argv[3]))
