#!/usr/bin/env python3
"""Clang refuses code that touches guarded memory without the lock. Skipped where there is no clang++."""
import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
READS, CALLS = ("reading variable 'money' requires holding mutex 'mutex'",
                "calling function 'look' requires holding mutex 'mutex' exclusively")
CASES = (
    ("cairn::MutexLock lock(mutex); while (money < 1) lock.wait(changed); lock.without([] {});"
     " lock.unlock(); lock.lock(); return look();", None),
    ("return money;", READS),
    ("return look();", CALLS),
    ("cairn::MutexLock lock(mutex); lock.unlock(); return money;", READS),
    ("{ const cairn::MutexLock lock(mutex); } return look();", CALLS),
)
CODE = """#include "base/mutex.hpp"
struct Account {
  mutable cairn::Mutex mutex;
  std::condition_variable changed;
  int money CAIRN_GUARDED_BY(mutex) = 0;
  int look() const CAIRN_REQUIRES(mutex) { return money; }
#line 0
%s
};
"""


class Locks(unittest.TestCase):
    def test_what_has_no_lock_is_refused(self):
        flag = re.search(r"CXX,Clang,AppleClang>:([^>]+)>", (ROOT / "cmake/CairnOptions.cmake").read_text())
        bodies = "\n".join(f"int f{i}() {{ {body} }}" for i, (body, _) in enumerate(CASES))
        done = subprocess.run(["clang++", "-std=c++20", "-fsyntax-only", "-Werror", flag[1], f"-I{ROOT}/src", "-xc++", "-"],
                              input=CODE % bodies, capture_output=True, text=True)
        found = re.findall(r":(\d+):\d+: error: (.*?) \[", done.stderr)
        self.assertEqual(found, [(str(i), error) for i, (_, error) in enumerate(CASES) if error], done.stderr)


if __name__ == "__main__":
    if not shutil.which("clang++"):
        print("SKIPPED: no clang++, so nobody looks at locks")
        sys.exit(77)
    unittest.main()
