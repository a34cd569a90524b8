"""Pages of the reference from Doxygen's XML: one a public header, in the order of the header."""
import re
import xml.etree.ElementTree as xml
from pathlib import Path

LEFT_OUT = {"visit", "words"}  # how options are listed; for the library itself
SPECIAL = re.compile(r"([\\*_`<>\[\]|#~$^])")


def page_of(path):
    """The page of a header, given relative to the root."""
    name = Path(path).relative_to("include")
    folder = "reference/c" if name.suffix == ".h" else "reference/cpp"
    inner = name.relative_to("cairn") if name.parts[0] == "cairn" else name
    inner = inner.relative_to("c") if inner.parts[0] == "c" else inner
    return f"{folder}/{inner.with_suffix('').as_posix().replace('/', '-')}.md"


class Entity:
    """A class, function, variable, enum or alias of a header."""

    def __init__(self, node, kind):
        self.node, self.kind = node, kind
        self.identifier = node.get("id")
        self.name = node.findtext("qualifiedname") or node.findtext("compoundname") or node.findtext("name")
        place = node.find("location")
        self.file = place.get("file", "") if place is not None else ""
        self.line = int(place.get("line", 0)) if place is not None else 0
        self.anchor = re.sub(r"[^A-Za-z0-9_.]", "", self.name.replace("::", ".")) or self.identifier

    def members(self):
        return [Entity(node, node.get("kind")) for node in self.node.findall("sectiondef/memberdef")
                if node.get("prot") in ("public", "protected") and node.findtext("name") not in LEFT_OUT
                and node.get("kind") != "friend"]


