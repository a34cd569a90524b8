#!/usr/bin/env python3
"""Clang refuses code that touches guarded memory without the lock. Skipped where there is no clang++."""
import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CODE = """#include "base/mutex.hpp"
struct Account {
  mutable cairn::Mutex mutex;
  std::condition_variable changed;
  int money CAIRN_GUARDED_BY(mutex) = 0;
  int look() const CAIRN_REQUIRES(mutex) { return money; }
  int f() { %s }
};
"""


def errors(body):
    """What clang says of this function, with the flag of builds with clang."""
    flag = re.search(r"CXX,Clang,AppleClang>:([^>]+)>", (ROOT / "cmake/CairnOptions.cmake").read_text())
    done = subprocess.run(["clang++", "-std=c++20", "-fsyntax-only", "-Werror", flag[1], f"-I{ROOT}/src", "-xc++", "-"],
                          input=CODE % body, capture_output=True, text=True)
    return re.findall(r"error: (.*?) \[", done.stderr) if done.returncode else []


class Locks(unittest.TestCase):
    def test_with_the_lock(self):
        self.assertEqual(errors("cairn::MutexLock lock(mutex); while (money < 1) lock.wait(changed);"
                                "lock.without([] {}); lock.unlock(); lock.lock(); return look();"), [])

    def test_without_it(self):
        reads, calls = ("reading variable 'money' requires holding mutex 'mutex'",
                        "calling function 'look' requires holding mutex 'mutex' exclusively")
        for body, error in (("return money;", reads), ("return look();", calls),
                            ("cairn::MutexLock lock(mutex); lock.unlock(); return money;", reads),
                            ("{ const cairn::MutexLock lock(mutex); } return look();", calls)):
            with self.subTest(body=body):
                self.assertEqual(errors(body), [error])


if __name__ == "__main__":
    if not shutil.which("clang++"):
        print("SKIPPED: no clang++, so nobody looks at locks")
        sys.exit(77)
    unittest.main()
