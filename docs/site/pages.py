#!/usr/bin/env python3
"""Gathers the pages of the site. usage: pages.py ROOT DOXYGEN_XML OUT

Pages of docs/ and of the top folder become pages of the site, the public headers and the Fortran
modules pages of the reference. A link to another file of the repository leads to a page with its
text, so that the site needs no other place. A link that leads nowhere is an error: one line each,
exit status 1. (MkDocs checks links between pages and to headings.)

Pages are written for a forge. Three things are different here:
- Python-Markdown wants a blank line before a list or a table;
- `<!-- from FILE -->`, which tests/house/check_docs.py reads, says nothing to readers;
- parts that begin with a line **C++**, **C**, **Fortran**, **Python** or **Shell** and go on to the
  next heading become tabs.
"""
import os
import re
import shutil
import sys
from pathlib import Path

sys.dont_write_bytecode = True
import fortran  # noqa: E402
import headers  # noqa: E402
import package  # noqa: E402

TOP = {"ARCHITECTURE.md": "architecture.md", "CHANGELOG.md": "changelog.md",
       "CONTRIBUTING.md": "contributing.md", "README.md": "index.md", "SECURITY.md": "security.md",
       "STABILITY.md": "stability.md", "SUPPORT.md": "support.md"}
FOLDERS = {"include/cairn": "reference/cpp.md", "include/cairn/c": "reference/c.md",
           "fortran": "reference/fortran.md"}
LANGUAGES = {".hpp": "cpp", ".cpp": "cpp", ".h": "c", ".c": "c", ".f90": "fortran", ".F90": "fortran",
             ".py": "python", ".txt": "cmake", ".sbatch": "bash", ".sh": "bash", ".md": "markdown",
             ".yml": "yaml"}
LINK = re.compile(r"(!?\[(?:[^\[\]]|\[[^\[\]]*\])*\]\()([^()\s]+)(\))")
CODE = re.compile(r"`[^`]*`")
FENCE = re.compile(r"^( *)(```+)")
MARK = re.compile(r"^<!-- from (\S+) -->$")
TAB = re.compile(r"^\*\*(C\+\+|C|Fortran|Python|Shell)\*\*$")
LIST = re.compile(r"^ *(?:[-*]|\d+\.) ")
HEADING = re.compile(r"^#{1,6} ")


class Site:
    def __init__(self, root, out):
        self.root, self.out = root, out
        self.faults, self.sources = [], set()

    def place_of(self, path):
        """Where a file of the repository is in the site, and what is shown of it."""
        name = path.as_posix()
        if name in TOP:
            return TOP[name]
        for folder in ("docs/site/", "docs/"):
            if name.startswith(folder) and path.suffix in (".md", ".svg", ".png", ".css"):
                return name[len(folder):]
        if name.startswith("include/") and path.suffix in (".hpp", ".h"):
            return headers.page_of(path)
        if name in FOLDERS:
            return FOLDERS[name]
        self.sources.add(path)
        return f"files/{name}.md" if (self.root / path).is_file() else f"files/{name}/index.md"

    def link(self, page, place, target):
        if "://" in target or target.startswith(("mailto:", "#")):
            return target
        path, _, anchor = target.partition("#")
        full = (self.root / page).parent.joinpath(path).resolve()
        if not full.is_relative_to(self.root) or not full.exists():
            self.faults.append(f"{page}: the link to {target} leads nowhere")
            return target
        to = self.place_of(full.relative_to(self.root))
        there = os.path.relpath(to, Path(place).parent)
        # A file that is shown as text has no headings.
        return f"{there}#{anchor}" if anchor and not to.startswith("files/") else there

    def with_links(self, page, place, line):
        code = [found.span() for found in CODE.finditer(line)]

        def moved(found):
            if any(begin < found.start() and found.end() < end for begin, end in code):
                return found.group(0)
            return found.group(1) + self.link(page, place, found.group(2)) + found.group(3)

        return LINK.sub(moved, line)

    def put(self, place, text):
        path = self.out / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def guide(self):
        """What the first page says of the headers, for the page that lists them."""
        page = Path("docs/start.md")
        text = (self.root / page).read_text(encoding="utf-8")
        part = text.partition("\n## The headers\n")[2].partition("\n## ")[0]
        return self.shown(page, "reference/cpp.md", part)

    def page(self, page):
        """A page of the repository as one of the site."""
        place = self.place_of(page)
        self.put(place, self.shown(page, place, (self.root / page).read_text(encoding="utf-8")))

    def shown(self, page, place, text):
        lines, fence, before, tab = [], None, "", False
        for line in text.splitlines():
            opened = FENCE.match(line)
            if fence is None:
                if tab and HEADING.match(line):
                    tab = False
                if MARK.match(line):
                    continue
                if TAB.match(line):
                    lines += ["", f'=== "{TAB.match(line).group(1)}"', ""]
                    tab, before = True, ""
                    continue
                starts = LIST.match(line) and not LIST.match(before) and not before.startswith(" ")
                starts = starts or line.startswith("|") and not before.startswith("|")
                if before.strip() and (starts or opened and not opened.group(1)):
                    lines.append("")
                line = self.with_links(page, place, line)
            if opened:
                fence = None if fence == opened.group(2) else fence or opened.group(2)
            lines.append("    " + line if tab and line else line)
            before = line
        return "\n".join(lines) + "\n"

    def source(self, path):
        """A page with the text of a file, or with the files of a folder."""
        full = self.root / path
        place = self.place_of(path)
        if full.is_dir():
            inside = sorted(one for one in full.iterdir() if not one.name.startswith(("__", ".")))
            items = []
            for one in inside:
                there = os.path.relpath(self.place_of(one.relative_to(self.root)), Path(place).parent)
                items.append(f"- [{one.name}{'/' if one.is_dir() else ''}]({there})")
            body = "\n".join(items)
        else:
            try:
                text = full.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                self.faults.append(f"a page links to {path}, which is no text")
                return
            language = LANGUAGES.get(path.suffix) or ("bash" if re.match("#!.*sh\n", text) else
                                                      "python" if "python" in text[:40] else "text")
            body = f"``````{{.{language}}}\n{text.rstrip()}\n``````"
        # Whole programs are no answers to a search.
        self.put(place, f"---\nsearch:\n  exclude: true\n---\n# {path.name}\n`{path}`\n\n{body}\n")


def main(arguments):
    if len(arguments) != 3:
        print(__doc__)
        return 2
    root, xml, out = (Path(one).resolve() for one in arguments)
    shutil.rmtree(out, ignore_errors=True)
    site = Site(root, out)
    for page in [*root.glob("docs/**/*.md"), *(root / name for name in TOP if name != "README.md")]:
        site.page(page.relative_to(root))
    for asset in [*root.glob("docs/*.svg"), *root.glob("docs/*.png"), *root.glob("docs/site/assets/*")]:
        place = site.place_of(asset.relative_to(root))
        (out / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(asset, out / place)
    for place, text in headers.pages(root, xml, site.guide()):
        site.put(place, text)
    site.put("reference/fortran.md", fortran.page(root))
    package.stage(root, out.parent / "python")
    with open(out / "reference/python.md", "a", encoding="utf-8") as file:
        file.writelines(package.parts(root))
    done = set()
    while site.sources - done:
        for path in sorted(site.sources - done):
            done.add(path)
            site.source(path)
    print("\n".join(site.faults), end="\n" if site.faults else "")
    return 1 if site.faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
