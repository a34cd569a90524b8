"""What scripts/campaign mutants makes of a source: changes that compile, each of which does what it says."""
import os
import random
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "lab/campaigns"))
sys.path.append("/usr/lib/python3/dist-packages")  # Debian's, if another Python runs this
# pylint: disable=wrong-import-position
import mutant_places

try:
    from clang import cindex
    cindex.Index.create()
except Exception:  # without the module, or without its library
    cindex = None

SOURCE = """#include <cstdio>
#include <string>
constexpr bool constant(int a) { return a < 1 && true; }
void say(std::FILE* file, const char* text) { std::fprintf(file, "%s\\n", text); }
struct Two { std::string one, other; int size; };
void fill(Two& two) {
  two.one.append("a", two.size);
  two.other.append("b", two.size);
  two.other.append("c", two.size);
}
bool small(int a) {
  if (a < 0) {
    say(stdout, "negative");
    return false;
  }
  say(stdout, "first");
  say(stdout, "second");
  std::fflush(stdout);
  std::string text;
  text.reserve(9);
  int b = 0;
  b = a;
  b += a;
  return b < 10;
}
int main() { std::printf("%d ", small(5)), std::printf("%d line %d\\n", small(-1), __LINE__); }
"""
SWITCH = '#include <cstdlib>\nextern "C" bool cairn_mutant(int number) noexcept {\n' \
         '  const char* text = std::getenv("CAIRN_MUTANT");\n  return text && std::atoi(text) == number;\n}\n'
# What the program prints, by the change and the text that is changed.
UNCHANGED = "first second 0 negative 0 line 26"
CHANGED = {
    ("is never so", "a < 0"): "first second 0 first second 1 line 26",
    ("is always so", "a < 0"): "negative 0 negative 0 line 26",
    ("is left out", 'say(stdout, "first");'): "second 0 negative 0 line 26",
    ("come in the other order", 'say(stdout, "first");\n  say(stdout, "second");'): "second first 0 negative 0 line 26",
    ("returns true", "return false"): "first second 0 negative 1 line 26",
    ("< becomes <=", "b < 10"): "first second 1 negative 0 line 26",
    ("is left out", "b += a;"): "first second 1 negative 0 line 26",
}


@unittest.skipUnless(cindex and shutil.which("c++"), "clang's Python module, or a compiler, is not here")
class AMutant(unittest.TestCase):
    def setUp(self):
        self.place = Path(tempfile.mkdtemp(prefix="cairn-mutants-"))
        self.addCleanup(shutil.rmtree, self.place)
        self.source = self.place / "source.cpp"
        self.source.write_text(SOURCE, encoding="utf-8")
        path, self.places, error = mutant_places.places_of((str(self.source), ["-std=c++20"]))
        self.assertEqual((path, error), (str(self.source), None))

    def run_with(self, number):
        out = subprocess.run([self.place / "program"], env=dict(os.environ, CAIRN_MUTANT=str(number)),
                             stdout=subprocess.PIPE, check=True, text=True).stdout
        return " ".join(out.split())

    def compile(self, numbered):
        text = mutant_places.rewritten(SOURCE.encode(), numbered)
        (self.place / "changed.cpp").write_bytes(text + SWITCH.encode())
        subprocess.run(["c++", "-std=c++20", self.place / "changed.cpp", "-o", self.place / "program"], check=True)

    def place_of(self, kind, changed):
        found = [one for one in self.places if (one[2], SOURCE[one[0]:one[1]]) == (kind, changed)]
        self.assertEqual(len(found), 1, (kind, changed))
        return found[0]

    def test_does_what_it_says_and_keeps_the_lines(self):
        apart = [("is always so", "a < 0"), ("come in the other order", 'say(stdout, "first");\n  say(stdout, "second");')]
        for some in (apart, [one for one in CHANGED if one not in apart]):
            places = sorted((self.place_of(*one), one) for one in some)
            self.compile([(number, place) for number, (place, _) in enumerate(places)])
            self.assertEqual(self.run_with(len(places)), UNCHANGED)
            for number, (_, one) in enumerate(places):
                self.assertEqual(self.run_with(number), CHANGED[one], one)

    def test_is_none_of_the_compilers_own_work_nor_of_assignments_order(self):
        self.assertFalse([one for one in self.places if SOURCE[one[0]:one[1]] in ("a < 1", "a < 1 && true")])
        self.assertFalse([one for one in self.places if SOURCE[one[0]:one[1]].startswith("b = a;\n")])

    def test_is_no_order_of_statements_that_change_nothing_in_common(self):
        changed = [SOURCE[one[0]:one[1]].split()[0] for one in self.places if one[2] == "come in the other order"]
        self.assertEqual(changed, ['two.other.append("b",', "say(stdout,", "say(stdout,"])

    def test_leaves_out_nothing_that_only_saves_time(self):
        self.assertFalse([one for one in self.places if "reserve" in SOURCE[one[0]:one[1]]])

    def test_is_chosen_so_that_all_compile_together(self):
        chosen = mutant_places.choose([("source", self.places)], 100, random.Random(1))
        self.assertGreater(len(chosen), 5)
        self.compile([(number, place) for number, (_, place) in enumerate(chosen)])
        self.assertEqual(self.run_with(-1), UNCHANGED)


if __name__ == "__main__":
    unittest.main()
