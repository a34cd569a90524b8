"""The page of the Fortran modules, from their sources: what `cairn` and `cairn_mpi` make public."""
import re

COMMENT = re.compile(r"^\s*!> ?(.*)$")
TYPE = re.compile(r"^  type ::\s*(\w+)$")
PROCEDURE = re.compile(r"^\s+(procedure|generic)(, private)? :: (.+)$")
START = re.compile(r"^  (?:[\w(=),:* ]+ )?(subroutine|function) (\w+)\s*\(")
INTERNAL = {"dtype", "stored_row_shape", "calls"}  # of cairn_rows, for module cairn_states
SPECIAL = re.compile(r"([*_<>\[\]|])")


def joined(text):
    """Lines that go on after an & as one."""
    return re.sub(r"&\s*(?:![^\n]*)?\n\s*&?", "", text)


def prose(lines):
    text = "\n".join(lines).strip()
    return "\n\n".join("".join(piece if piece.startswith("`") else SPECIAL.sub(r"\\\1", piece)
                               for piece in re.split(r"(`[^`]*`)", " ".join(part.split("\n"))))
                       for part in re.split(r"\n{2,}", text))


class Module:
    def __init__(self, text):
        self.lines = joined(text).split("\n")
        self.signatures, self.types, self.interfaces, self.told = {}, {}, {}, {}
        self.read()

    def read(self):
        comment, at, contained = [], 0, False
        while at < len(self.lines):
            line = self.lines[at]
            found = COMMENT.match(line)
            if found:
                comment.append(found.group(1))
                at += 1
                continue
            if line == "contains":
                contained = True
            start = START.match(line)
            if TYPE.match(line):
                name = TYPE.match(line).group(1)
                at, body = self.read_type(at + 1)
                self.types[name] = (comment, body)
            elif re.match(r"^  interface (\w+)$", line):
                name = line.split()[1]
                names = []
                while not self.lines[at].startswith("  end interface"):
                    if "module procedure" in self.lines[at]:
                        names += re.split(r",\s*", self.lines[at].split("procedure", 1)[1].strip())
                    at += 1
                self.interfaces[name] = (comment, names)
            elif contained and start:
                name, end = start.group(2), at + 1
                while re.match(r"^    (type|class|integer|real|logical|character|complex)\b.*::",
                               self.lines[end]):
                    end += 1
                self.signatures[name] = (start.group(1), self.lines[at:end])
                self.told[name] = comment
            if line.strip():
                comment = []
            at += 1

    def read_type(self, at):
        """Groups of names with what is said of them: (comment, [(name, implementations)])."""
        groups, comment, kept = [], [], []  # kept: said of what is private, for the generic behind it
        fields, in_procedures, hidden = [], False, False
        while not self.lines[at].startswith("  end type"):
            line = self.lines[at]
            found, procedure = COMMENT.match(line), PROCEDURE.match(line)
            if found:
                comment.append(found.group(1))
            elif line.strip() == "contains":
                in_procedures, comment = True, []
            elif procedure and procedure.group(2):
                kept, comment = kept + comment + [""], []
            elif procedure and not procedure.group(3).startswith("assignment"):
                said = comment or kept
                kept = []
                names, _, beside = (part.strip() for part in procedure.group(3).partition("!<"))
                said = said or ([beside] if beside else [])
                if procedure.group(1) == "generic":
                    name, inner = re.split(r"\s*=>\s*", names, maxsplit=1)
                    groups.append((said, name, re.split(r",\s*", inner)))
                else:
                    for one in re.split(r",\s*", names):
                        name, _, inner = (part.strip() for part in one.partition("=>"))
                        groups.append((said, name, [inner or name]))
                        said = []
                comment = []
            elif line.strip() == "private":
                hidden = True
            elif not in_procedures and not hidden and "::" in line:
                fields.append(line.strip().replace("!<", "!"))
            at += 1
        return at, (fields, groups)

    def signature(self, implementation, name, method):
        kind, lines = self.signatures[implementation]
        head = re.sub(rf"\b{implementation}\b", name, lines[0].strip(), count=1)
        first = None
        if method:
            first = re.search(rf"\b{name}\((\w+)", head).group(1)
            head = re.sub(rf"\b{name}\({first}(, )?", f"{name}(", head, count=1)
        body = [line.strip() for line in lines[1:]
                if not (first and re.search(rf":: {first}$", line.strip())) and ":: " in line]
        body = [line.partition("  !")[0] for line in body]
        names = set(re.findall(r"\w+", head[head.index(f"{name}("):]))
        dummies = [line for line in body if names & set(re.findall(r"\w+", line.split("::")[1]))]
        return "\n".join([wrapped(head)] + ["  " + line for line in dummies])

    def signatures_of(self, implementations, name, method):
        """Without those that differ from another one in taking default integers only."""
        texts = [self.signature(one, name, method) for one in implementations]
        longer = set(texts)
        return "```fortran\n" + "\n\n".join(
            text for text in texts
            if text.replace("integer(int32), intent(in)", "integer(int64), intent(in)") == text or
            text.replace("integer(int32), intent(in)", "integer(int64), intent(in)") not in longer) + "\n```"


def wrapped(line):
    if len(line) <= 96:
        return line
    cut = line.rindex(", ", 0, 94) + 1
    return line[:cut] + " &\n    " + wrapped(line[cut:].strip())


def page(root):
    modules = [Module((root / "fortran" / name).read_text(encoding="utf-8")) for name in
               ("cairn_settings.f90", "cairn_states.f90", "cairn_row_vectors.f90", "cairn_cursors.f90",
                "cairn_managers.f90", "cairn_mpi.F90", "cairn_base.f90")]
    public = set(re.findall(r"cairn_\w+", "".join(
        (root / "fortran" / name).read_text(encoding="utf-8") for name in ("cairn.f90", "cairn_mpi.F90"))))
    out = ["# Fortran modules", "Modules `cairn` and `cairn_mpi`. Every procedure has `stat=` and `errmsg=` as its "
           "last arguments; without `stat=` an error ends the program with its text. What is "
           "`integer(int64)` and goes in may be `integer(int32)` too. How arrays are added, how "
           "long they must live and what is where: [From Fortran](../fortran.md)."]
    for module in modules:
        for name, (comment, (fields, groups)) in module.types.items():
            if name not in public:
                continue
            out += [f"## `{name}` {{ #{name} }}", prose(comment)]
            if fields:
                out.append("```fortran\n" + "\n".join([f"type({name})", *("  " + one for one in fields)]) + "\n```")
            for said, method, inner in groups:
                if method in INTERNAL:
                    continue
                out += [f"### `{method}` {{ #{name}.{method} }}",
                        module.signatures_of(inner, method, True),
                        prose(said or module.told[inner[0]])]
        for name, (comment, inner) in module.interfaces.items():
            if name in public:
                out += [f"## `{name}` {{ #{name} }}",
                        module.signatures_of(inner, name, False), prose(comment)]
        for name in module.signatures:
            if name in public:
                out += [f"## `{name}` {{ #{name} }}",
                        f"```fortran\n{module.signature(name, name, False)}\n```", prose(module.told[name])]
    enum = re.search(r"enumerator :: (.*)", "\n".join(modules[-1].lines)).group(1)
    codes = [one.split("=")[0].strip() for one in enum.split(",")]
    out += ["## Codes { #codes }", "What `stat=` gives, in the order of their numbers from 0 on; what each means is "
            "said with [`cairn_code`](c/error.md#cairn_code).", ", ".join(f"`{one}`" for one in codes) + "."]
    return "\n\n".join(filter(None, out)) + "\n"
