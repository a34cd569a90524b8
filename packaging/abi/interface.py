#!/usr/bin/env python3
"""What abidiff does not judge of the C interface: whether a struct or a function may differ so, and constants.

    interface.py constants HEADER...   prints each enumerator with its value
    interface.py differences OLD NEW   compares two files of abidw; prints what a program that was linked with OLD
                                       would take wrongly from NEW, and then fails

A struct may only get members at its end, and only if its first member is struct_size: the library knows from it how
much of the struct a program has. abidiff counts all changes of a struct alike, and does not see enumerators, since
functions take them as int."""
import re
import sys
import xml.etree.ElementTree as xml
from pathlib import Path


def constants(text):
    found = []
    text = re.sub(r"(?s)/\*.*?\*/|//[^\n]*", "", text)
    for body in re.findall(r"\benum\s+\w+\s*\{([^}]*)\}", text):
        for one in filter(None, map(str.strip, body.split(","))):
            name, equals, value = map(str.strip, one.partition("="))
            if not equals:
                raise SystemExit(f"{name} has no value in the header")
            found.append(f"{name} {int(value, 0)}")
    return found


class Interface:
    """The structs and functions of a file of abidw, with types in words."""

    def __init__(self, path):
        tree = xml.parse(path)
        self.types = {one.get("id"): one for one in tree.iter() if one.get("id")}
        self.structs = {one.get("name"): (int(one.get("size-in-bits")), [self.member(part) for part in one if
                                                                          part.tag == "data-member"])
                        for one in tree.iter("class-decl") if one.get("size-in-bits")}
        self.functions = {one.get("name"): self.signature(one) for one in tree.iter("function-decl")
                          if one.get("elf-symbol-id")}

    def member(self, part):
        variable = part.find("var-decl")
        return part.get("layout-offset-in-bits"), variable.get("name"), self.words(variable.get("type-id"))

    def signature(self, function):
        return [part.tag + " " + ("..." if part.get("is-variadic") else self.words(part.get("type-id")))
                for part in function if part.tag in ("parameter", "return")]

    def words(self, name):
        one = self.types[name]
        if one.tag == "typedef-decl":
            return self.words(one.get("type-id"))
        if one.tag == "pointer-type-def":
            return self.words(one.get("type-id")) + "*"
        if one.tag == "qualified-type-def":
            return self.words(one.get("type-id")) + " const"
        if one.tag == "function-type":
            return f"({', '.join(self.signature(one))})"
        if one.tag == "array-type-def":
            return f"{self.words(one.get('type-id'))}[{one.get('size-in-bits')}]"
        return one.get("name")


def differences(old, new):
    for name, signature in old.functions.items():
        if new.functions.get(name) != signature:
            yield f"{name}: was {signature}, is {new.functions.get(name)}"
    for name, (size, members) in old.structs.items():
        new_size, new_members = new.structs.get(name, (0, []))
        may_grow = members and members[0][1] == "struct_size"
        if new_members[:len(members)] != members:
            changed = [one for one in members if one not in new_members]
            yield f"{name}: these members are no longer what they were, or not at their place: {changed or members}"
        elif not may_grow and (new_size, new_members) != (size, members):
            yield f"{name} has grown, and programs give no struct_size"
        elif any(int(place) < size for place, _, _ in new_members[len(members):]):
            yield f"{name} has new members before its former end"


def main(command, *files):
    if command == "constants":
        print("\n".join(line for name in files for line in constants(Path(name).read_text(encoding="utf-8"))))
        return 0
    found = list(differences(*map(Interface, files)))
    print("".join(line + "\n" for line in found), end="")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
