#!/usr/bin/env python3
"""scripts/release refuses a tree that is not ready and makes a release of one that is, and packaging/sbom.py lists what
a build uses. Builds nothing."""
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GIT = ["git", "-c", "user.name=nobody", "-c", "user.email=nobody@example.org"]


class InRepository(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name) / "repository"
        subprocess.run([*GIT, "init", "-q", self.root], check=True)

    def files(self, **texts):
        for name, text in texts.items():
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text(text, encoding="utf-8")

    def commit(self):
        subprocess.run([*GIT, "-C", self.root, "add", "-A"], check=True)
        subprocess.run([*GIT, "-C", self.root, "commit", "-q", "--allow-empty", "-m", "x"], check=True)


class Refusals(InRepository):
    def setUp(self):
        super().setUp()
        for name in ("scripts/release", "scripts/lib.sh", "scripts/mpi-env.sh"):
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, self.root / name)
        self.files(**{"packaging/contacts": "security = a\nsupport = b\nconduct = c\n",
                      "CMakeLists.txt": "project(Cairn VERSION 0.1.0 LANGUAGES C)\n",
                      "CHANGELOG.md": "# Changelog\n\n## 0.1.0\nFirst.\n"})
        self.commit()

    def refuses(self, words, *arguments):
        ran = subprocess.run([self.root / "scripts/release", "--directory", self.root / "out", *arguments],
                             capture_output=True, text=True)
        self.assertEqual(ran.returncode, 1, ran.stdout + ran.stderr)
        self.assertIn(words, ran.stderr)
        self.assertFalse((self.root / "out").exists())

    def test_contacts_that_nobody_filled_in(self):
        self.files(**{"packaging/contacts": "# who\nsecurity =\nsupport = b\nconduct = \n"})
        self.commit()
        self.refuses("packaging/contacts has nothing for security, conduct: a maintainer fills that in first")

    def test_contacts_whose_lines_are_missing(self):
        self.files(**{"packaging/contacts": "security = a\nsupporters = b\n"})
        self.commit()
        self.refuses("packaging/contacts has nothing for support, conduct: a maintainer")

    def test_what_is_not_committed(self):
        self.files(new="x")
        self.refuses("files are changed and not committed:\n?? new")

    def test_a_changelog_of_another_version(self):
        self.files(**{"CHANGELOG.md": "## 0.2.0\n## 0.1.0\n"})
        self.commit()
        self.refuses('CMakeLists.txt has version 0.1.0, and CHANGELOG.md begins with "## 0.2.0"')

    def test_a_note_that_says_unreleased(self):
        self.files(**{"CHANGELOG.md": "# Changelog\n\n## 0.1.0 (unreleased)\nFirst.\n"})
        self.commit()
        self.refuses('CHANGELOG.md says "## 0.1.0 (unreleased)", and so would the release note: commit "## 0.1.0 (')

    def test_a_version_without_checkpoints(self):
        self.refuses("tests/releases has no checkpoints of version 0.1.0")

    def test_an_older_version_without_checkpoints(self):
        self.files(**{"CHANGELOG.md": "## 0.1.0\n## 0.0.9 (2026-01-01)\n", "tests/releases/0.1.0/tensors.txt": ""})
        self.commit()
        self.refuses("CHANGELOG.md has version 0.0.9, and tests/releases has no checkpoints of it")

    def test_a_key_that_is_not_there(self):
        self.refuses("the key none cannot be read", "--key", "none")


class Release(InRepository):
    def test_of_this_tree(self):
        listed = subprocess.run([*GIT, "-C", ROOT, "ls-files", "-z"], capture_output=True, text=True)
        if listed.returncode or not shutil.which("cmake"):
            self.skipTest("a release is made of a git repository, with cmake")
        for name in filter(None, listed.stdout.split("\0")):
            if (ROOT / name).is_file():
                (self.root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, self.root / name)
        changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
        version = re.search(r"^## ([0-9.]+)", changelog, re.MULTILINE)[1]
        self.files(**{"packaging/contacts": "security = a\nsupport = b\nconduct = c\n",
                      "CHANGELOG.md": changelog.replace(" (unreleased)", " (2026-01-01)", 1),
                      "scripts/abi": "#!/bin/sh\n",  # has a test of its own
                      "scripts/lib.sh": (ROOT / "scripts/lib.sh").read_text() + "install_missing() { :; }\n"})
        self.commit()
        commit = subprocess.run([*GIT, "-C", self.root, "rev-parse", "HEAD"], capture_output=True, text=True,
                                check=True).stdout.strip()
        out = self.root.parent / "out"
        ran = subprocess.run([self.root / "scripts/release", "--directory", out], capture_output=True, text=True)
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        sums = dict(reversed(line.split()) for line in (out / "SHA256SUMS").read_text().splitlines())
        self.assertEqual(sums, {name: hashlib.sha256((out / name).read_bytes()).hexdigest()
                                for name in (f"cairn-{version}{end}" for end in (".tar.gz", ".spdx.json", ".md"))})
        self.assertTrue((out / f"cairn-{version}.md").read_text().startswith(f"## {version} (2026-01-01)\n"))
        with tarfile.open(out / f"cairn-{version}.tar.gz") as tarball:
            self.assertEqual(tarball.extractfile(f"cairn-{version}/cmake/commit").read().decode().strip(), commit)

    def test_each_version_left_checkpoints(self):
        for line in re.findall(r"^## .*", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE):
            if "unreleased" not in line:
                self.assertTrue((ROOT / "tests/releases" / line.split()[1] / "tensors.txt").is_file(), line)


class Software(unittest.TestCase):
    def test_the_list(self):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write("isa-l|2.30|BSD-3-Clause|checksums\nmpi||NOASSERTION|the system's\n")
            file.flush()
            made = [subprocess.run([sys.executable, "-B", ROOT / "packaging/sbom.py", file.name, "0.1.0", "abc",
                                    "2026-01-01T00:00:00Z", "00ff"], check=True, capture_output=True).stdout
                    for _ in range(2)]
        self.assertEqual(*made)
        found = json.loads(made[0])
        self.assertEqual([(one["name"], one["versionInfo"]) for one in found["packages"]],
                         [("cairn", "0.1.0"), ("isa-l", "2.30"), ("mpi", "NOASSERTION")])
        self.assertEqual(found["packages"][0]["checksums"], [{"algorithm": "SHA256", "checksumValue": "00ff"}])
        names = {one["SPDXID"] for one in found["packages"]} | {"SPDXRef-DOCUMENT"}
        for relation in found["relationships"]:
            self.assertLessEqual({relation["spdxElementId"], relation["relatedSpdxElement"]}, names)


if __name__ == "__main__":
    unittest.main()