class Reference:
    """All public headers, and what Doxygen found in them."""

    def __init__(self, root, folder):
        self.headers = sorted(path.relative_to(root) for path in (root / "include").rglob("*")
                              if path.suffix in (".hpp", ".h"))
        self.root, self.entities, self.files, self.anchors = root, {}, {}, {}
        for path in sorted(folder.glob("*.xml")):
            node = xml.parse(path).getroot().find("compounddef")
            if node is None:
                continue
            kind = node.get("kind")
            if kind == "file":
                self.files[node.find("location").get("file").removeprefix("include/")] = node
            if kind in ("file", "namespace"):
                found = Entity(node, kind).members()
            elif kind in ("class", "struct", "union", "concept"):
                found = [] if "<" in node.findtext("compoundname") else [Entity(node, kind)]
            else:
                continue
            for one in found:
                file = one.file.removeprefix("include/")
                self.entities.setdefault(file, {})[one.identifier] = one
        # What belongs to a class is told with that class.
        for file, entities in self.entities.items():
            page = page_of(Path("include") / file)
            for one in entities.values():
                self.anchors[one.identifier] = (page, one.anchor)
                if one.kind in ("class", "struct", "union"):
                    for member in one.members():
                        self.anchors[member.identifier] = (page, member.anchor)

    # Texts -------------------------------------------------------------------------------------
    def target(self, page, identifier):
        """Where a reference leads to from a page of the reference; None: to nothing that is shown."""
        place, anchor = self.anchors.get(identifier, (None, None))
        if place is None:
            return None
        return f"#{anchor}" if place == page else f"../../{place}#{anchor}"

    def inline(self, page, node):
        def plain(text):
            return SPECIAL.sub(r"\\\1", text or "")

        out = plain(node.text)
        for child in node:
            if child.tag == "computeroutput":
                text = "".join(child.itertext())
                out += f"`{text}`"
            elif child.tag == "ref":
                text, target = "".join(child.itertext()), self.target(page, child.get("refid"))
                out += f"[`{text}`]({target})" if target else f"`{text}`"
            elif child.tag in ("bold", "emphasis"):
                mark = "**" if child.tag == "bold" else "*"
                out += f"{mark}{self.inline(page, child).strip()}{mark}"
            elif child.tag == "ulink":
                out += f"[{self.inline(page, child)}]({child.get('url')})"
            elif child.tag == "sp":
                out += " "
            elif child.tag in ("itemizedlist", "orderedlist", "programlisting", "verbatim", "preformatted",
                               "simplesect", "parameterlist", "table"):
                out += self.block(page, child)
            else:
                out += {"mdash": "—", "ndash": "–", "linebreak": " "}.get(child.tag, "")
                out += self.inline(page, child)
            out += plain(child.tail)
        return out

    def block(self, page, node):
        if node.tag in ("itemizedlist", "orderedlist"):
            items = []
            for number, item in enumerate(node.findall("listitem"), 1):
                mark = "-" if node.tag == "itemizedlist" else f"{number}."
                items.append(f"{mark} {self.text(page, item)}".replace("\n\n", "\n\n    "))
            return "\n\n" + "\n".join(items) + "\n\n"
        if node.tag == "programlisting":
            lines = [self.code(line) for line in node.findall("codeline")]
            return "\n\n```cpp\n" + "\n".join(lines) + "\n```\n\n"
        if node.tag in ("verbatim", "preformatted"):
            return "\n\n```text\n" + "".join(node.itertext()).strip("\n") + "\n```\n\n"
        return "\n\n" + "\n\n".join(self.inline(page, one) for one in node.iter("para")) + "\n\n"

    def code(self, line):
        def walk(node):
            return (" " if node.tag == "sp" else node.text or "") + "".join(
                walk(one) + (one.tail or "") for one in node)
        return walk(line)

    def text(self, page, node):
        """The paragraphs of a description."""
        return re.sub(r"\n{3,}", "\n\n", "\n\n".join(
            self.inline(page, one).strip() for one in node.findall("para"))).strip()

    def told(self, page, node):
        parts = [node.find(name) for name in ("briefdescription", "detaileddescription")]
        return "\n\n".join(filter(None, (self.text(page, one) for one in parts if one is not None)))

    # Entities ----------------------------------------------------------------------------------
    def declaration(self, one):
        node = one.node
        template = ", ".join(
            " ".join(filter(None, ("".join(param.find("type").itertext()), param.findtext("declname")))) +
            (" = " + "".join(param.find("defval").itertext()) if param.find("defval") is not None else "")
            for param in node.findall("templateparamlist/param"))
        head = f"template <{template}>\n" if node.find("templateparamlist") is not None else ""
        if one.kind in ("class", "struct", "union", "concept"):
            bases = [f"{base.get('prot')} {''.join(base.itertext())}" for base in node.findall("basecompoundref")]
            return head + f"{one.kind} {one.name}" + (" : " + ", ".join(bases) if bases else "")
        if one.kind == "enum":
            return f"enum {'class ' if node.get('strong') == 'yes' else ''}{node.findtext('name')}"
        if one.kind == "define":
            return f"#define {node.findtext('name')}"
        kind = "".join(node.find("type").itertext()) if node.find("type") is not None else ""
        if one.kind == "typedef" and node.findtext("definition", "").startswith("using"):
            return head + f"using {node.findtext('name')} = {kind.removeprefix('typedef ').strip()}"
        before = "".join(f"{word} " for word, has in (
            ("static", node.get("static") == "yes" and one.kind == "function" and "class" in one.identifier[:6]),
            ("virtual", node.get("virt") in ("virtual", "pure-virtual")),
            ("explicit", node.get("explicit") == "yes")) if has)
        arguments = node.findtext("argsstring") or ""
        value = "".join(node.find("initializer").itertext()) if node.find("initializer") is not None else ""
        value = " " + value.strip() if value and len(value) < 60 and "\n" not in value else ""
        first = "typedef " if one.kind == "typedef" else ""
        whole = f"{before}{first}{kind} {node.findtext('name')}{arguments}{value}".strip()
        whole = re.sub(r" +>", ">", re.sub(r"(\w)< +", r"\1<", whole))
        whole = re.sub(r" ([&*]+) ?(?=[\w.)])", r"\1 ", whole).replace("= =", "=").replace(")=", ") = ")
        if "operator" not in whole:
            whole = re.sub(r"(?<=\w)=(?=[{\w\"-])", " = ", whole)
        if len(whole) > 96 and "(" in whole:  # one argument a line
            opening = whole.index("(")
            parts, depth, start = [], 0, opening + 1
            for at, letter in enumerate(whole[opening + 1:], opening + 1):
                depth += (letter in "(<{") - (letter in ")>}")
                if letter == "," and depth == 0:
                    parts.append(whole[start:at + 1].strip())
                    start = at + 1
            parts.append(whole[start:].strip())
            whole = whole[:opening + 1] + "\n    " + "\n    ".join(parts)
        return head + whole

    def cell(self, text):
        """Text for a cell of a table."""
        return re.sub(r"\s*\n\s*", "<br>", text.strip()).replace("```", "`")

    def values(self, page, one):
        """An enum's."""
        rows = ["| value | |", "|---|---|"]
        for value in one.node.findall("enumvalue"):
            number = value.findtext("initializer") or ""
            rows.append(f"| `{value.findtext('name')}{' ' + number if number else ''}` "
                        f"| {self.cell(self.told(page, value))} |")
        return "\n".join(rows)

    def fields(self, page, fields):
        rows = ["| member | |", "|---|---|"]
        for one in fields:
            text = self.declaration(one).replace("|", "\\|").replace("\n", " ")
            rows.append(f'| <span id="{one.anchor}"></span>`{text}` | {self.cell(self.told(page, one.node))} |')
        return "\n".join(rows)

    def group(self, page, level, entities):
        """Members of one kind and name: a heading, each declaration with what is said of it."""
        first = entities[0]
        name = first.node.findtext("name")
        out = [f"{'#' * level} `{name}` {{ #{first.anchor} }}"]
        language = "c" if first.file.endswith(".h") else "cpp"
        waiting = []
        for one in entities:
            waiting.append(self.declaration(one))
            told = self.told(page, one.node)
            if told or one is entities[-1] or one.kind == "enum":
                out += [f"```{language}\n" + "\n".join(waiting) + "\n```", told]
                waiting = []
            if one.kind == "enum":
                out.append(self.values(page, one))
        return out

    def several(self, page, level, entities):
        out, at = [], 0
        while at < len(entities):
            end = at + 1
            if entities[at].kind in ("variable", "property") and level > 2:
                while end < len(entities) and entities[end].kind in ("variable", "property"):
                    end += 1
                out.append(self.fields(page, entities[at:end]))
            else:
                while (end < len(entities) and entities[end].name == entities[at].name and
                       entities[end].kind == entities[at].kind):
                    end += 1
                if entities[at].kind in ("class", "struct", "union", "concept"):
                    out += self.whole_class(page, level, entities[at])
                    end = at + 1
                else:
                    out += self.group(page, level, entities[at:end])
            at = end
        return out

    def whole_class(self, page, level, one):
        short = one.name.removeprefix("cairn::")
        out = [f"{'#' * level} `{short}` {{ #{one.anchor} }}", f"```cpp\n{self.declaration(one)}\n```",
               self.told(page, one.node)]
        members = [member for member in one.members() if one.kind != "concept" and
                   not re.search(r"= ?delete", member.node.findtext("argsstring") or "")]
        members.sort(key=lambda member: member.line)
        plain = one.name.rsplit("::", 1)[-1]
        # A destructor, a copy or a move of which nothing is said needs no place.
        members = [member for member in members
                   if self.told(page, member.node) or
                   member.node.findtext("name") not in (f"~{plain}", "operator=") and not
                   (member.node.findtext("name") == plain and
                    re.match(rf"\((const )?{plain} ?&+( \w+)?\)", member.node.findtext("argsstring") or ""))]
        return out + self.several(page, level + 1, members)

    def page(self, header):
        name = header.relative_to("include").as_posix()
        page = page_of(header)
        entities = sorted(self.entities.get(name, {}).values(), key=lambda one: one.line)
        # A class that is only declared here is told where it is defined; a nested one, too.
        entities = [one for one in entities if one.kind != "class" or one.node.find("sectiondef") is not None or
                    self.told(page, one.node)]
        # `typedef struct x {…} x` is one thing.
        structs = {one.name for one in entities if one.kind == "struct"}
        entities = [one for one in entities if one.kind != "typedef" or one.name not in structs]
        out = [f"# {name}", f"```{'c' if header.suffix == '.h' else 'cpp'}\n#include <{name}>\n```"]
        node = self.files.get(name)
        if node is not None:
            out.append(self.told(page, node))
        if not entities and node is not None:
            included = [one.text for one in node.findall("includes") if one.get("local") == "yes"]
            out += [f"It includes:\n\n" + "\n".join(
                f"- [{one}](../../{page_of(Path('include') / one)})" for one in included)]
        out += self.several(page, 2, entities)
        return page, self.unique("\n\n".join(filter(None, out))) + "\n"

    def unique(self, text):
        """Names of places that come again, of overloads that do not stand together, get a number."""
        count = {}

        def numbered(found):
            count[found.group(2)] = count.get(found.group(2), 0) + 1
            again = f"-{count[found.group(2)]}" if count[found.group(2)] > 1 else ""
            return f"{found.group(1)}{found.group(2)}{again}{found.group(3)}"

        return re.sub(r'(\{ #|<span id=")([^ "]+)( \}|")', numbered, text)

    def index(self, title, folder, text):
        """What a folder of headers has: a line a header."""
        out = [f"# {title}", text, "## All of them", "| header | |\n|---|---|"]
        for header in self.headers:
            page = page_of(header)
            if page.startswith(folder):
                name = header.relative_to("include").as_posix()
                node = self.files.get(name)
                told = self.told(page, node) if node is not None else ""
                told = re.sub(r"\]\([^)]*\)", "]", re.split(r"(?<=[.:]) ", self.cell(told))[0]).rstrip(":")
                told = re.sub(r"\[(`[^`]*`)\]", r"\1", told)
                out[-1] += f"\n| [{name}](../{page}) | {told} |"
        return "\n\n".join(out) + "\n"


def pages(root, folder, guide):
    """Pairs of a place and a text. `guide` says of the headers for C++ which to read first."""
    reference = Reference(root, folder)
    for header in reference.headers:
        yield reference.page(header)
    yield "reference/cpp.md", reference.index("C++ headers", "reference/cpp/", guide)
    yield "reference/c.md", reference.index(
        "C headers", "reference/c/", "`cairn.h` includes all but `cairn_mpi.h`. How they are used is on the page "
        "[From C](../c.md).")
