"""Places in C++ sources where one thing can be changed so that the program still compiles, and the rewriting of a
source so that an environment variable chooses one of the changes. Uses clang's own parser."""
import json
import multiprocessing
import re
import shlex
from pathlib import Path

DECLARATION = 'extern "C" bool cairn_mutant(int) noexcept;\n#line 1\n'
# A comparison, and its neighbour: an off-by-one, or a missing case.
OTHER_OPERATOR = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&",
                  "+": "-", "-": "+"}


def is_assignment(cursor):
    while cursor.kind.name == "UNEXPOSED_EXPR" and len(list(cursor.get_children())) == 1:
        cursor = next(cursor.get_children())
    return cursor.kind.name in ("BINARY_OPERATOR", "COMPOUND_ASSIGNMENT_OPERATOR") or cursor.spelling == "operator="


def peeled(cursor):
    """An expression without casts, and what an operator -> or * is applied to."""
    while cursor.kind.name in ("UNEXPOSED_EXPR", "PAREN_EXPR", "UNARY_OPERATOR") or (
            cursor.kind.name == "CALL_EXPR" and cursor.spelling in ("operator->", "operator*")):
        parts = list(cursor.get_children())
        if not parts:
            break
        cursor = parts[0]
    return cursor


def object_of(cursor):
    """The way to a variable or member, as ("this", "place_", "files"), or nothing."""
    cursor = peeled(cursor)
    kind, names = cursor.referenced.kind.name if cursor.referenced else "", (cursor.spelling,)
    if cursor.kind.name == "CXX_THIS_EXPR":
        return ("this",)
    if cursor.kind.name == "DECL_REF_EXPR" and kind in ("VAR_DECL", "PARM_DECL", "UNEXPOSED_DECL", ""):
        return names
    if cursor.kind.name != "MEMBER_REF_EXPR":
        return None
    parts = list(cursor.get_children())
    base = object_of(parts[0]) if parts and parts[0].kind.is_expression() else ("this",)
    return base if kind == "CXX_METHOD" or not base else base + names


def is_value(kind):
    """Whether a variable of this type, as a number, is changed by an assignment only."""
    kind = kind.get_canonical()
    return kind.kind.name in ("BOOL", "ENUM", "INT", "LONG", "LONGLONG", "UINT", "ULONG", "ULONGLONG", "DOUBLE")


def note_objects(cursor, constant, changed):
    """Notes in `changed` which objects a statement uses, and whether it may change them."""
    kind = cursor.kind.name
    constant = constant or (kind == "UNEXPOSED_EXPR" and cursor.type.is_const_qualified())
    path = object_of(cursor) if kind in ("DECL_REF_EXPR", "MEMBER_REF_EXPR", "CXX_THIS_EXPR") else None
    if path:
        method = cursor.referenced and cursor.referenced.kind.name == "CXX_METHOD"
        may = not (cursor.referenced.is_const_method() if method else constant or is_value(cursor.type) or
                   cursor.type.is_const_qualified())
        changed[path] = changed.get(path, False) or may
    children = list(cursor.get_children())
    if children and (kind in ("BINARY_OPERATOR", "COMPOUND_ASSIGNMENT_OPERATOR") and is_assignment(cursor)
                     or kind == "UNARY_OPERATOR" and is_value(cursor.type)):
        target = object_of(children[0])
        if target:
            changed[target] = True
    # Of a way a.b.c only the whole is noted.
    for child in children if not path else ():
        note_objects(child, constant, changed)


def objects_in(statement):
    changed = {}
    note_objects(statement, False, changed)
    return changed


def meet(one, other):
    """Whether one of two statements may change an object that the other uses."""
    return any((one[a] or other[b]) and a[:len(b)] == b[:len(a)] for a in one for b in other)


