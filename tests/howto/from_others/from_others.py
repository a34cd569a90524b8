#!/usr/bin/env python3
"""Holds docs/howto/from-others.md, whose diffs change the programs of this folder.

from_others.py apply PAGE BEFORE AFTER    writes what the page's diff makes of the program BEFORE
from_others.py check PAGE BEFORE...       the page has a short diff that fits for each of these and no other
from_others.py run DIRECTORY AFTER -- LAUNCHER...
    AFTER is killed on 2 ranks, goes on from its checkpoint on 3, and ends with what it ends with
    undisturbed; the launcher's command line lacks only the number of ranks and the program. What ends in
    .py runs by the Python that runs this script.

A diff follows a line `<!-- changes FILE -->`, FILE as seen from the top of the tree.
"""
import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

DIFF = re.compile(r"^<!-- changes (\S+) -->\n```diff\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HUNK = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@$")
TOLD = re.compile(r"^(\d+) steps made, step 20, digest ([0-9a-f]{16})$", re.MULTILINE)
MOST_CHANGED = 20
STEPS, DIES_AFTER = 20, 12


def diffs_of(page):
    return {Path(name).name: diff.splitlines() for name, diff in DIFF.findall(page.read_text(encoding="utf-8"))}


def apply(diff, lines):
    """The lines that the diff makes of these. Its line numbers are believed and its context compared."""
    made, taken, left, right = [], 0, 0, 0
    for number, line in enumerate(diff, 1):
        where = f"line {number} of the diff, `{line}`"
        if found := HUNK.match(line):
            if left or right:
                raise SystemExit(f"{where}: the hunk before has another number of lines than it says")
            begin, left, _, right = (int(text or 1) for text in found.groups())
            made += lines[taken:begin - 1]
            taken = begin - 1
            continue
        kind, text = line[:1] or " ", line[1:]
        if kind not in " +-":
            raise SystemExit(f"{where}: it begins with another character than a blank, + or -")
        if kind in " -":
            if taken >= len(lines) or lines[taken] != text:
                raise SystemExit(f"{where}: the program has `{''.join(lines[taken:taken + 1])}` there")
            taken, left = taken + 1, left - 1
        if kind in " +":
            made.append(text)
            right -= 1
    if left or right:
        raise SystemExit("the last hunk has another number of lines than it says")
    return made + lines[taken:]


def after(page, before):
    diffs = diffs_of(page)
    if before.name not in diffs:
        raise SystemExit(f"{page} has no diff of {before.name}")
    return "\n".join(apply(diffs[before.name], before.read_text(encoding="utf-8").splitlines())) + "\n"


def check(page, programs):
    diffs = diffs_of(page)
    if sorted(diffs) != sorted(one.name for one in programs):
        raise SystemExit(f"{page} has diffs of {sorted(diffs)}, and the programs are {sorted(one.name for one in programs)}")
    for program in programs:
        changed = sum(line[:1] in ("+", "-") for line in diffs[program.name])
        if not 0 < changed <= MOST_CHANGED:
            raise SystemExit(f"{program.name}: {changed} lines are changed, at most {MOST_CHANGED} are allowed")
        text = after(page, program)
        if "cairn" not in text or "cairn" in program.read_text(encoding="utf-8"):
            raise SystemExit(f"{program.name}: what saves there is not another library before and Cairn after")
        if program.suffix == ".py":
            ast.parse(program.read_text(encoding="utf-8"))
            ast.parse(text)
        print(f"{program.name}: {changed} lines are changed")


def run(directory, program, launcher):
    """Returns nothing; says what is wrong and ends otherwise."""
    shutil.rmtree(directory, ignore_errors=True)

    def job(place, ranks, **variables):
        place = directory / place
        place.mkdir(parents=True, exist_ok=True)
        command = [*launcher, str(ranks), *([sys.executable, "-B"] if program.suffix == ".py" else []), str(program)]
        ran = subprocess.run(command, cwd=place, env={**os.environ, **variables}, text=True, timeout=100,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        told = TOLD.findall(ran.stdout)
        if (ran.returncode == 0) != ("CAIRN_DIE_AFTER" not in variables) or len(told) > 1:
            raise SystemExit(f"{' '.join(command)}\nended with {ran.returncode}:\n{ran.stdout}")
        return (int(told[0][0]), told[0][1]) if told else None

    steps, expected = job("undisturbed", 1)
    if steps != STEPS:
        raise SystemExit(f"{program.name} made {steps} steps")
    job("killed", 2, CAIRN_DIE_AFTER=str(DIES_AFTER))
    steps, digest = job("killed", 3)
    # An asynchronous save at step 10 may not be over when the job dies.
    if steps not in (STEPS - 10, STEPS - 5):
        raise SystemExit(f"{program.name}: killed after {DIES_AFTER} steps, it made {steps} more")
    if digest != expected:
        raise SystemExit(f"{program.name}: digest {digest}, undisturbed {expected}")
    print(f"{program.name}: killed on 2 ranks, it made the last {steps} steps on 3: the same state")
    shutil.rmtree(directory)


def main(arguments):
    what, *rest = arguments or ["help"]
    if what == "apply" and len(rest) == 3:
        page, before, to = map(Path, rest)
        to.write_text(after(page, before), encoding="utf-8")
    elif what == "check" and len(rest) > 1:
        check(Path(rest[0]), [Path(one) for one in rest[1:]])
    elif what == "run" and rest[2:3] == ["--"]:
        run(Path(rest[0]), Path(rest[1]), rest[3:])
    else:
        print(__doc__)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
