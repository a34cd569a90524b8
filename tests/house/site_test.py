#!/usr/bin/env python3
"""Tests the code that makes the site's pages (docs/site). scripts/docs makes all of them."""
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs" / "site"))
import fortran  # noqa: E402
import package  # noqa: E402
import pages  # noqa: E402


class Pages(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root, self.out = Path(folder.name) / "tree", Path(folder.name) / "out"
        (self.root / "docs/howto").mkdir(parents=True)
        (self.root / "examples").mkdir()
        (self.root / "examples/a.cpp").write_text("int a;\n")
        (self.root / "docs/other.md").write_text("# Other\n")
        self.site = pages.Site(self.root, self.out)

    def shown(self, text, name="docs/howto/page.md"):
        (self.root / name).write_text(text)
        self.site.page(Path(name))
        return (self.out / self.site.place_of(Path(name))).read_text()

    def test_languages_become_tabs_up_to_the_next_heading(self):
        text = self.shown("## Code\n**C**\n\n<!-- from examples/a.cpp -->\n```c\n# define A\nint a;\n```\n\n"
                          "**Fortran**\n\nNone.\n\n## Then\nMore.\n")
        self.assertIn('=== "C"\n\n\n    ```c\n    # define A\n    int a;\n    ```\n', text)
        self.assertIn('=== "Fortran"\n\n\n    None.\n\n## Then\nMore.\n', text)
        self.assertNotIn("<!--", text)

    def test_links_lead_to_where_pages_are(self):
        self.assertIn("[o](../other.md#a)", self.shown("[o](../other.md#a)\n"))
        self.assertIn("[`a`](../files/examples/a.cpp.md)", self.shown("See [`a`](../../examples/a.cpp), `b`.\n"))
        self.assertIn("[a](../files/examples/a.cpp.md)", self.shown("[a](../../examples/a.cpp#heading)\n"))
        self.assertIn("https://example.org", self.shown("[x](https://example.org)\n"))
        self.assertEqual(self.site.faults, [])
        self.site.source(Path("examples/a.cpp"))
        self.assertIn("int a;", (self.out / "files/examples/a.cpp.md").read_text())

    def test_a_link_to_nothing_is_a_fault(self):
        self.shown("[x](../none.md)\n[y](../../../beyond)\n")
        self.assertEqual(self.site.faults, ["docs/howto/page.md: the link to ../none.md leads nowhere",
                                            "docs/howto/page.md: the link to ../../../beyond leads nowhere"])

    def test_code_stays_as_it_is(self):
        text = "`[x](none.md)`\n\n```text\n[x](none.md)\n**C**\n- a\n```\n"
        self.assertEqual(self.shown(text), text)
        self.assertEqual(self.site.faults, [])

    def test_lists_and_tables_get_a_blank_line(self):
        self.assertEqual(self.shown("So:\n- a\n- b\n"), "So:\n\n- a\n- b\n")
        self.assertEqual(self.shown("So:\n| a |\n|---|\n"), "So:\n\n| a |\n|---|\n")


class Faces(unittest.TestCase):
    def test_all_that_the_modules_make_public_is_told(self):
        text = fortran.page(ROOT)
        for name in ("cairn_group", "cairn_options", "cairn_state", "cairn_rows", "cairn_manager", "cairn_stop",
                     "cairn_read", "cairn_group_mpi", "cairn_restore_options", "cairn_version", "cairn_last_error"):
            self.assertIn(f"## `{name}` {{", text)
        self.assertIn("subroutine restore_latest(state, step, options, stat, errmsg)", text)
        self.assertIn("type(c_ptr) :: handle = c_null_ptr  ! of the C interface", text)
        self.assertNotIn("refuse_copy", text)

    def test_the_compiled_part_has_a_module(self):
        with tempfile.TemporaryDirectory() as folder:
            package.stage(ROOT, Path(folder))
            text = (Path(folder) / "cairn/_cairn.py").read_text()
            self.assertIn("class ShardableTensor:", text)
            self.assertIn("class SaveHandle:", text)
            self.assertIn("```pycon\n>>> import cairn", (Path(folder) / "cairn/__init__.py").read_text())


if __name__ == "__main__":
    unittest.main()
