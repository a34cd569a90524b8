#!/usr/bin/env python3
"""If two functions have one name, bash silently uses the last. And make_venv makes an environment
from a lock."""
import collections
import hashlib
import os
import re
import subprocess
import tempfile
import unittest
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIB = ROOT / "scripts" / "lib.sh"
SOURCED = re.compile(r"""^ *(?:\.|source) +"?(\$\(dirname "\$0"\)|\$root)(/[^"\s;]+)"?""", re.MULTILINE)
FUNCTION = re.compile(r"^(?:function +)?([\w-]+) *\(\)", re.MULTILINE)


def shell_files():
    for folder in ("scripts", "lab", "slurm", "cmake", "tests", "packaging", ".ci"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and (path.suffix == ".sh" or re.match(rb"#!.*\b(ba)?sh\b", path.read_bytes()[:40])):
                yield path


class Shell(unittest.TestCase):
    def test_no_function_is_defined_twice(self):
        files = list(shell_files())
        self.assertIn(LIB, files)
        in_lib = FUNCTION.findall(LIB.read_text(encoding="utf-8"))
        self.assertIn("make_venv", in_lib)
        for path in files:
            text = path.read_text(encoding="utf-8")
            names = FUNCTION.findall(text)
            if path != LIB and re.search(r"^\. .*/lib\.sh", text, re.MULTILINE):
                names += in_lib
            twice = [name for name, count in collections.Counter(names).items() if count > 1]
            self.assertEqual(twice, [], f"{path} defines these twice, or as lib.sh does")

    def test_each_sourced_file_is_there(self):
        seen = 0
        for path in shell_files():
            for place, name in SOURCED.findall(path.read_text(encoding="utf-8")):
                if "$" in name:
                    continue  # one of several, which the caller names
                seen += 1
                sourced = (ROOT if place == "$root" else path.parent) / name[1:]
                self.assertTrue(sourced.is_file(), f"{path} sources {sourced}, which is not there")
        self.assertGreater(seen, 40)

    def make_venv(self, place, requirements):
        (place / "list").write_text(requirements, encoding="utf-8")
        return subprocess.run(["bash", "-c", f'. "{LIB}"; make_venv "$1/list" "$1/venv" "$1/log"', "shell", str(place)],
                              env={**os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(place)},
                              check=False).returncode

    def test_a_virtual_environment_is_made_once_and_of_what_the_lock_names(self):
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            wheel = place / "tiny-1-py3-none-any.whl"
            with zipfile.ZipFile(wheel, "w") as file:
                file.writestr("tiny.py", "")
                file.writestr("tiny-1.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
                file.writestr("tiny-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1\n")
                file.writestr("tiny-1.dist-info/RECORD", "")
            lock = "tiny==1 --hash=sha256:" + hashlib.sha256(wheel.read_bytes()).hexdigest()
            self.assertEqual(self.make_venv(place, lock), 0)
            made = place / "venv" / "bin" / "python"
            before = made.lstat().st_ctime_ns
            self.assertEqual(self.make_venv(place, lock), 0)
            self.assertEqual(made.lstat().st_ctime_ns, before)
            # Another file of that name has none of the lock's hashes. (No index answers here:
            # status 3, not 4.)
            with open(wheel, "ab") as file:
                file.write(b" ")
            self.assertEqual(self.make_venv(place, lock + "\n"), 3)
            self.assertIn("DO NOT MATCH THE HASHES", (place / "log").read_text(encoding="utf-8"))

    def test_what_needs_root_or_the_network_is_said_first(self):
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            (place / "cmake").write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
            (place / "cmake").chmod(0o755)
            ran = subprocess.run([ROOT / "scripts/test", "--quick", "--no-install", "--build-dir", place / "build"],
                                 env={**os.environ, "PATH": f"{place}:{os.environ['PATH']}"}, text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
            self.assertEqual(ran.returncode, 1, ran.stdout)
            self.assertRegex(ran.stdout, r"^\s*== What this needs .*\nroot: .*\nPyPI: nothing\n")


unittest.main()
