"""The reference: a page for each folder of headers, in MyST, from Doxygen's XML.

Doxygen says which names there are, where they stand, who may use them and how they are described; the declarations are
the source's own text, so constraints and concepts are shown as they are written (Breathe 5.1 shows a concept without what
it requires). What is in a folder or namespace called detail, or in one of kernels' bodies, is left out."""
import pathlib
import re
import textwrap
import xml.etree.ElementTree as ElementTree

INTERNAL_FOLDERS = ("detail", "kernels")
KINDS = {"class": "class", "struct": "struct", "union": "union", "concept": "concept", "function": "function",
         "enum": "enumeration", "typedef": "alias", "variable": "constant"}


def escaped(text):
    """Plain text as Markdown that shows it."""
    return re.sub(r"([\\`*<>\[\]|~{}#$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9]))", r"\\\1", text)


class Description:
    """A description in Doxygen's XML as Markdown. `link` gives the anchor of a name, or nothing."""

    def __init__(self, link):
        self.link = link

    def code(self, text):
        text = " ".join(text.split())
        if not text:
            return ""
        fence = "``" if "`" in text else "`"
        shown = f"{fence} {text} {fence}" if "`" in text else f"`{text}`"
        anchor = self.link(text)
        return f"[{shown}](#{anchor})" if anchor else shown

    def inline(self, node):
        parts = [escaped(node.text or "")]
        for child in node:
            if child.tag == "computeroutput":
                parts.append(self.code("".join(child.itertext())))
            elif child.tag in ("bold", "emphasis"):
                mark = "**" if child.tag == "bold" else "*"
                parts.append(f"{mark}{self.inline(child)}{mark}")
            elif child.tag == "ulink":
                parts.append(f"[{self.inline(child)}]({child.get('url')})")
            elif child.tag in ("para", "itemizedlist", "orderedlist", "programlisting", "verbatim", "preformatted",
                               "simplesect", "parameterlist", "table"):
                parts.append("\n\n" + self.block(child) + "\n\n")
            elif child.tag in ("ndash", "mdash"):
                parts.append("–" if child.tag == "ndash" else "—")
            else:
                parts.append(self.inline(child))
            parts.append(escaped(child.tail or ""))
        return "".join(parts)

    def block(self, node):
        if node.tag in ("itemizedlist", "orderedlist"):
            mark = "- " if node.tag == "itemizedlist" else "1. "
            items = [textwrap.indent(self.inline(item).strip(), "   ")[3:] for item in node.findall("listitem")]
            return "\n".join(mark + textwrap.indent(item, " " * len(mark))[len(mark):] if "\n" in item else mark + item
                             for item in items)
        if node.tag in ("programlisting", "verbatim", "preformatted"):
            for space in node.iter("sp"):
                space.text = " "
            lines = ["".join(line.itertext()) for line in node.iter("codeline")]
            text = "\n".join(lines) if lines else "".join(node.itertext())
            return "```text\n" + textwrap.dedent(text).strip("\n") + "\n```"
        return self.inline(node).strip()

    def text(self, entry):
        blocks = []
        for tag in ("briefdescription", "detaileddescription"):
            described = entry.find(tag)
            if described is not None:
                blocks += [self.block(child) for child in described]
        return re.sub(r"\n{3,}", "\n\n", "\n\n".join(block for block in blocks if block))


def plain_comment(lines):
    """A header's first comment as Markdown: paragraphs, and what is indented, unchanged."""
    blocks, current, is_code = [], [], False
    for line in lines + [""]:
        indented = line.startswith("  ") or (is_code and line == "" and current)
        if line == "" and not is_code or indented != is_code:
            if current:
                blocks.append((is_code, current))
            current, is_code = [], indented
        if line or is_code:
            current.append(line)
    if current and any(current):
        blocks.append((is_code, current))
    out = []
    for is_code, text in blocks:
        while text and not text[-1]:
            text.pop()
        if is_code and any(text):
            out.append("```text\n" + textwrap.dedent("\n".join(text)) + "\n```")
        elif any(text):
            pieces = re.split(r"(`[^`\n]+`)", "\n".join(text).replace("`\n", "` \n"))
            out.append("".join(piece if piece.startswith("`") and piece.endswith("`") and len(piece) > 2 else escaped(piece)
                               for piece in pieces))
    return "\n\n".join(out)


