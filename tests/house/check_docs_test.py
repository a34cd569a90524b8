#!/usr/bin/env python3
"""The checker of the documentation must itself be able to fail."""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.dont_write_bytecode = True
import check_docs  # noqa: E402
import check_tree  # noqa: E402
import draw_rooms  # noqa: E402

CODE = "namespace a {\n  int one() {\n    return 1;\n  }\n}\n"


def block(code, source="examples/a.cpp"):
    return (f"<!-- from {source} -->\n" if source else "") + f"```cpp\n{code}```\n"


def house(drawing):
    return f"# House\n{draw_rooms.BEGIN}{drawing}{draw_rooms.END}\n"


class Pages(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        (self.root / "docs").mkdir()
        (self.root / "examples").mkdir()
        (self.root / "examples/a.cpp").write_text(CODE)

    def faults(self, page, architecture=None):
        (self.root / "docs/page.md").write_text("# Page\n" + page)
        (self.root / "ARCHITECTURE.md").write_text(architecture or house(draw_rooms.block()))
        return check_docs.check_docs(self.root)


class CheckDocs(Pages):
    def test_code_that_is_there(self):
        self.assertEqual(self.faults(block("int one() {\n  return 1;\n}\n")), [])
        self.assertEqual(self.faults(block("    return 1;\n") + block(CODE)), [])

    def test_python_counts_too(self):
        page = "<!-- from examples/a.cpp -->\n```python\n{}```\n"
        self.assertEqual(self.faults(page.format("  return 1;\n")), [])
        self.assertEqual(self.faults(page.format("return 2\n")),
                         ["docs/page.md:3: this code is not in examples/a.cpp"])

    def test_code_that_differs(self):
        for code in ("int one() {\n  return 2;\n}\n", "return\n", "int one() {\nreturn 1;\n}\n", ""):
            self.assertEqual(self.faults(block(code)),
                             ["docs/page.md:3: this code is not in examples/a.cpp"], code)

    def test_a_file_that_is_not_there(self):
        self.assertEqual(self.faults(block("return 1;\n", "b.cpp")),
                         ["docs/page.md:3: there is no file b.cpp"])

    def test_a_block_that_says_nothing(self):
        self.assertEqual(self.faults(block("return 1;\n") + "\n" + block("x\n", None)),
                         ["docs/page.md:7: no line says which file this code is from"])
        self.assertEqual(self.faults(block("x\n", None) + "```sh\nls\n```\n"), [])

    def test_a_line_without_code(self):
        self.assertEqual(self.faults("<!-- from examples/a.cpp -->\n\n```sh\nls\n```\n"),
                         ["docs/page.md: 1 lines say which file code is from, but no code follows"])

    def test_the_program_of_the_readme(self):
        (self.root / "README.md").write_text(block("int one() {\n  return 1;\n}\n"))
        self.assertEqual(self.faults(""), [])
        (self.root / "README.md").write_text(block("return 2;\n"))
        self.assertEqual(self.faults(""), ["README.md:2: this code is not in examples/a.cpp"])

    def test_pages_that_stay_short(self):
        for name, most in check_docs.MOST_WORDS.items():
            with self.subTest(page=name):
                (self.root / name).parent.mkdir(exist_ok=True)
                (self.root / name).write_text("word | " * (most // 2))
                self.assertEqual(self.faults(""), [])
                (self.root / name).write_text("word | " * (most // 2) + "word")
                self.assertEqual(self.faults(""), [f"{name}: {most + 1} words, at most {most} are allowed"])
                (self.root / name).unlink()

    def test_links(self):
        (self.root / "docs/other.md").write_text("# What `it` is, and why\n## Twice\n## Twice\n")
        self.assertEqual(self.faults("[a](other.md#what-it-is-and-why) [b](../examples) [c](#page) "
                                     "[d](other.md#twice-1) [e](https://example.org/x) `[f](g.md)`\n"), [])
        self.assertEqual(self.faults("[a](gone.md)\n"), ["docs/page.md: the link to gone.md leads nowhere"])
        self.assertEqual(self.faults("[a](other.md#twice-2)\n"),
                         ["docs/page.md: the link to other.md#twice-2 names no heading there"])
        (self.root / "docs/other.md").unlink()
        (self.root / "README.md").write_text("[a](docs/other.md)\n")
        self.assertEqual(self.faults(""), ["README.md: the link to docs/other.md leads nowhere"])

    def test_files_that_a_page_names(self):
        (self.root / "src/io").mkdir(parents=True)
        (self.root / "src/io/file.hpp").write_text("")
        self.assertEqual(self.faults("`io/file.hpp` `src/io/file.hpp` `src/format/NAME/a.hpp` `file.cpp`\n"), [])
        self.assertEqual(self.faults("`io/gone.hpp`\n"), ["docs/page.md: there is no file io/gone.hpp"])
        (self.root / "CHANGELOG.md").write_text("`io/gone.hpp`\n")
        self.assertEqual(self.faults(""), [])

    def test_all_pages_together_stay_short(self):
        (self.root / "docs" / "long.md").write_text("word " * check_docs.MOST_WORDS_TOGETHER)
        self.assertRegex(self.faults("one more")[0], r"^docs: \d+ words, at most 60000 are allowed in all pages together$")

    def test_words_of_its_own(self):
        rest = "\n## Rooms\n- **x**: y.\n" + house(draw_rooms.block())
        words = "# A\n\n## Words\n" + "- **a, b**: c.\n" * 12
        self.assertEqual(self.faults("", words + rest), [])
        self.assertEqual(self.faults("", words + "- **d**: e.\n" + rest),
                         ["ARCHITECTURE.md: 13 words of its own, at most 12 are allowed; use the field's"])


class Facts(Pages):
    def written(self, page, text):
        (self.root / page).parent.mkdir(exist_ok=True)
        (self.root / page).write_text(text)
        return self.faults("")

    def test_a_page_of_facts_has_no_dates(self):
        self.assertEqual(self.written("lab/lanes.md", "# Lanes\nOn 2026-11-26 all passed.\n"),
                         ["lab/lanes.md:2: 2026-11-26 is history, which belongs to lab/journal.md"])
        self.assertEqual(self.written("lab/lanes.md", "# Lanes\nIn 2026, step 12026-11-26, 2026-11.\n"), [])

    def test_a_page_of_history_may_have_dates(self):
        self.assertEqual(self.written("lab/journal.md", "## 2026-11-26\n"), [])

    def test_links_of_the_lab(self):
        self.assertEqual(self.written("lab/journal.md", "[a](../docs/page.md#page) [b](gone.md)\n"),
                         ["lab/journal.md: the link to gone.md leads nowhere"])


class DrawRooms(Pages):
    TABLE = {"base": set(), "model": {"base"}, "io": {"base"}, "commit": {"base", "io"},
             "save": {"io", "commit", "model"}, "cli": {"save"}, "kokkos": set()}

    def test_arrows_that_follow_are_left_out_and_forbidden_ones_named(self):
        self.assertEqual(draw_rooms.draw(self.TABLE).splitlines(), [
            "   room    may include       but not",
            "4  cli     → save            base, model, io, commit",
            "3  save    → model, commit   base",
            "2  commit  → io",
            "1  model   → base",
            "   io      → base",
            "0  base",
            "   kokkos  → public headers"])

    def test_each_arrow_of_the_table_changes_the_drawing(self):
        drawn = draw_rooms.draw(self.TABLE)
        for room, allowed in self.TABLE.items():
            for other in allowed:
                with self.subTest(arrow=f"{room} -> {other}"):
                    self.assertNotEqual(draw_rooms.draw({**self.TABLE, room: allowed - {other}}), drawn)

    def test_a_drawing_of_another_table(self):
        wrong = [f"{draw_rooms.PAGE}: the drawing of the rooms is not what the table in"
                 " tests/house/check_tree.py says: run tests/house/draw_rooms.py --write"]
        self.assertEqual(self.faults("", house(draw_rooms.block().replace("exchange", "index"))), wrong)
        (self.root / draw_rooms.PAGE).write_text(house(draw_rooms.block()))
        table = {**check_tree.ALLOWED, "plan": {"base", "model"}}
        with mock.patch.dict(check_tree.ALLOWED, table):
            self.assertEqual(check_docs.check_docs(self.root), wrong)

    def test_a_page_without_a_drawing(self):
        missing = [f"{draw_rooms.PAGE}: there is no drawing of the rooms between {draw_rooms.BEGIN}"
                   f" and {draw_rooms.END}"]
        self.assertEqual(self.faults("", "# House\n"), missing)
        self.assertEqual(self.faults("", f"{draw_rooms.END}\n{draw_rooms.BEGIN}\n"), missing)
        (self.root / draw_rooms.PAGE).unlink()
        self.assertEqual(check_docs.check_docs(self.root), missing)

    def test_the_program_puts_the_drawing_in_its_place(self):
        page = self.root / draw_rooms.PAGE
        page.write_text(house("\nold\n"))
        program = [sys.executable, "-B", draw_rooms.__file__]
        subprocess.run([*program, "--write", str(self.root)], check=True)
        self.assertEqual(page.read_text(), house(draw_rooms.block()))
        drawn = subprocess.run(program, check=True, capture_output=True, text=True, encoding="utf-8")
        self.assertEqual(drawn.stdout, draw_rooms.draw())


if __name__ == "__main__":
    unittest.main()
