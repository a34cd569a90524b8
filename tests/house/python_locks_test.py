#!/usr/bin/env python3
"""What the scripts install from PyPI is locked: each list NAME.in has a NAME.txt beside it, with hashes of all
packages. Asks no network; scripts/lock-python makes the locks."""
import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LISTS = sorted(path for folder in ("docs", "scripts", "tests") for path in (ROOT / folder).rglob("*requirements.in"))
LOCKER = ROOT / "scripts" / "lock-python"
PIP_INSTALL = re.compile(r"""(?:\$\{pip\[@\]\}"|-m pip\b|^\s*pip3?\b)[^|;&]* install\b""")
# These install Cairn's own package as its users do.
UNLOCKED = {"scripts/wheel": 1, "lab/lanes/plain-inside.sh": 3}


def plain(name):
    return re.sub("[-_.]+", "-", name).lower()


def wanted(text):
    """The versions of a list, by name; extras of a package are packages of the lock."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return {plain(line.partition("==")[0].partition("[")[0]): line.partition("==")[2].strip() for line in lines}


def locked(text):
    """[(name, version, marker, hashes)] of a lock."""
    entries = re.sub(r"\\\n", " ", re.sub(r"(?m)^#.*\n", "", text)).splitlines()
    found = []
    for entry in entries:
        match = re.fullmatch(r"([\w.-]+)==([^\s;]+)( ; .*?)?((?: +--hash=sha256:[0-9a-f]{64})*) *", entry)
        assert match, f"no line of a lock: {entry!r}"
        found.append((plain(match[1]), match[2], match[3] or "", match[4].split()))
    return found


def faults(list_text, lock_text):
    entries = locked(lock_text)
    found = [f"{name} has no hash" for name, _, _, hashes in entries if not hashes]
    for name, version in wanted(list_text).items():
        if not any((name, version, "") == entry[:3] for entry in entries):
            found.append(f"{name}=={version} is not in the lock")
    return found


class PythonLocks(unittest.TestCase):
    def test_locks_fit_their_lists(self):
        self.assertGreater(len(LISTS), 5)
        for path in LISTS:
            with self.subTest(path):
                lock = path.with_suffix(".txt")
                self.assertTrue(all(wanted(path.read_text(encoding="utf-8")).values()), "a version is open")
                self.assertEqual(faults(path.read_text(encoding="utf-8"), lock.read_text(encoding="utf-8")), [],
                                 "scripts/lock-python makes it anew")
                self.assertIn(f"lock {path.relative_to(ROOT)}", LOCKER.read_text(encoding="utf-8"))

    def test_of_torch_and_the_frameworks_on_top_of_it_are_the_same_versions(self):
        below = {entry[:3] for entry in locked((ROOT / "tests/python/torch-requirements.txt").read_text(encoding="utf-8"))}
        names = {entry[0] for entry in below}
        for entry in locked((ROOT / "tests/python/frameworks-requirements.txt").read_text(encoding="utf-8")):
            if entry[0] in names:
                self.assertIn(entry[:2], {one[:2] for one in below})

    def test_faults_are_seen(self):
        sound = "a-b==1 \\\n    --hash=sha256:" + 64 * "0" + "\n"
        self.assertEqual(faults("A_b==1\n", sound), [])
        self.assertEqual(faults("a-b==2\n", sound), ["a-b==2 is not in the lock"])
        self.assertEqual(faults("a-b==1\n", "a-b==1\n"), ["a-b has no hash"])
        self.assertEqual(faults("a-b==1\n", sound.replace("==1", "==1 ; sys_platform == 'win32'")),
                         ["a-b==1 is not in the lock"])

    def test_nothing_else_is_installed(self):
        found = {}
        for path in sorted(path for folder in ("scripts", "lab") for path in (ROOT / folder).rglob("*")):
            if not path.is_file() or path.suffix == ".pyc":
                continue
            text = re.sub(r"\\\n", " ", path.read_text(encoding="utf-8"))
            lines = [line for line in text.splitlines() if PIP_INSTALL.search(line)]
            if lines:
                found[str(path.relative_to(ROOT))] = len(lines)
        self.assertEqual(found.pop("scripts/lib.sh", 0), 1, found)
        self.assertEqual(found, UNLOCKED)


unittest.main()