class Source:
    """A header's text, and its declarations."""

    def __init__(self, path):
        self.lines = path.read_text().splitlines()

    def first_comment(self):
        lines = []
        for line in self.lines:
            if not line.startswith("//"):
                break
            lines.append(line[3:] if line.startswith("// ") else line[2:])
        return lines

    def declaration(self, line, kind):
        """The declaration whose name is in `line` (from 1), without the body of a function or class."""
        first = line - 1
        while first > 0:
            above = self.lines[first - 1].strip()
            if not above or above.startswith(("//", "#")) or re.search(r"([;{}]|\b(public|private|protected):)(\s*//.*)?$", above):
                break
            first -= 1
        text = "\n".join(re.sub(r"\s*///?<?.*$", "", one) if kind != "enum" else one
                         for one in self.lines[first:first + 60])
        begin = sum(len(re.sub(r"\s*///?<?.*$", "", one) if kind != "enum" else one) + 1 for one in self.lines[first:line - 1])
        return textwrap.dedent(text[:self.end(text, begin, kind)].rstrip())

    @staticmethod
    def end(text, begin, kind):
        depth = 0
        for i in range(begin, len(text)):
            c = text[i]
            if kind in ("function", "class", "struct", "union") and depth <= 0 and c == "{":
                return i
            if c in "({[":
                depth += 1
            elif c in ")}]":
                depth -= 1
            elif c == ";" and depth <= 0:
                return i + 1
            elif (kind == "function" and c == ":" and depth <= 0 and text[i - 1] != ":" and text[i + 1:i + 2] != ":"
                  and ")" in text[begin:i] and "?" not in text[begin:i]):
                return i
        return len(text)


class Reference:
    def __init__(self, xml, include):
        self.include = include
        self.classes = {ElementTree.parse(path).getroot().findtext("compounddef/compoundname")
                        for kind in ("class", "struct", "union") for path in xml.glob(f"{kind}*.xml")}
        self.by_file = {}  # header -> [(line, kind, name, entry)]
        self.anchors = {}  # name -> anchor, or None where several have it
        for path in sorted(xml.glob("*.xml")):
            if path.name.startswith(("class", "struct", "union", "concept", "namespace")):
                self.read(ElementTree.parse(path).getroot().find("compounddef"))
        for header in self.headers():
            self.by_file.setdefault(header, [])
        for entries in self.by_file.values():
            entries.sort(key=lambda entry: entry[0])

    def headers(self):
        for path in sorted(self.include.rglob("*")):
            if path.suffix in (".hpp", ".cuh") and not set(path.parent.parts) & set(INTERNAL_FOLDERS):
                yield path.relative_to(self.include).as_posix()

    def read(self, compound):
        kind, name = compound.get("kind"), compound.findtext("compoundname")
        if "detail" in name.split("::") or "@" in name or name.startswith("std"):
            return
        if kind == "namespace":
            for member in compound.iter("memberdef"):
                if member.get("kind") in KINDS and member.get("static") == "no" or member.get("kind") in ("enum", "typedef"):
                    self.add(member, member.get("kind"), member.findtext("name"), name)
        elif compound.get("prot", "public") == "public" and "<" not in name:
            scope, _, short = name.rpartition("::")
            while scope in self.classes:  # a class in a class is shown as outer::inner
                scope, _, outer = scope.rpartition("::")
                short = f"{outer}::{short}"
            self.add(compound, kind, short, scope)

    def add(self, entry, kind, name, scope):
        location = entry.find("location")
        header = location.get("file")
        if set(pathlib.PurePosixPath(header).parent.parts) & set(INTERNAL_FOLDERS) or name.startswith("operator"):
            return
        if not (self.include / header).is_file():
            return
        self.by_file.setdefault(header, []).append((int(location.get("line")), kind, name, scope, entry))
        anchor = self.anchor(header, scope, name)
        if kind in ("function", "variable"):
            return  # a parameter may have the same name
        qualified = {f"{scope}::{name}", f"{scope}::{name}".split("::", 1)[-1]}
        for known in qualified | ({name} if "_" in name else set()):  # a short name may be an English word
            self.anchors[known] = anchor if self.anchors.get(known, anchor) == anchor else None

    @staticmethod
    def anchor(header, scope, name):
        return "name-" + re.sub(r"[^a-z0-9_]+", "-", f"{header}-{scope}-{name}".lower())

    def link(self, text):
        return self.anchors.get(text.removesuffix("()"))


