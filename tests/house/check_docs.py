#!/usr/bin/env python3
"""Holds the code in the documentation to code that is compiled or run. usage: check_docs.py [ROOT]

A block of C++, C, Fortran or Python in docs/ that follows a line `<!-- from FILE -->` must be found in FILE, line
for line but for indentation. A page that has such a line has one before each of its blocks. Links
between the tree's pages must lead to files and headings that are there, files that a page names with
their folder must be there, and the drawing of the rooms in ARCHITECTURE.md must be what draw_rooms.py
draws. Pages that say what holds have no dates: those belong to lab/journal.md. Some pages have at most so many
words, as `wc -w` counts them. Prints one line a fault; exit status 1 if there
is any.
"""
import re
import sys
import textwrap
from pathlib import Path

sys.dont_write_bytecode = True
import draw_rooms  # noqa: E402

BLOCK = re.compile(r"(?:^<!-- from (\S+) -->\n)?^```(?:c|cpp|c\+\+|python|fortran)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MARK = re.compile(r"^<!-- from (\S+) -->$", re.MULTILINE)
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\]\(([^()\s]+)\)")
FILE = re.compile(r"`((?:[\w.-]+/)+[\w.-]+\.(?:hpp|cpp|py))`")
HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
DATE = re.compile(r"\b20\d\d-\d\d-\d\d\b")

# These pages state facts, not history, so they have no dates.
DATELESS = ("README.md", "ARCHITECTURE.md", "docs/reliability.md", "docs/performance.md", "docs/decisions.md",
            "lab/lanes.md")
# Pages that everybody reads stay short; limits in words, as wc -w counts them.
MOST_WORDS = {"README.md": 1000, "CHANGELOG.md": 900, "docs/performance.md": 3000, "docs/reliability.md": 3000,
              "lab/lanes.md": 1200, "docs/decisions.md": 4000}
MOST_WORDS_TOGETHER = 60000  # limit of README, ARCHITECTURE, CONTRIBUTING and docs/ together
MOST_OWN_WORDS = 12  # words of our own that ARCHITECTURE.md has to explain
OWN_WORD = re.compile(r"^- \*\*[^*]+\*\*:", re.MULTILINE)


def lines_of(text):
    return textwrap.dedent(text).splitlines()


def contains(code, block):
    wanted, lines = lines_of(block), code.splitlines()
    if not any(line.strip() for line in wanted):
        return False
    return any(lines_of("\n".join(lines[i:i + len(wanted)])) == wanted
               for i in range(len(lines) - len(wanted) + 1))


def check_page(root, page):
    text = (root / page).read_text(encoding="utf-8")
    marks, used = len(MARK.findall(text)), 0
    for found in BLOCK.finditer(text):
        source, block = found.groups()
        line = text.count("\n", 0, found.start(2))
        if source is None:
            if marks:
                yield f"{page}:{line}: no line says which file this code is from"
            continue
        used += 1
        if not (root / source).is_file():
            yield f"{page}:{line}: there is no file {source}"
        elif not contains((root / source).read_text(encoding="utf-8"), block):
            yield f"{page}:{line}: this code is not in {source}"
    if used != marks:
        yield f"{page}: {marks - used} lines say which file code is from, but no code follows"


def anchors_of(text):
    """The anchors that a forge gives to headings: lower case, without punctuation, '-' for
    blanks."""
    counts, anchors = {}, set()
    for heading in HEADING.findall(FENCED.sub("", text)):
        name = re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
        number = counts.get(name, 0)
        counts[name] = number + 1
        anchors.add(f"{name}-{number}" if number else name)
    return anchors


def check_links(root, page):
    text = (root / page).read_text(encoding="utf-8")
    for link in LINK.findall(CODE.sub("", FENCED.sub("", text))):
        if "://" in link or link.startswith("mailto:"):
            continue
        path, _, anchor = link.partition("#")
        target = (root / page).parent / path if path else root / page
        if not target.exists():
            yield f"{page}: the link to {link} leads nowhere"
        elif anchor and target.suffix == ".md":
            if anchor not in anchors_of(target.read_text(encoding="utf-8")):
                yield f"{page}: the link to {link} names no heading there"


def check_files(root, page):
    """The files that a page names with their folder must exist. NAME stands for a file to come."""
    for name in sorted(set(FILE.findall(FENCED.sub("", (root / page).read_text(encoding="utf-8"))))):
        places = [root / folder / name for folder in (".", "src", "include")]
        if "NAME" not in name and not any(place.is_file() for place in places):
            yield f"{page}: there is no file {name}"


def check_dates(root):
    for page in DATELESS:
        if not (root / page).is_file():
            continue
        for number, line in enumerate((root / page).read_text(encoding="utf-8").splitlines(), 1):
            for date in DATE.findall(line):
                yield f"{page}:{number}: {date} is history, which belongs to lab/journal.md"


def check_words(root):
    for page, most in MOST_WORDS.items():
        words = len((root / page).read_text(encoding="utf-8").split()) if (root / page).is_file() else 0
        if words > most:
            yield f"{page}: {words} words, at most {most} are allowed"


def check_all_words(root):
    """Limits all pages together, and the number of words that the field does not have."""
    pages = [root / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")]
    pages += sorted((root / "docs").rglob("*.md"))
    words = sum(len(page.read_text(encoding="utf-8").split()) for page in pages if page.is_file())
    if words > MOST_WORDS_TOGETHER:
        yield f"docs: {words} words, at most {MOST_WORDS_TOGETHER} are allowed in all pages together"
    page = root / "ARCHITECTURE.md"
    if page.is_file():
        section = page.read_text(encoding="utf-8").partition("\n## Words\n")[2].partition("\n## ")[0]
        own = len(OWN_WORD.findall(section))
        if own > MOST_OWN_WORDS:
            yield f"ARCHITECTURE.md: {own} words of its own, at most {MOST_OWN_WORDS} are allowed; use the field's"


def check_docs(root):
    root = Path(root).resolve()
    pages = sorted(path.relative_to(root) for path in (root / "docs").rglob("*.md"))
    with_code = [Path("README.md"), *pages] if (root / "README.md").is_file() else pages
    faults = [fault for page in with_code for fault in check_page(root, page)]
    top = sorted(path.relative_to(root) for path in root.glob("*.md"))
    lab = sorted(path.relative_to(root) for path in (root / "lab").rglob("*.md"))
    faults += [fault for page in top + pages + lab for fault in check_links(root, page)]
    present = [page for page in top + pages if page.name != "CHANGELOG.md"]  # that tells of the past
    faults += [fault for page in present for fault in check_files(root, page)]
    faults += [*check_dates(root), *check_words(root), *check_all_words(root)]
    return faults + list(draw_rooms.check_drawing(root))


def main(arguments):
    if len(arguments) > 1 or arguments[:1] in (["-h"], ["--help"]):
        print(__doc__)
        return 2
    faults = check_docs(arguments[0] if arguments else Path(__file__).parents[2])
    print("\n".join(faults) if faults else "the documentation says what is there")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
