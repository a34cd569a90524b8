#!/usr/bin/env python3
"""Holds the source tree to the rules of its design. usage: check_tree.py [ROOT]

Reads every #include in include/, src/, mpi/, kokkos/ and fortran/ and complains of an arrow between rooms
that is not allowed, of headers that are not the face of their room, of circles, of third-party headers outside their room, of what writes or reads
numbers as the process's locale says, of virtual functions that only one class overrides, of classes that do too much, of files that are too long and of
paths that only one machine has. Prints one line a fault; exit status 1 if there is any.
"""
import os
import re
import sys
from pathlib import Path

sys.dont_write_bytecode = True
from machine_paths import check_paths  # noqa: E402
from rooms import (ALLOWED, FACES, FREE_OF_ROOMS, LOOKS_BEHIND, OPEN_ROOMS, ROOM_OF_C_HEADER,  # noqa: E402
                   ROOM_OF_PUBLIC_HEADER, WIDER_FACES, WIDEST_FACE)

C_STANDARD = {"stddef.h", "stdint.h"}  # the headers that a header for C may include
# Headers that make a file depend on a package: only these rooms may include them.
PACKAGES = {
    "MPI": (re.compile(r"mpi(-ext)?\.h|mpio\.h"), {"mpi", "bench"}),
    "Kokkos": (re.compile(r"(impl/)?Kokkos_.*"), {"kokkos", "bench"}),
    "protobuf": (re.compile(r"google/protobuf/.*|.*\.pb\.h"), {"layout"}),
    "HDF5": (re.compile(r"hdf5\.h|H5\w*\.h"), {"layout", "mpi", "bench"}),
    "CLI11": (re.compile(r"CLI/.*"), {"cli"}),
}
CODE_FOLDERS = ("include", "src", "mpi", "kokkos", "fortran", "tests", "examples", "lab")
FOLDERS_WITH_ROOMS = ("include", "src", "mpi", "kokkos", "fortran", "python")
FOLDERS_WITH_ARROWS = FOLDERS_WITH_ROOMS + ("lab/bench",)  # what is measured there may lie behind a face
HEADERS, SOURCES = {".hpp", ".h"}, {".cpp", ".cc", ".cu", ".c", ".f90", ".F90"}
LONGEST_HEADER, LONGEST_SOURCE = 300, 500
LEAST_HEADERS, LEAST_PRODUCT = 100, 1000  # with fewer headers or lines, shares say nothing
JSON_MEMBER = re.compile(r'[\w)\]]((\["[^"]*"\]|\[\w+\])*\["[^"]*"\](\[\w+\])*)')
IS_WRITTEN = re.compile(r"\s*=[^=]|\.push_back\(")
PRINTS = {"print", "picture", "run"}
FILE_ENDING = re.compile(r'"\.(index|h5|data)[-"]')
ASKS_FOR_KIND = re.compile(r"[!=]= *(Format|Writer)::|\b(Format|Writer)::\w+ *[!=]="
                           r"|\bcase (Format|Writer)::|\bif \(!?(\w+\.)*hdf5\)|\bhdf5 \?")
KINDS_ARE_KNOWN = {("src", "store", "formats"), ("src", "session", "save", "formats"),
                   ("src", "session", "save", "writers")}
