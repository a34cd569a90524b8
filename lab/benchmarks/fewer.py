"""scripts/bench --fewer-bytes: what is not copied, not written, shared or encoded, and what restores reach beside
it. Runs the programs that measure this one after the other; their figures make one table."""
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import goals

IN_MEMORY = Path("/dev/shm")
ROOM = 2 << 30  # that the codecs' checkpoints take, at most
WAYS = {"--async": ("save_async, released",), "--restore": ("restore",)}  # of save_restore_bench, and figures of it


def rows_of(options, mpirun, program, ranks, directory, *arguments):
    """The rows of a program that writes them to a file; its lines are shown as they come."""
    with tempfile.TemporaryDirectory(dir=directory) as place:
        rows = Path(place) / "rows.json"
        subprocess.run([*mpirun(ranks), options.build / "bin" / program, Path(place) / "run",
                        *map(str, arguments), rows], check=True)
        return json.loads(rows.read_text())


def memory(directory):
    """A place that is no disk, if there is one: codecs are to be measured beside a disk of 200 MB/s."""
    if os.access(IN_MEMORY, os.W_OK) and shutil.disk_usage(IN_MEMORY).free > ROOM:
        return IN_MEMORY
    print(f"{IN_MEMORY} lacks room: codecs are measured in {directory}", flush=True)
    return directory


def space(build):
    """What the tests print that fill a disk."""
    if not (build / "CTestTestfile.cmake").exists():
        print(f"there is no build of tests in {build}; scripts/test makes one", flush=True)
        return ""
    run = subprocess.run(["ctest", "--test-dir", build, "-V", "-R", r"^(save\.sharing|torch\.again)$"],
                         capture_output=True, text=True, check=False)
    print(run.stdout, flush=True)
    return run.stdout


def measure(options, mpirun, measure_one):
    """Yields (text, value, goal, whether more is better); the value is None if it could not be measured.
    measure_one(mode) runs save_restore_bench."""
    quick = options.quick
    for mode, kinds in WAYS.items():
        for figure in goals.of_one_run(measure_one(mode)):
            if figure[0].startswith(kinds):
                yield figure
    print("\nblocks that are there already", flush=True)
    yield from goals.of_unchanged(rows_of(options, mpirun, "unchanged_bench", 1, options.directory,
                                          *((64, 2) if quick else (512, 20))))
    print("\nspace of checkpoints that share", flush=True)
    yield from goals.of_space(space(options.tests))
    print("\ncodecs", flush=True)
    yield from goals.of_codecs(rows_of(options, mpirun, "codec_bench", 2, memory(options.directory),
                                       *((4, 1) if quick else (32, 5))))
