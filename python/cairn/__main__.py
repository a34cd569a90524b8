"""`python -m cairn` and the script `cairn`: the tool."""

import os
import shutil
import sys


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    tool = os.path.join(here, "bin", "cairn")
    if not os.path.exists(tool):
        tool = shutil.which("cairn", path=os.pathsep.join(
            folder for folder in os.environ.get("PATH", "").split(os.pathsep)
            # Skips this package's own script, which would call itself.
            if os.path.abspath(folder) != os.path.dirname(os.path.abspath(sys.argv[0]))
        ))
    if not tool:
        print("cairn: this build of the package has no tool, and PATH has none", file=sys.stderr)
        return 2
    os.execv(tool, ["cairn", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