HAVE_KINDS = ("src/store/", "src/layout/", "src/session/save/")
# A class with its parents, up to its body; the functions that it declares as virtual; those that it
# overrides.
CLASS = re.compile(r"\b(?:class|struct)\s+(\w+)(?:\s+final)?\s*(?::([^{};]+))?\{")
VIRTUAL = re.compile(r"\bvirtual\b[^;{}]*?(?<!~)\b(\w+)\s*\(")
OVERRIDE = re.compile(r"\b(\w+)\s*\((?:[^;{}]|= ?\{\})*\)[^;{}]*\boverride\b")
# Text before a parenthesis that is no name: operators, arguments of templates, annotations.
OPERATOR = re.compile(r"\boperator\s*(?:\(\)|[^\s\w(]+)")
IN_ANGLES = re.compile(r"<[^<>;]*>")
ANNOTATION = re.compile(r"\b[A-Z][A-Z_]+\([^()]*\)")
MOST_FUNCTIONS = 40  # for one class, members and forwarding functions alike
MOST_OF = {"Dims": 43, "Engine": 30, "ThreadWorld": 41}
ENGINE, MOST_FILES_OF_ENGINE, MOST_HEADERS_OF_ENGINE = Path("src/session/engine.hpp"), 4, 45
NO_ENGINES = re.compile(r"\btier::|\bTier\b|session/nodes/|store/nodes/")
KNOWS_BOTH = {"src/store/contents/lost.cpp", "src/store/contents/read_holders.cpp"}
FILES, MOST_WITH_FILES = re.compile(r"\bio::FileSystem\b"), 15
BELOW_WAIST = {("src", "io"), ("src", "store"), ("src", "layout"), ("src", "testing")}
# The names of a piece, and a sum or difference with its offset.
PIECE = r"(?:\b(?:slice|piece|stored|one|other)|slices(?:\.\w+\(\)|\[\w+\]))(?:\.|->)offset\b"
OFFSETS = re.compile(rf"{PIECE}\s*[-+*]|[-+*]=?\s*(?:[\w.()\[\]]|->)*?{PIECE}")
# The rooms that compute where bytes are: in our files, in messages, in other programs' files, and
# in parts on the nodes.
MAKE_OFFSETS = (("src", "layout"), ("src", "store"), ("src", "exchange"), ("src", "io"), ("src", "foreign"),
                ("src", "session", "nodes"), ("src", "testing"))
TRANSACTION = re.compile(r"\bTransaction\b|\btransaction\(\)")
# A new stream has the global C++ locale, unless it is given another one; these functions have the C
# locale. (std::to_string uses it for floating-point numbers, which a line does not tell.)
STREAM = re.compile(r"\b[io]?(?:string|f)stream\b(?:\s+(\w+)\s*[({;])?|\bstd::w?(?:cin|cout|cerr|clog)\b")
BY_LOCALE = re.compile(r"\b(?:strto(?:d|f|ld)|atof|sto(?:d|f|ld)|std::to_string|setlocale|localeconv|std::regex|"
                       r"std::(?:is(?:alnum|alpha|digit|lower|print|punct|space|upper|xdigit)|to(?:lower|upper))|"
                       r"[Jj]son::parse)\b\s*\(")
FORMATS = re.compile(r"(?:printf|scanf)\s*\(")
FRACTION = re.compile(r'"[^"\n]*%[-+#0-9.*]*[lL]?[aAeEfFgG][^"\n]*"')
# The tool gives itself the classic locale before it does anything.
TOOL = "src/cli/run.cpp"
SETS_CLASSIC = "std::locale::global(std::locale::classic());"
# Words of a message, as opposed to a key or a number.
PHRASE = re.compile(r'HasSubstr\(\s*"([^"\\]*[a-z]{2,} [a-z]{2,}[^"\\]*)"\s*\)')
READS_JSON = "src/base/json.cpp"
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)


def room_of(path):
    """The room of a file, given relative to the root; None if it is in no room."""
    first, rest = path.parts[0], path.parts[1:]
    if first == "src":
        return rest[0] if len(rest) > 1 else None
    if first in ("mpi", "kokkos", "fortran", "python"):
        return first
    if path.parts[:2] == ("lab", "bench"):
        return "bench"
    if first == "include" and len(rest) > 1 and rest[0] == "cairn":
        return ROOM_OF_PUBLIC_HEADER.get(Path(rest[1]).stem)
    if first == "include" and len(rest) == 1:
        return ROOM_OF_C_HEADER.get(rest[0])
    return None


def code_files(root, folders):
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in HEADERS | SOURCES and path.is_file():
                yield path.relative_to(root)


def resolve(root, includer, name):
    """The file of the tree that an include names, or None if it is outside."""
    for folder in (includer.parent, Path("include"), Path("src"), Path("."), Path("tests")):
        if (root / folder / name).is_file():
            return Path(os.path.normpath(folder / name))
    return None


