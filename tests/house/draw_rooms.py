#!/usr/bin/env python3
"""Draws the rooms of the source tree and the arrows between them. usage: draw_rooms.py [--write] [ROOT]

The arrows are those of ALLOWED in check_tree.py, which every #include is held to. An arrow that
follows from others is left out; what follows and is forbidden all the same stands under "but not".
Prints the drawing; with --write it replaces the one in ARCHITECTURE.md. check_docs.py complains
where the two differ.
"""
import sys
from pathlib import Path

sys.dont_write_bytecode = True
import check_tree  # noqa: E402

PAGE = "ARCHITECTURE.md"
BEGIN = "<!-- rooms: drawn by tests/house/draw_rooms.py --write -->"
END = "<!-- end of rooms -->"
SHOWN = {"whole": "cairn.hpp"}  # rooms whose name in the table is unclear


def reachable(table, room):
    """All rooms to which includes of this one can lead, in any number of steps."""
    found = set()
    for other in table.get(room, ()):
        found |= {other} | reachable(table, other)
    return found


def direct(table, room):
    """The arrows of a room that do not follow from its others."""
    return {other for other in table[room]
            if not any(other in reachable(table, through) for through in table[room])}


def storeys(table):
    """The level of each room: one above the highest that it includes."""
    height = {}
    for room in table:  # those below come first
        height[room] = 1 + max((height[other] for other in table[room]), default=-1)
    return height


def draw(table=None):
    table = check_tree.ALLOWED if table is None else table
    height = storeys(table)
    shown = {room: SHOWN.get(room, room) for room in table}

    def names(rooms):
        return ", ".join(shown[room] for room in table if room in rooms)

    rows = [("", "room", "may include", "but not")]
    last = None
    for room in sorted(table, key=lambda one: (-height[one], list(table).index(one))):
        storey = "" if height[room] == last else str(height[room])
        last = height[room]
        arrows = names(direct(table, room))
        if room in check_tree.FREE_OF_ROOMS:
            arrows = ", ".join(filter(None, [arrows, "public headers"]))
        rows.append((storey, shown[room], f"→ {arrows}" if arrows else "",
                     names(reachable(table, room) - table[room])))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()
                     for row in rows) + "\n"


def between_marks(text):
    """Where the drawing begins and ends in a page, or None if it has none."""
    begin, end = text.find(BEGIN), text.find(END)
    return (begin + len(BEGIN), end) if 0 <= begin < end else None


def block():
    return f"\n```text\n{draw()}```\n"


def check_drawing(root):
    """Yields a line for each fault of the drawing in the page."""
    if list(check_tree.check_table()):
        return  # no order to draw the rooms in: check_tree.py says so
    page = root / PAGE
    text = page.read_text(encoding="utf-8") if page.is_file() else ""
    place = between_marks(text)
    if place is None:
        yield f"{PAGE}: there is no drawing of the rooms between {BEGIN} and {END}"
    elif text[place[0]:place[1]] != block():
        yield (f"{PAGE}: the drawing of the rooms is not what the table in tests/house/check_tree.py says:"
               " run tests/house/draw_rooms.py --write")


def write(root):
    page = root / PAGE
    text = page.read_text(encoding="utf-8")
    place = between_marks(text)
    if place is None:
        raise SystemExit(f"{PAGE}: the lines {BEGIN} and {END} are missing")
    page.write_text(text[:place[0]] + block() + text[place[1]:], encoding="utf-8")


def main(arguments):
    writes = arguments[:1] == ["--write"]
    arguments = arguments[writes:]
    if len(arguments) > 1 or any(one.startswith("-") for one in arguments):
        print(__doc__)
        return 2
    if writes:
        write(Path(arguments[0] if arguments else Path(__file__).parents[2]))
    else:
        print(draw(), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
