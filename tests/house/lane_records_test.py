"""lab/support.md is made of the records of lanes, and lab/lanes/record.py finds what is wrong with one."""
import contextlib
import io
import json
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "lab/lanes"))
# pylint: disable=wrong-import-position
import record

GOOD = {"lane": "some", "command": "scripts/lane some", "ran": "all", "system": "a system", "compiler": "GCC 1",
        "passed": 3, "date": "2026-01-02"}
SUMMARY = """  Compiler          GNU 12.2.0, C++20
  Build type        Debug
  MPI               on, MPI 3.1, Open MPI 4.1.4
  Kokkos            on, 3.4.1 (SERIAL, OPENMP), /usr/lib/libkokkoscore.so
  HDF5              on, 1.10.8, parallel
"""
RESULTS = '<testsuite name="Linux" tests="9" failures="2" disabled="1" skipped="3"><testcase name="one"/></testsuite>'


def quietly(function, *arguments):
    """What it returned, and what it printed."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        returned = function(*arguments)
    return returned, printed.getvalue()


class ThePage(unittest.TestCase):
    def test_is_what_the_records_say(self):
        self.assertEqual(quietly(record.main, ["page"]), (0, ""))

    def test_that_says_something_else_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            (root / "lab/lanes/records").mkdir(parents=True)
            new = root / "new.json"
            new.write_text(json.dumps(GOOD))
            self.assertEqual(quietly(record.check_or_write_page, [], root)[0], 1)
            self.assertEqual(quietly(record.check_or_write_page, ["--write", new], root)[0], 0)
            self.assertEqual(quietly(record.check_or_write_page, [], root), (0, ""))
            kept = root / "lab/lanes/records/some.json"
            kept.write_text(kept.read_text().replace('"passed": 3', '"passed": 2'))
            self.assertEqual(quietly(record.check_or_write_page, [], root)[0], 1)

    def test_shows_what_failed_and_what_was_only_compiled(self):
        self.assertIn("| 3 pass, **1 fail** | 2026-01-02 |", record.page([GOOD | {"failed": 1}]))
        compiled = {key: value for key, value in GOOD.items() if key != "passed"} | {"compiled": 7, "commit": "12345678abcd"}
        self.assertIn("| 7 files compile | 2026-01-02, `12345678` |", record.page([compiled]))


class ARecord(unittest.TestCase):
    def test_has_what_the_build_found_and_the_counts(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "summary.txt").write_text(SUMMARY)
            (Path(folder) / "results.xml").write_text(RESULTS)
            output = f"{folder}/made/some.json"
            status, said = quietly(record.main, ["write", output, "--build", folder, "--results", f"{folder}/results.xml",
                                                 "lane=some", "command=scripts/lane some", "ran=all", "device=a = b"])
            self.assertEqual((status, said), (0, f"record: {output}\n"))
            made = json.loads(Path(output).read_text())
        self.assertEqual({key: made[key] for key in ("compiler", "mpi", "kokkos", "hdf5", "passed", "failed", "skipped", "device")},
                         {"compiler": "GCC 12.2.0", "mpi": "Open MPI 4.1.4", "kokkos": "3.4.1 (SERIAL, OPENMP)",
                          "hdf5": "1.10.8", "passed": 3, "failed": 2, "skipped": 4, "device": "a = b"})

    def test_leaves_out_what_the_build_is_without(self):
        found = record.found_by(SUMMARY.replace("on, 1.10.8, parallel", "off (no MPI)"))
        self.assertNotIn("hdf5", found)

    def test_that_is_wrong_is_refused(self):
        self.assertEqual(list(record.faults(GOOD)), [])
        for wrong in ({"passed": "3"}, {"date": "yesterday"}, {"system": ""}, {"colour": "green"}):
            self.assertEqual(len(list(record.faults(GOOD | wrong))), 1, wrong)
        for key in ("lane", "command", "ran", "system", "compiler", "date", "passed"):
            self.assertNotEqual(list(record.faults({name: GOOD[name] for name in GOOD if name != key})), [], key)


if __name__ == "__main__":
    unittest.main()