def is_generated(root, name):
    made_from = name[:-5] + ".proto" if name.endswith(".pb.h") else name + ".in"
    return any((root / "src").rglob(Path(made_from).name))


def check_include(root, includer, quote, name):
    room = room_of(includer)
    public = includer.parts[0] == "include"
    if name.endswith(tuple(SOURCES)):
        yield f"{includer}: includes the source file {name}"
        return
    if ".." in Path(name).parts:
        yield f'{includer}: "{name}" climbs; write includes from src/ or include/'
        return
    for package, (pattern, rooms) in PACKAGES.items():
        if pattern.fullmatch(name) and room not in rooms:
            yield f"{includer}: <{name}> ties room {room} to {package}"
    target = resolve(root, includer, name)
    if target is None:
        if quote == '"' and not is_generated(root, name):
            yield f'{includer}: "{name}" is no file of this tree'
        elif public and includer.suffix == ".h" and name in C_STANDARD:
            return
        elif public and re.search(r"[./]", name) and room not in FREE_OF_ROOMS:
            yield f"{includer}: <{name}> is not of the standard library, in a public header"
        return
    below = room_of(target)
    if public and target.parts[0] != "include":
        yield f"{includer}: a public header includes {target}, which is not installed"
    elif below is None and not (room == "bench" and target.parts[0] in ("examples", "tests")):
        yield f"{includer}: {target} belongs to no room"
    elif below is None:
        return
    elif below in ALLOWED[room] and not is_face(target, below) and room not in LOOKS_BEHIND:
        yield (f"{includer}: {target} is no part of the face of room {below} (FACES in tests/house/rooms.py)")
    elif room == below or below in ALLOWED[room]:
        return
    elif room in FREE_OF_ROOMS and target.parts[0] == "include" and below not in FREE_OF_ROOMS:
        return
    else:
        yield f"{includer}: forbidden arrow {room} -> {below} (includes {target})"


def is_face(header, room):
    """Whether other rooms may include a header of this room."""
    if header.parts[0] == "include" or room in OPEN_ROOMS:
        return True
    return header.with_suffix("").as_posix().removeprefix(f"src/{room}/") in FACES.get(room, ())


def check_faces(root):
    """A face must be small, and name no header that is gone."""
    headers = {}
    for path in code_files(root, ("src", "mpi")):
        if path.suffix in HEADERS:
            headers.setdefault(room_of(path), set()).add(
                path.with_suffix("").as_posix().removeprefix(f"src/{room_of(path)}/"))
    if sum(map(len, headers.values())) < LEAST_HEADERS:
        return
    for room, face in FACES.items():
        for gone in sorted(set(face) - headers.get(room, set())):
            yield f"rooms.py: the face of room {room} has {gone}, which is no header"
        share = 100 * len(face) // max(len(headers.get(room, ())), 1)
        if share > WIDER_FACES.get(room, WIDEST_FACE):
            yield (f"room {room} shows {len(face)} of {len(headers.get(room, ()))} headers, {share} %: at most "
                   f"{WIDER_FACES.get(room, WIDEST_FACE)} % are to be its face")


def check_base_names(root):
    """The name of a file must tell its room: no name is in two."""
    rooms = {}
    for path in code_files(root, ("include", "src", "mpi", "kokkos", "fortran")):
        rooms.setdefault(path.name, {}).setdefault(room_of(path), path)
    for name, places in sorted(rooms.items()):
        if len(places) > 1 and name != "CMakeLists.txt":
            yield f"{name} stands in more than one room: {', '.join(map(str, places.values()))}"


def find_circles(edges):
    state, trail = {}, []

    def visit(node):
        state[node] = "open"
        trail.append(node)
        for target in edges.get(node, ()):
            if state.get(target) == "open":
                circle = trail[trail.index(target):] + [target]
                yield "circle of includes: " + " -> ".join(map(str, circle))
            elif target not in state:
                yield from visit(target)
        trail.pop()
        state[node] = "done"

    for node in sorted(edges):
        if node not in state:
            yield from visit(node)