def member_blocks(entry, source, describe):
    """The public members of a class: fields in one block, then each function with its description."""
    fields, functions = [], []
    for section in entry.findall("sectiondef"):
        for member in section.findall("memberdef"):
            name = member.findtext("name")
            if member.get("prot") != "public" or name.startswith(("operator", "~", "@")):
                continue
            declared = source.declaration(int(member.find("location").get("line")), member.get("kind"))
            if re.search(r"=\s*(default|delete)\s*;?$", declared) or member.get("kind") == "friend":
                continue
            text = describe.text(member)
            if member.get("kind") == "variable":
                fields.append((declared, re.sub(r"[`\\]|\]\(#[^)]*\)|\[(?=`)", "", " ".join(text.split()))))
            else:
                functions.append((declared.removesuffix(";") + ";", text))
    blocks = []
    if fields:
        lines = []
        for declared, text in fields:
            lines += textwrap.wrap(text, 96, initial_indent="// ", subsequent_indent="// ") + [declared]
        blocks.append("```cpp\n" + "\n".join(lines) + "\n```")
    for declared, text in functions:
        blocks.append("```cpp\n" + declared + "\n```" + (f"\n{text}" if text else ""))
    return blocks


def entry_text(reference, header, source, describe, items):
    """The section of one name, which overloads share."""
    line, kind, name, scope, _ = items[0]
    blocks = [f"({reference.anchor(header, scope, name)})=\n### {escaped(name)}", f"*{KINDS[kind]}* in `{scope}`"]
    for line, kind, _, _, entry in items:
        declared = source.declaration(line, kind)
        blocks.append("```cpp\n" + declared.removesuffix(";") + ";\n```")
        text = describe.text(entry)
        if text:
            blocks.append(text)
        if kind in ("class", "struct", "union"):
            blocks += member_blocks(entry, source, describe)
    return "\n\n".join(blocks)


def header_anchor(header):
    return "header-" + re.sub(r"[^a-z0-9_]+", "-", header.lower())


def header_text(reference, header):
    source = Source(reference.include / header)
    describe = Description(reference.link)
    comment = source.first_comment()
    blocks = [f"({header_anchor(header)})=\n## {escaped(pathlib.PurePosixPath(header).name)}",
              f"```cpp\n#include <{header}>\n```", plain_comment(comment)]
    names = {}
    for item in reference.by_file[header]:
        names.setdefault((item[2], item[3]), []).append(item)
    blocks += [entry_text(reference, header, source, describe, items) for items in names.values()]
    return "\n\n".join(blocks)


def summary(reference, header):
    lines = Source(reference.include / header).first_comment()
    comment = " ".join(lines[:lines.index("")] if "" in lines else lines)
    sentence = re.split(r"(?<=\.) (?=[A-Z])", comment, maxsplit=1)[0].rstrip(":")
    return plain_comment([sentence])


def write_reference(xml, include, out):
    """Writes the pages and returns the number of headers and of names."""
    reference = Reference(xml, include)
    folders = {}
    for header in reference.headers():
        folders.setdefault(str(pathlib.PurePosixPath(header).parent), []).append(header)
    index = ["# Headers", "", "What a program may use, folder by folder, made from the headers. Folders and namespaces called "
             "`detail` and the bodies of kernels (`ops/cuda/kernels`) are internal and not shown; they may change at any "
             "time ([versions](../packages.md#versions)).", ""]
    for library, title in (("parallel", "The library of parallelism"), ("mpt", "MPT and its programs")):
        members = [folder for folder in folders if folder.split("/")[0] == library]
        index += [f"## {title}", "", "| folder | headers |", "|---|---|"]
        for folder in members:
            links = ", ".join(f"[{escaped(pathlib.PurePosixPath(h).stem)}](#{header_anchor(h)})" for h in folders[folder])
            index.append(f"| [{folder}]({folder.replace('/', '.')}.md) | {links} |")
        index += ["", "```{toctree}", ":hidden:", *(folder.replace("/", ".") for folder in members), "```", ""]
    out.mkdir(parents=True)
    (out / "index.md").write_text("\n".join(index))
    for folder, headers in folders.items():
        table = "\n".join(f"| [{escaped(pathlib.PurePosixPath(h).name)}](#{header_anchor(h)}) | {summary(reference, h).replace(chr(10), ' ')} |"
                          for h in headers)
        text = f"# {escaped(folder)}\n\n| header | what it is |\n|---|---|\n{table}\n\n"
        text += "\n\n".join(header_text(reference, header) for header in headers)
        (out / f"{folder.replace('/', '.')}.md").write_text(text + "\n")
    return len(list(reference.headers())), sum(len(entries) for entries in reference.by_file.values())
