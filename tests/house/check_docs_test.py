#!/usr/bin/env python3
"""The checker of the documentation's code must itself be able to fail."""
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
import check_docs  # noqa: E402

CODE = "namespace a {\n  int one() {\n    return 1;\n  }\n}\n"


def block(code, source="examples/a.cpp"):
    return (f"<!-- from {source} -->\n" if source else "") + f"```cpp\n{code}```\n"


class CheckDocs(unittest.TestCase):
    def faults(self, page):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            (root / "docs").mkdir()
            (root / "examples").mkdir()
            (root / "examples/a.cpp").write_text(CODE)
            (root / "docs/page.md").write_text("# Page\n" + page)
            return check_docs.check_docs(root)

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


if __name__ == "__main__":
    unittest.main()