def check_includes(root):
    yield from check_table()
    edges = {}
    for path in code_files(root, FOLDERS_WITH_ARROWS):
        text = (root / path).read_text(encoding="utf-8")
        if room_of(path) not in ALLOWED:
            yield f"{path}: belongs to no room"
            continue
        if path.suffix in HEADERS and "#pragma once" not in text:
            yield f"{path}: #pragma once is missing"
        for quote, name in INCLUDE.findall(text):
            yield from check_include(root, path, quote, name)
            target = resolve(root, path, name)
            if target is not None:
                edges.setdefault(path, []).append(target)
    yield from find_circles(edges)


def check_file_names(root):
    """The endings of file names are joined and split in one place."""
    for path in code_files(root, ("src", "mpi")):
        if path.parts[:3] == ("src", "store", "commit"):
            continue
        for number, line in enumerate((root / path).read_text(encoding="utf-8").splitlines(), 1):
            if FILE_ENDING.search(line):
                yield f"{path}:{number}: the names of files are built and parsed in store/commit/names.hpp"


def check_members(root):
    """Reading a member that a JSON text lacks by its name alone is undefined behaviour."""
    for path in code_files(root, FOLDERS_WITH_ROOMS):
        text = (root / path).read_text(encoding="utf-8")
        for found in JSON_MEMBER.finditer(text):
            if not IS_WRITTEN.match(text, found.end()):
                number = text.count("\n", 0, found.start()) + 1
                yield (f"{path}:{number}: a member is read without a look whether it is there; use"
                       " find_member (base/json.hpp) or at()")


def check_output(root):
    """The tool may print texts that anybody has written into a checkpoint or used as a file
    name."""
    for path in code_files(root, ("src",)):
        if path.parts[:2] != ("src", "cli") or path.stem in PRINTS:
            continue
        for number, line in enumerate((root / path).read_text(encoding="utf-8").splitlines(), 1):
            if re.search(r"std::c(out|err) <<", line):
                yield f"{path}:{number}: streams take any text as it is; use print_line, print_table or log"


def check_kinds(root):
    """Code that depends on the format or the writer belongs to their classes, in the rooms that
    have their tables."""
    for path in code_files(root, ("src", "mpi")):
        if path.parts[:-1] in KINDS_ARE_KNOWN or path.as_posix() in KNOWS_BOTH:
            continue
        for number, line in enumerate((root / path).read_text(encoding="utf-8").splitlines(), 1):
            if ASKS_FOR_KIND.search(line):
                yield (f"{path}:{number}: a format or writer is asked for; ask CheckpointFormat,"
                       " SaveFormat or DataWriter what follows from it")


def check_waist(root):
    """Files belong below the waist. Above it few may name them: the entrances of the API, and code
    that writes files outside of checkpoints."""
    above = [path for path in code_files(root, ("src", "mpi", "python"))
             if path.parts[:2] not in BELOW_WAIST and FILES.search((root / path).read_text(encoding="utf-8"))]
    if len(above) > MOST_WITH_FILES:
        yield (f"{len(above)} files above the store name io::FileSystem, at most {MOST_WITH_FILES} do; hold an Address"
               f" or an OpenCheckpoint: {', '.join(sorted(map(str, above)))}")


def check_transactions(root):
    """The form of a save on disk belongs to the store; other rooms use its Draft."""
    for path in code_files(root, ("src", "mpi", "python", "lab/bench")):
        if path.parts[:2] == ("src", "store"):
            continue
        for number, line in enumerate((root / path).read_text(encoding="utf-8").splitlines(), 1):
            if TRANSACTION.search(line):
                yield f"{path}:{number}: a transaction is the store's own; hold a Draft (store/draft.hpp)"


def check_offsets(root):
    """The place of a piece is computed in one place; only sinks and readers use it."""
    for path in code_files(root, FOLDERS_WITH_ROOMS):
        if any(path.parts[:len(folder)] == folder for folder in MAKE_OFFSETS):
            continue
        for number, line in enumerate((root / path).read_text(encoding="utf-8").splitlines(), 1):
            if OFFSETS.search(re.sub(r"//.*", "", line)):
                yield f"{path}:{number}: a stored offset is computed; layout/offsets.hpp does that"