class Source:
    """One source and its places: (first byte, end, kind, text of the change)."""

    def __init__(self, path, cindex, unit):
        self.path, self.cindex = str(path), cindex
        self.bytes = Path(path).read_bytes()
        self.places = []
        for cursor in unit.cursor.get_children():
            if cursor.location.file and cursor.location.file.name == self.path:
                self.visit(cursor, False)

    def text(self, cursor):
        return self.bytes[cursor.extent.start.offset:cursor.extent.end.offset].decode()

    def is_here(self, cursor):
        start, end = cursor.extent.start, cursor.extent.end
        return bool(start.file and end.file and start.file.name == end.file.name == self.path
                    and start.offset < end.offset and b"#" not in self.bytes[start.offset:end.offset])

    def add(self, start, end, kind, change):
        if b"//" not in self.bytes[start:end]:  # the change stands on one line
            self.places.append((start, end, kind, change))

    def visit(self, cursor, inside):
        """`inside`: the body of a function that runs, not one for the compiler."""
        kind = cursor.kind.name
        if kind in ("CXX_METHOD", "FUNCTION_DECL", "CONSTRUCTOR", "DESTRUCTOR", "FUNCTION_TEMPLATE", "CONVERSION_FUNCTION"):
            head = self.text(cursor).split("{")[0].split() if self.is_here(cursor) else ["constexpr"]
            inside = "constexpr" not in head and "consteval" not in head
        elif kind in ("STATIC_ASSERT", "CASE_STMT") or "constexpr" in self.head_of(cursor):
            # Of a case only what follows its value may change.
            for child in list(cursor.get_children())[1:] if kind == "CASE_STMT" else ():
                self.visit(child, inside)
            return
        if inside and self.is_here(cursor):
            self.consider(cursor, kind)
        for child in cursor.get_children():
            self.visit(child, inside)

    def head_of(self, cursor):
        if cursor.kind.name not in ("DECL_STMT", "VAR_DECL", "IF_STMT") or not self.is_here(cursor):
            return ()
        return self.text(cursor)[:40].replace("(", " ").split()

    def consider(self, cursor, kind):
        if kind == "COMPOUND_STMT":
            self.in_a_row([child for child in cursor.get_children() if self.is_here(child)])
        elif kind == "IF_STMT":
            self.condition(cursor)
        elif kind == "BINARY_OPERATOR":
            self.operator(cursor)
        elif kind == "RETURN_STMT" and self.text(cursor) in ("return true", "return false"):
            value = "!" if self.text(cursor).endswith("true") else ""
            other = "false" if value else "true"
            self.add(cursor.extent.start.offset, cursor.extent.end.offset, f"returns {other}",
                     f"return {value}cairn_mutant(@)")

    def end_of_statement(self, cursor):
        """The end behind the semicolon, or nothing if this is no statement that can be left out."""
        if not cursor.kind.is_expression() or cursor.kind.name == "LAMBDA_EXPR":
            return None
        if re.search(r"[.>](reserve|shrink_to_fit)\(", self.text(cursor)):  # the same result, sooner
            return None
        end = cursor.extent.end.offset
        while self.bytes[end:end + 1].isspace():
            end += 1
        return end + 1 if self.bytes[end:end + 1] == b";" else None

    def in_a_row(self, statements):
        ends = [self.end_of_statement(one) for one in statements]
        for one, end in zip(statements, ends):
            if end:
                start = one.extent.start.offset
                text = self.bytes[start:end].decode()
                self.add(start, end, "is left out", f"if (!cairn_mutant(@)) {{ {text} }}")
        for one, end, other, last in zip(statements, ends, statements[1:], ends[1:]):
            if not end or not last:
                continue
            start, middle = one.extent.start.offset, other.extent.start.offset
            first, second = self.bytes[start:end].decode(), self.bytes[middle:last].decode()
            between = self.bytes[end:middle]
            # Two assignments mean the same in any order, mostly, and so do statements without an object in common.
            if between.strip() == b"" and meet(objects_in(one), objects_in(other)) and not (
                    is_assignment(one) and is_assignment(other)):
                self.add(start, last, "come in the other order",
                         f"if (cairn_mutant(@)) {{ {second} {first} }} else {{ {first} {second} }}")

    def condition(self, cursor):
        """An if whose condition is an expression: as if it were not there, or always true."""
        parts = list(cursor.get_children())
        if len(parts) < 2 or not parts[0].kind.is_expression() or not self.is_here(parts[0]):
            return
        start, end = parts[0].extent.start.offset, parts[0].extent.end.offset
        text = self.bytes[start:end].decode()
        before = self.bytes[cursor.extent.start.offset:start].decode()
        if ";" in before:  # an initialization comes first
            return
        self.add(start, end, "is never so", f"!cairn_mutant(@) && ({text})")
        self.add(start, end, "is always so", f"cairn_mutant(@) || ({text})")

    def operator(self, cursor):
        parts = list(cursor.get_children())
        if len(parts) != 2 or not all(self.is_here(one) for one in parts):
            return
        begin, first, second, end = (cursor.extent.start.offset, parts[0].extent.end.offset,
                                     parts[1].extent.start.offset, cursor.extent.end.offset)
        between = self.bytes[first:second].decode().strip()
        other = OTHER_OPERATOR.get(between)
        numbers = {"BOOL", "ENUM", "INT", "LONG", "LONGLONG", "UINT", "ULONG", "ULONGLONG", "DOUBLE"}
        if other is None or any(one.type.get_canonical().kind.name not in numbers for one in parts):
            return
        left, right = self.bytes[begin:first].decode(), self.bytes[second:end].decode()
        self.add(begin, end, f"{between} becomes {other}",
                 f"(cairn_mutant(@) ? ({left} {other} {right}) : ({left} {between} {right}))")


