#!/usr/bin/env python3
"""packaging/abi/interface.py tells what a program in C can bear from what it cannot. Builds nothing."""
import importlib.util
import tempfile
import unittest
from pathlib import Path

ABI = Path(__file__).resolve().parents[2] / "packaging/abi"
spec = importlib.util.spec_from_file_location("interface", ABI / "interface.py")
interface = importlib.util.module_from_spec(spec)
spec.loader.exec_module(interface)


class Interfaces(unittest.TestCase):
    def after(self, *changes):
        """What is found if each line is followed by or replaced with another in the kept file."""
        text = (ABI / "cairn.xml").read_text(encoding="utf-8")
        for old, new in changes:
            self.assertIn(old, text)
            text = text.replace(old, new, 1)
        with tempfile.NamedTemporaryFile("w", suffix=".xml") as file:
            file.write(text)
            file.flush()
            old, new = interface.Interface(ABI / "cairn.xml"), interface.Interface(file.name)
        return [one.split(":")[0].split()[0] for one in interface.differences(old, new)]

    def grown(self, name, size, at, member="new"):
        bits = f"name='{name}' size-in-bits='"
        line = f"<class-decl {bits}{size}' is-struct='yes' visibility='default'"
        text = (ABI / "cairn.xml").read_text(encoding="utf-8")
        self.assertIn(line, text)
        whole = text[text.index(line):]
        whole = whole[:whole.index("</class-decl>")]
        added = (f"<data-member access='public' layout-offset-in-bits='{at}'>"
                 f"<var-decl name='{member}' type-id='type-id-2' visibility='default'/></data-member>")
        return whole, whole.replace(f"'{size}'", f"'{size + 64}'", 1) + added

    def test_the_same(self):
        self.assertEqual(self.after(), [])

    def test_a_wider_member(self):
        self.assertEqual(self.after(("<var-decl name='files' type-id='type-id-3'",
                                     "<var-decl name='files' type-id='type-id-2'")), ["cairn_info"])

    def test_only_structs_with_their_size_grow(self):
        self.assertEqual(self.after(self.grown("cairn_group_calls", 768, 768)), [])
        self.assertEqual(self.after(self.grown("cairn_info", 832, 832)), ["cairn_info"])

    def test_growing_hides_no_other_change(self):
        self.assertEqual(self.after(self.grown("cairn_group_calls", 768, 768),
                                    ("<var-decl name='release'", "<var-decl name='lease'")), ["cairn_group_calls"])
        self.assertEqual(self.after(self.grown("cairn_group_calls", 768, 736)), ["cairn_group_calls"])

    def test_a_function_with_another_parameter(self):
        self.assertEqual(self.after(("<function-decl name='cairn_group_rank'", "<function-decl name='cairn_rank'")),
                         ["cairn_group_rank"])


class Constants(unittest.TestCase):
    def test_each_is_found(self):
        text = "enum one { A = 0, /**< B = 2 */ C_64 = -1 };\nenum two {\n  D = 0x10, // E = 1\n};\nenum one f(void);\n"
        self.assertEqual(interface.constants(text), ["A 0", "C_64 -1", "D 16"])

    def test_one_without_a_value(self):
        with self.assertRaisesRegex(SystemExit, "B has no value"):
            interface.constants("enum one { A = 0, B };")


if __name__ == "__main__":
    unittest.main()
