"""run_checks.py names each check that fails, and why; it needs no TensorFlow for that."""
import os
import subprocess
import sys
import tempfile

RUNNER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "run_checks.py")
SCRIPTS = {
    "good": "import sys, helping_module\nprint('noise')\nprint('counted', sys.argv[1:])",
    "helping_module": "",
    "says": "import sys\nsys.exit('FAILED: two is not three')",
    "raises": "raise KeyError('lost')",
    "killed": "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
    "late": "import subprocess\nsubprocess.run(['sleep', '1000'])",
}


def run(*checks, names=()):
    with tempfile.TemporaryDirectory() as work:
        for script, text in SCRIPTS.items():
            with open(os.path.join(work, script + ".py"), "w", encoding="utf-8") as file:
                file.write(text)
        path = os.path.join(work, "checks")
        with open(path, "w", encoding="utf-8") as file:
            for check in checks:
                limit = "1" if check == "late" else "60"
                file.write("\t".join([check, limit, os.path.join(work, check + ".py"), "a b", "c"]) + "\n")
        # -I -S: nothing that takes long is imported.
        done = subprocess.run([sys.executable, "-I", "-S", "-B", RUNNER, path, *names],
                              capture_output=True, text=True)
    return done.returncode, done.stdout


def require(holds, what):
    if not holds:
        sys.exit(f"FAILED: {what}")


def main():
    status, text = run("good")
    require(status == 0 and "noise" not in text and "counted ['a b', 'c']" in text, text)
    status, text = run("good", "says", "raises", "killed", "late")
    require(status == 1, text)
    require(text.endswith("1 of 5 checks passed; FAILED: says raises killed late\n"), text)
    for words in ("passed good (", "FAILED: two is not three", "KeyError: 'lost'",
                  "FAILED says: exit status 1", "FAILED raises: exit status 1",
                  "FAILED killed: exit status -9", "FAILED late: still running after 1 s"):
        require(words in text, f"no '{words}' in {text}")
    status, text = run("says", "good", names=["good"])
    require(status == 0 and "noise" in text and "1 of 1 checks passed" in text, text)
    require(run("good", names=["bad"])[0] == 2, "a name that is not there")
    require(run()[0] == 1, "no checks at all")
    print("each failure is named")


main()
