"""What `cairn make-pages` makes: completion that completes, and manual pages that are sound.

usage: pages_test.py CAIRN
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

COMPLETE = """. "$1"
shift
COMP_WORDS=("$@")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_cairn
printf '%s\\n' "${COMPREPLY[@]}"
"""


def ran(*words):
    done = subprocess.run(words, text=True, stdin=subprocess.DEVNULL, capture_output=True)
    assert done.returncode == 0 and not done.stderr, (words, done)
    return done.stdout


def main():
    tool = sys.argv[1]
    listed = re.split("subcommands:", ran(tool, "--help"), flags=re.IGNORECASE)[-1]
    commands = re.findall(r"^  (\S+) ", listed, re.MULTILINE)
    assert len(commands) > 10 and "make-pages" not in commands, commands
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        ran(tool, "make-pages", folder)
        bash = place / "bash-completion/completions/cairn"

        def completed(*words):
            return ran("bash", "-c", COMPLETE, "bash", str(bash), "cairn", *words).split()

        assert completed("") == [*commands, "--help", "--version"], completed("")
        assert completed("ver") == ["verify"]
        assert completed("cat", "--fo") == ["--format"]
        assert completed("cat", "run", "--format", "r") == ["raw"]
        assert completed("cat", "run", "--format", "=", "n") == ["npy"]
        assert completed("cat", "run", "--format", "=") == ["text", "raw", "npy"]
        assert completed("ls", "run") == []  # then bash completes files
        for name in commands:
            options = set(re.findall(r"--[a-z][a-z-]*", ran(tool, name, "--help").partition("\nExample")[0]))
            found = {word for word in completed(name, "-") if word.startswith("--")}
            assert "--help" in found and found <= options, (name, found, options)
            # The options with which lines in the help's list begin.
            first = set(re.findall(r"^  (?:-\w,)?(--[a-z-]+)", ran(tool, name, "--help"), re.MULTILINE))
            assert first == found, (name, first, found)
            manual = (place / "man/man1" / f"cairn-{name}.1").read_text(encoding="utf-8").replace("\\-", "-")
            assert all(f"\\fB{option}\\fR" in manual for option in found), name
        pages = sorted((place / "man/man1").iterdir())
        assert [page.name for page in pages] == sorted(["cairn.1", *(f"cairn-{name}.1" for name in commands)]), pages
        if shutil.which("groff"):
            ran("groff", "-man", "-Tutf8", "-Kutf8", "-ww", "-z", *map(str, pages))
        for shell, path in (("zsh", "zsh/site-functions/_cairn"), ("fish", "fish/vendor_completions.d/cairn.fish")):
            assert all(name in (place / path).read_text(encoding="utf-8") for name in commands), path
            if shutil.which(shell):
                ran(shell, "-n", str(place / path))
    print(f"{len(commands)} commands have pages and completion")


main()
