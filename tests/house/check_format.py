#!/usr/bin/env python3
"""Holds every tracked file of C and C++ to .clang-format. usage: check_format.py [ROOT]

Skipped (exit status 77) where there is no clang-format-14: other versions format otherwise. Also in sources without git,
which say nothing of what is built among them."""
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

ENDINGS = ("*.hpp", "*.cpp", "*.h", "*.c")
AT_ONCE = 40  # files for one process


def check(root):
    if not shutil.which("clang-format-14"):
        print("SKIPPED: there is no clang-format-14, so nobody looks whether files are formatted")
        return 77
    listed = subprocess.run(["git", "-C", root, "ls-files", "-z", "--", *ENDINGS], capture_output=True, text=True)
    files = [name for name in listed.stdout.split("\0") if name and os.path.isfile(os.path.join(root, name))]
    if not files:
        print("SKIPPED: git lists no files here, so nobody looks whether files are formatted")
        return 77
    parts = [files[at:at + AT_ONCE] for at in range(0, len(files), AT_ONCE)]
    with ThreadPoolExecutor(2) as pool:
        ran = pool.map(lambda part: subprocess.run(["clang-format-14", "--dry-run", "-Werror", *part], cwd=root,
                                                   capture_output=True, text=True), parts)
        failed = [one for one in ran if one.returncode]
    wrong = sorted({line.partition(":")[0] for one in failed for line in one.stderr.splitlines() if ": error:" in line})
    for name in wrong:
        print(f"{name}: clang-format-14 -i {name}")
    for one in failed if not wrong else []:
        print(one.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(check(sys.argv[1] if len(sys.argv) > 1 else "."))