def flags_of(commands):
    """The compiler's flags for each source. Units of several sources tell them for all that they include."""
    flags = {}
    for one in commands:
        words = shlex.split(one["command"])
        some = [word for word in words if word.startswith(("-I", "-D", "-std", "-isystem"))]
        some += [f"-isystem{words[i + 1]}" for i, word in enumerate(words[:-1]) if word == "-isystem"]
        path = Path(one["file"])
        flags[str(path)] = some
        if path.parts[-2:-1] == ("Unity",):
            for line in path.read_text().splitlines():
                if line.startswith("#include "):
                    flags[line.split('"')[1]] = some
    return flags


def places_of(given):
    """The places in one source."""
    path, flags = given
    from clang import cindex
    unit = cindex.Index.create().parse(path, [*flags, "-xc++"])
    errors = [str(one) for one in unit.diagnostics if one.severity >= cindex.Diagnostic.Error]
    if errors:
        return path, [], errors[0]
    return path, Source(path, cindex, unit).places, None


def all_places(build, folders, processes):
    """The places in each source below the folders of a tree that was configured."""
    flags = flags_of(json.loads((build / "compile_commands.json").read_text()))
    wanted = sorted((path, some) for path, some in flags.items()
                    if path.endswith(".cpp") and any(Path(path).is_relative_to(folder) for folder in folders))
    with multiprocessing.Pool(processes) as pool:
        return pool.map(places_of, wanted, chunksize=1)


def choose(places, count, chance):
    """So many places, of different sources and kinds, none inside another. Returns (path, place) pairs in order."""
    all_of_them = [(path, place) for path, some in places for place in some]
    chance.shuffle(all_of_them)
    # Each kind of change has its share, since comparisons would crowd out the rest.
    by_group = {}
    for path, place in all_of_them:
        by_group.setdefault(group_of(place[2]), []).append((path, place))
    queues = [by_group[name] for name in sorted(by_group)]
    chosen = []
    while len(chosen) < count and any(queues):
        for queue in filter(None, queues):
            path, place = queue.pop()
            if len(chosen) < count and not any(
                    path == other and place[0] < end and start < place[1]
                    for other, (start, end, _, _) in chosen):
                chosen.append((path, place))
    return sorted(chosen, key=lambda one: (one[0], one[1][0]))


def group_of(kind):
    return "operator" if " becomes " in kind else kind.split(" ")[0] if kind.startswith("returns") else kind


def rewritten(text, numbered):
    """The bytes of a source with changes; `numbered` has (number, place) pairs in order."""
    parts, at = [DECLARATION.encode()], 0
    for number, (start, end, _, change) in numbered:
        lines = text[start:end].count(b"\n")
        changed = " ".join(part.strip() for part in change.splitlines())
        parts += [text[at:start], changed.replace("@", str(number)).encode(), b"\n" * lines]
        at = end
    return b"".join([*parts, text[at:]])
