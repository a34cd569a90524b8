"""A copy of the Python package's sources that mkdocstrings can show without building anything.

What comes from the compiled part is described by __init__.pyi; here it gets a module of its own,
where griffe looks for it.
"""
import ast
import re
import shutil
from pathlib import Path

DOCSTRING = re.compile(r'"""((?:.|\n)*?)"""')
EXAMPLE = re.compile(r"^([ \t]*)>>> .*\n(?:\1\S.*\n)*", re.MULTILINE)
COLUMNS = re.compile(r"(?:^[ \t]+\w+(?:\(\))?  +\S.*\n(?:^ {12,}\S.*\n)*){2,}", re.MULTILINE)


def compiled_names(text):
    """Names that __init__.py takes from the compiled part: there and here."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.ImportFrom) and node.module == "_cairn":
            for one in node.names:
                yield one.name, one.asname or one.name


def name_of(node):
    if isinstance(node, ast.AnnAssign):
        return node.target.id
    return getattr(node, "name", None)


def fenced(found, language):
    text = found.group(0)
    indent = re.match(r"[ \t]*", text).group(0)
    return f"{indent}```{language}\n{text}{indent}```\n"


def shown(text):
    """Tables of names keep their columns, and examples are code."""
    text = EXAMPLE.sub(lambda found: fenced(found, "pycon"), text)
    return COLUMNS.sub(lambda found: fenced(found, "text"), text)


def stage(root, out):
    source, package = root / "python" / "cairn", out / "cairn"
    shutil.rmtree(package, ignore_errors=True)
    for path in sorted(source.rglob("*.py*")):
        if path.suffix not in (".py", ".pyi"):
            continue
        text = path.read_text(encoding="utf-8")
        text = DOCSTRING.sub(lambda found: f'"""{shown(found.group(1))}"""', text)
        copy = package / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(text, encoding="utf-8")
    stub = ast.parse((package / "__init__.pyi").read_text(encoding="utf-8"))
    names = dict(reversed(pair) for pair in
                 compiled_names((package / "__init__.py").read_text(encoding="utf-8")))
    imports = [node for node in stub.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    taken = [node for node in stub.body if name_of(node) in names]
    (package / "_cairn.py").write_text("\n".join(map(ast.unparse, imports + taken)) + "\n", encoding="utf-8")
    rest = [node for node in stub.body if node not in taken]
    (package / "__init__.pyi").write_text("\n".join(map(ast.unparse, rest)) + "\n", encoding="utf-8")


def parts(root):
    """What the page of the package has below it: a section for each package in it."""
    for path in sorted((root / "python" / "cairn").glob("*/__init__.py")):
        name = path.parent.name
        yield (f"\n## cairn.{name} {{ #cairn-{name} }}\n\n::: cairn.{name}\n    options:\n      heading_level: 3\n"
               "      show_root_heading: false\n      show_root_toc_entry: false\n")
