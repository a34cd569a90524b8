"""mypy --strict accepts a program that uses cairn, cairn.torch and cairn.jax."""

import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


def mypy(*paths):
    with tempfile.TemporaryDirectory() as cache:
        return subprocess.run(
            [sys.executable, "-m", "mypy", "--strict", "--cache-dir", cache, *paths],
            env={**os.environ, "MYPYPATH": os.environ["PYTHONPATH"]}, capture_output=True, text=True, check=False)


with tempfile.TemporaryDirectory() as place:
    wrong = f"{place}/wrong.py"
    with open(f"{HERE}/typed_program.py") as right, open(wrong, "w") as file:
        print(right.read(), "cairn.CheckpointManager('a').save('one', {})\ncairn.torch.no_such_name\n", sep="\n", file=file)
    for path, expected in ((f"{HERE}/typed_program.py", []), (wrong, ["[arg-type]", "[attr-defined]"])):
        told = mypy(path)
        errors = [line for line in told.stdout.splitlines() if ": error: " in line]
        assert [line.split()[-1] for line in errors] == expected, told.stdout + told.stderr
        assert told.returncode == bool(expected), told.stdout + told.stderr
print("right")