def classes_of(text):
    """Name, parents and body of each class."""
    for found in CLASS.finditer(text):
        depth, end = 1, found.end()
        while depth > 0 and end < len(text):
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        yield found[1], set(re.findall(r"\w+", found[2] or "")), text[found.end():end]


def check_virtuals(root):
    """A function that only one of several layouts, stores or writers overrides asks which one it
    is."""
    parents, overrides, declared = {}, {}, []
    for path in code_files(root, FOLDERS_WITH_ROOMS):
        text = re.sub(r"//.*", "", (root / path).read_text(encoding="utf-8"))
        for name, above, body in classes_of(text):
            parents.setdefault(name, set()).update(above)
            overrides.setdefault(name, set()).update(OVERRIDE.findall(body))
            if path.suffix in HEADERS and path.as_posix().startswith(HAVE_KINDS):
                declared += [(path, name, function) for function in VIRTUAL.findall(body)]
    for path, base, function in declared:
        kinds, last = set(), {base}
        while last:
            last = {name for name, above in parents.items() if above & last} - kinds
            kinds |= last
        if len(kinds) > 1 and sum(function in overrides[kind] for kind in kinds) < 2:
            yield (f"{path}: {base}::{function} is overridden by less than two of {len(kinds)} classes, so that it"
                   " asks which one it is; give each a function that does what follows")


def functions_of(body):
    """How many functions a class declares or defines, without deleted ones."""
    depth, flat = 0, []  # text in braces is no declaration of this class
    for char in re.sub(r'"[^"\n]*"', "", body):
        depth += {"{": 1, "}": -1}.get(char, 0)
        if depth == 0:
            flat.append(";" if char == "}" else char)
    text, before = OPERATOR.sub("operator_", "".join(flat)).replace("->", " "), None
    while text != before:
        before, text = text, IN_ANGLES.sub("", text)
    text = ANNOTATION.sub("", re.sub(r"\b(public|protected|private)\s*:(?!:)", "", text))
    heads = [one.split("(")[0] for one in text.split(";") if "(" in one and not one.rstrip().endswith("= delete")]
    return sum("=" not in head and not re.match(r"\s*(friend|using|static_assert)\b", head) for head in heads)


def headers_of(root, path):
    """The headers of ours that a file includes, directly or not."""
    found, last = set(), [path]
    while last:
        here = last.pop()
        for _, name in INCLUDE.findall((root / here).read_text(encoding="utf-8")):
            target = resolve(root, here, name)
            if target is not None and target not in found:
                found.add(target)
                last.append(target)
    return found


def check_classes(root):
    """A class must be small enough to know, and the engine has a table of contents."""
    defines = []
    for path in code_files(root, FOLDERS_WITH_ROOMS):
        text = re.sub(r"//.*", "", (root / path).read_text(encoding="utf-8"))
        if re.search(r"^(?=[^ #]).*\bEngine::~?\w+\(", text, re.MULTILINE):
            defines.append(path)
        for name, above, body in classes_of(text):
            number = functions_of(body)
            most = MOST_OF.get(name, MOST_FUNCTIONS)
            if number > most:
                yield f"{path}: {name} has {number} functions, at most {most} are allowed: give a part of it a class"
            if "Engine" in above:
                yield f"{path}: {name} is to have an engine, and not to be one"
    if len(defines) > MOST_FILES_OF_ENGINE:
        yield (f"Engine is defined in {len(defines)} files, at most {MOST_FILES_OF_ENGINE} are allowed:"
               f" {', '.join(map(str, defines))}")
    if not (root / ENGINE).is_file():
        return
    brings = headers_of(root, ENGINE)
    if len(brings) > MOST_HEADERS_OF_ENGINE:
        yield f"{ENGINE} brings {len(brings)} of our headers, at most {MOST_HEADERS_OF_ENGINE} are allowed"
    for path in sorted({ENGINE, *defines}):
        if found := NO_ENGINES.search((root / path).read_text(encoding="utf-8")):
            yield f"{path}: '{found[0]}' is no engine's; it knows what is Elsewhere (src/session/elsewhere.hpp)"


