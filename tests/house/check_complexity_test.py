#!/usr/bin/env python3
"""The checker of complexity must itself be able to fail: small trees, each with one fault."""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.dont_write_bytecode = True
import check_complexity  # noqa: E402

MEND = check_complexity.MEND


def function(name, complexity):
    return f"int {name}(int a) {{\n" + (complexity - 1) * "  if (a > 1) --a;\n" + "  return a;\n}\n"


class CheckComplexity(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name).resolve() / "tree"

    def faults(self, files):
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return check_complexity.check_complexity(self.root)

    def test_a_function_that_is_too_complex(self):
        text = function("sound", 30) + function("f", 31)
        for name in ("src/io/a.cpp", "include/cairn/a.hpp", "mpi/a.cpp", "kokkos/a.hpp", "fortran/a.cpp"):
            with self.subTest(name=name):
                self.setUp()
                self.assertEqual(self.faults({name: text}), [
                    f"{name}:33: f has a complexity of 31, at most 30 is allowed: {MEND}"])
        self.setUp()
        self.assertEqual(self.faults({"tests/io/a.cpp": text, "lab/bench/a.cpp": text}), [])

    def test_a_fortran_procedure_that_is_too_complex(self):
        lines = 31 * "  if (a > 1) a = a - 1\n"
        self.assertEqual(self.faults({"fortran/a.f90": f"subroutine f(a)\n  integer :: a\n{lines}end subroutine\n"}),
                         [f"fortran/a.f90:1: f has a complexity of 32, at most 30 is allowed: {MEND}"])

    def test_too_many_that_are_complex(self):
        files = {"src/io/a.cpp": function("f", 16) + function("sound", 15), "mpi/b.cpp": function("g", 17)}
        self.assertEqual(self.faults(files), [])
        with mock.patch.object(check_complexity, "MOST_ABOVE", 2):
            self.assertEqual(self.faults(files), [])
        with mock.patch.object(check_complexity, "MOST_ABOVE", 1):
            self.assertEqual(self.faults(files), [
                "mpi/b.cpp:1: g has a complexity of 17", "src/io/a.cpp:1: f has a complexity of 16",
                "2 functions have a complexity above 15, at most 1 may: of one of them or of the new"
                f" one, {MEND}"])

    def test_the_program_tells_by_its_exit_status(self):
        for complexity, status in (31, 1), (30, 0):
            self.faults({"src/io/a.cpp": function("f", complexity)})
            self.assertEqual(self.run_program("-B").returncode, status)

    def test_without_lizard_nothing_is_passed(self):
        self.faults({"src/io/a.cpp": function("f", 31)})
        done = self.run_program("-I", "-S", "-B")
        self.assertEqual(done.returncode, 77)
        self.assertTrue(done.stdout.startswith(f"SKIPPED: {sys.executable} has no lizard"), done.stdout)

    def run_program(self, *options):
        return subprocess.run([sys.executable, *options, check_complexity.__file__, str(self.root)],
                              capture_output=True, text=True)


if __name__ == "__main__":
    if check_complexity.lizard is None:
        sys.exit(check_complexity.main([]))
    unittest.main()
