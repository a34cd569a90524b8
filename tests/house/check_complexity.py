#!/usr/bin/env python3
"""Holds functions to a size that can be understood. usage: check_complexity.py [ROOT]

Lizard (PyPI) counts the cyclomatic complexity of each function in src/, include/, mpi/, kokkos/ and
fortran/: its ways to branch, and one. Prints one line a fault; exit status 1 if there is any, 77
where Lizard is not installed.
"""
import sys
from pathlib import Path

try:
    import lizard
except ImportError:
    lizard = None

FOLDERS = ("src", "include", "mpi", "kokkos", "fortran")
MOST = 30         # the limit of any function
MANY = 15         # few functions may be above this:
MOST_ABOVE = 20   # so many in the whole product
MEND = "give a part that does one thing a function of its own, and its name, or make a switch a table"


def functions(root):
    """Each function as (complexity, its place and name), the highest first."""
    paths = lizard.get_all_source_files([str(root / folder) for folder in FOLDERS], [], None)
    found = [(one.cyclomatic_complexity, f"{Path(file.filename).relative_to(root)}:{one.start_line}: {one.name}")
             for file in lizard.analyze_files(sorted(paths), threads=1) for one in file.function_list]
    return sorted(found, key=lambda one: (-one[0], one[1]))


def check_complexity(root):
    found = [one for one in functions(Path(root).resolve()) if one[0] > MANY]
    faults = [f"{place} has a complexity of {number}, at most {MOST} is allowed: {MEND}"
              for number, place in found if number > MOST]
    if len(found) > MOST_ABOVE:
        faults += [f"{place} has a complexity of {number}" for number, place in found]
        faults.append(f"{len(found)} functions have a complexity above {MANY}, at most {MOST_ABOVE} may:"
                      f" of one of them or of the new one, {MEND}")
    return faults


def main(arguments):
    if len(arguments) > 1 or arguments[:1] in (["-h"], ["--help"]):
        print(__doc__)
        return 2
    if lizard is None:
        print(f"SKIPPED: {sys.executable} has no lizard (tests/interop/requirements.in has its version)")
        return 77
    faults = check_complexity(arguments[0] if arguments else Path(__file__).parents[2])
    print("\n".join(faults) if faults else "no function is too complex")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