def check_locale(root):
    """Stored and parsed texts must be the same in every locale."""
    if (root / TOOL).is_file() and SETS_CLASSIC not in (root / TOOL).read_text(encoding="utf-8"):
        yield f"{TOOL}: the tool lacks {SETS_CLASSIC}"
    for path in code_files(root, FOLDERS_WITH_ROOMS):
        text = (root / path).read_text(encoding="utf-8")
        code = re.sub(r"//.*", "", text)
        prints, follows = FORMATS.search(code), BY_LOCALE.search(code)
        if not prints and not follows and not STREAM.search(code):
            continue
        for number, line in enumerate(code.splitlines(), 1):
            if "#include" in line or path.parts[:2] == ("src", "cli"):
                continue
            for stream in STREAM.finditer(line):
                if not stream[1] or f"{stream[1]}.imbue(std::locale::classic());" not in code:
                    yield (f"{path}:{number}: '{stream[0].strip()}' has the global locale; use base/text.hpp, or"
                           " give it std::locale::classic() by imbue()")
        for number, line in enumerate(code.splitlines(), 1):
            found = BY_LOCALE.search(line)
            if found and path.as_posix() != READS_JSON and not (
                    path.parts[0] == "fortran" and "to_string" in found[0]):  # it has whole numbers only
                yield f"{path}:{number}: '{found[0]}' follows the locale; use base/text.hpp or base/json.hpp"
            if prints and FRACTION.search(line):
                yield f"{path}:{number}: a fraction is printed or read as the locale says; use base/text.hpp"


def check_size_of_rooms(root):
    """No room holds more than a quarter of the product."""
    sizes = {}
    for path in code_files(root, FOLDERS_WITH_ROOMS):
        room = "include" if path.parts[0] == "include" else room_of(path)
        sizes[room] = sizes.get(room, 0) + (root / path).read_text(encoding="utf-8").count("\n")
    whole = sum(sizes.values())
    for room, lines in sorted(sizes.items(), key=lambda one: str(one[0])):
        if whole >= LEAST_PRODUCT and 4 * lines > whole:
            yield f"room {room} has {lines} of {whole} lines: no room is to hold more than a quarter"


def check_table():
    """Checks the table itself: a reader from the top meets each room before those that include
    it."""
    above = set()
    for room, allowed in ALLOWED.items():
        for other in sorted(allowed - above):
            yield f"the table of rooms: {room} -> {other} points down it, so that a cycle is possible"
        above.add(room)


def check_examples(root):
    for path in code_files(root, ["examples"]):
        for _, name in INCLUDE.findall((root / path).read_text(encoding="utf-8")):
            target = resolve(root, path, name)
            if target is not None and target.parts[0] not in ("examples", "include"):
                yield f"{path}: an example includes {target}, which is not installed"


def check_lengths(root):
    for path in code_files(root, CODE_FOLDERS):
        limit = LONGEST_HEADER if path.suffix in HEADERS else LONGEST_SOURCE
        with open(root / path, encoding="utf-8") as file:
            lines = sum(1 for _ in file)
        if lines > limit:
            yield f"{path}: {lines} lines, at most {limit} are allowed"


def check_wording(root):
    """Tests refer to a message's words through the table of all wordings, so that a change of
    words changes one file."""
    for path in code_files(root, ("tests",)):
        for found in PHRASE.finditer((root / path).read_text(encoding="utf-8")):
            yield f'{path}: HasSubstr("{found[1]}") names words; use test::Says (tests/support/says.hpp)'


def check_tree(root):
    root = Path(root).resolve()
    checks = (check_includes, check_examples, check_file_names, check_members, check_output, check_kinds, check_lengths, check_paths,
              check_size_of_rooms, check_waist, check_transactions, check_offsets, check_locale, check_faces,
              check_base_names, check_classes, check_virtuals, check_wording)
    return [fault for check in checks for fault in check(root)]


def main(arguments):
    if len(arguments) > 1 or arguments[:1] in (["-h"], ["--help"]):
        print(__doc__)
        return 2
    faults = check_tree(arguments[0] if arguments else Path(__file__).parents[2])
    print("\n".join(faults) if faults else "the tree keeps its rules")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
