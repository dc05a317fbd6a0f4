"""The reference: a page for each folder of headers, in MyST, from Doxygen's XML.

Doxygen says which names there are, where they stand, who may use them and how they are described; the declarations are
the source's own text, so constraints and concepts are shown as they are written (Breathe 5.1 shows a concept without what
it requires). A name without a comment of its own has the sentence that the header's first comment begins with "name: ". An
operation, which is a function object, is shown as a function, with its example (docs/examples/operations). What is in a folder
or namespace called detail, or in one of kernels' bodies, is left out."""
import pathlib
import re
import textwrap
import xml.etree.ElementTree as ElementTree

INTERNAL_FOLDERS = ("detail", "kernels")
KINDS = {"class": "class", "struct": "struct", "union": "union", "concept": "concept", "function": "function",
         "enum": "enumeration", "typedef": "alias", "variable": "constant"}
# What names of these endings are to the name before the ending.
IMPLIED = (("_arguments", "The arguments of {} as one value, which a device runs."), ("_options", "The options of {}."),
           ("::saved", "What a forward pass of {} saves for the backward passes."))

# What functions do that have an overload for each device, operation or type.
OVERLOADED = {"run_operation": "Runs the operation of these arguments on a stream of this device.",
              "enqueue": "Enqueues the kernels of the operation of these arguments on the GPU's stream.",
              "simd_form": "The function of these elements as one of packs.", "to_string": "The value's name."}


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


def first_sentence(text):
    return re.split(r"(?<=\.) (?=[A-Z])", text, maxsplit=1)[0]


class Source:
    """A header's text, and its declarations."""

    def __init__(self, path):
        self.name = path.stem
        self.lines = path.read_text().splitlines()

    def first_comment(self):
        lines = []
        for line in self.lines:
            if not line.startswith("//"):
                break
            lines.append(line[3:] if line.startswith("// ") else line[2:])
        return lines

    def summary(self):
        """The first sentence of the first comment."""
        lines = self.first_comment()
        comment = " ".join(lines[:lines.index("")] if "" in lines else lines)
        return first_sentence(comment).rstrip(":")

    def sentence_about(self, name):
        """What the first comment says of a name: after "name: " at the head of a paragraph, or of the name that the file has."""
        for paragraph in "\n".join(self.first_comment()).split("\n\n"):
            named = re.match(r"((?:[a-z_0-9:]+(?:, | and )?)+): (.*)", paragraph, re.DOTALL)
            if named and name in [one.rpartition("::")[2] for one in re.split(", | and ", named[1])]:
                said = first_sentence(" ".join(named[2].split()))
                return said[0].upper() + said[1:] if re.match(r"(a|[a-z]{2,})[ ,]", said) else said
        return self.summary() if name == self.name else ""

    def declaration(self, line, kind):
        """The declaration whose name is in `line` (from 1), without the body of a function, lambda or class."""
        first = line - 1
        while first > 0:
            above = self.lines[first - 1].strip()
            if not above or above.startswith(("//", "#")) or re.search(r"([;{}]|\b(public|private|protected):)(\s*//.*)?$", above):
                break
            first -= 1
        shown = [one.replace("///<", "//") if kind in ("enum", "concept") else re.sub(r"\s*///?<?.*$", "", one)
                 for one in self.lines[first:first + 60]]
        text = "\n".join(shown)
        begin = sum(len(one) + 1 for one in shown[:line - 1 - first])
        if kind == "variable" and re.match(r"\s*[^;={}]*=\s*\[", text[begin:]):
            kind = "function"
            begin = text.index("]", begin)
        return textwrap.dedent(text[:self.end(text, begin, kind)].rstrip())

    def has_plain_comment(self, line):
        """Whether a comment that Doxygen does not see ends a line of the declaration that begins in `line` (from 1)."""
        for text in self.lines[line - 1:]:
            if ";" in text.split("//")[0]:
                break
        return any(re.search(r"[;,]\s*//(?!/<)", one) for one in (self.lines[line - 1], text))

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
    def __init__(self, xml, include, examples):
        self.include = include
        self.examples = examples  # operation -> code
        self.classes = {ElementTree.parse(path).getroot().findtext("compounddef/compoundname")
                        for kind in ("class", "struct", "union") for path in xml.glob(f"{kind}*.xml")}
        self.by_file = {}  # header -> [(line, kind, name, scope, entry)]
        self.anchors = {}  # (library, name) -> anchor, or None where several have it
        self.undescribed = []  # "header:line name" without a sentence
        self.unseen = []  # "header:line" of a member whose comment Doxygen does not see
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
        library = header.split("/")[0]
        qualified = {f"{scope}::{name}", f"{scope}::{name}".split("::", 1)[-1]}
        for known in qualified | ({name} if "_" in name else set()):  # a short name may be an English word
            self.anchors[library, known] = anchor if self.anchors.get((library, known), anchor) == anchor else None

    @staticmethod
    def anchor(header, scope, name):
        return "name-" + re.sub(r"[^a-z0-9_]+", "-", f"{header}-{scope}-{name}".lower())

    def link_from(self, header):
        """Gives anchors of names for a page about `header`: those of its own library, and for mpt also those of parallel."""
        def link(text):
            name = text.removesuffix("()")
            libraries = ("parallel",) if header.startswith("parallel/") else ("mpt", "parallel")
            return next((self.anchors[library, name] for library in libraries if (library, name) in self.anchors), None)
        return link


def member_blocks(entry, header, reference, source, describe):
    """The public members of a class: fields in one block, then each function with its description."""
    fields, functions = {}, []
    for section in entry.findall("sectiondef"):
        for member in section.findall("memberdef"):
            name = member.findtext("name")
            if member.get("prot") != "public" or name.startswith(("operator", "~", "@")):
                continue
            line = int(member.find("location").get("line"))
            declared = source.declaration(line, member.get("kind"))
            if re.search(r"=\s*(default|delete)\s*;?$", declared) or member.get("kind") == "friend":
                continue
            text = describe.text(member)
            if member.get("kind") == "variable":
                texts = fields.setdefault(declared, [])  # "index rows, columns;" is one declaration of two members
                texts += [one for one in [re.sub(r"[`\\]|\]\(#[^)]*\)|\[(?=`)", "", " ".join(text.split()))] if one not in texts]
                if source.has_plain_comment(line):
                    reference.unseen.append(f"{header}:{line}")
            else:
                functions.append((declared.removesuffix(";") + ";", text))
    blocks = []
    if fields:
        lines = []
        for declared, texts in fields.items():
            lines += textwrap.wrap(" ".join(filter(None, texts)), 88, initial_indent="// ", subsequent_indent="// ") + [declared]
        blocks.append("```cpp\n" + "\n".join(lines) + "\n```")
    for declared, text in functions:
        blocks.append("```cpp\n" + declared + "\n```" + (f"\n{text}" if text else ""))
    return blocks


def is_operation(header, kind, declared):
    """Whether a constant is a function object that enqueues an operation on a stream."""
    return kind == "variable" and header.startswith("parallel/ops/") and re.search(r"_fn \w+\{\}|=\s*\[.*\]\s*<", declared) is not None


def calls_of(name, header, reference, source):
    """The call operators of the function object `name`, written as functions of that name."""
    for line, kind, other, _, entry in reference.by_file[header]:
        if kind == "struct" and other == f"{name}_fn":
            for member in entry.iter("memberdef"):
                if member.findtext("name") == "operator()":
                    declared = source.declaration(int(member.find("location").get("line")), "function")
                    before, _, parameters = re.sub(r"\s+const;?$", "", declared).partition("operator()(")
                    template, newline, result = before.rpartition("\n")
                    yield template + newline + textwrap.fill(f"{result}{name}({' '.join(parameters.split())}", 99, subsequent_indent="    ",
                                                             break_on_hyphens=False)


def implied_sentence(reference, header, source, kind, name, scope):
    """The sentence about a name that has no comment of its own, or nothing."""
    if said := source.sentence_about(name):
        return plain_comment([said])
    others = {other for _, _, other, _, _ in reference.by_file[header]}
    for suffix, sentence in IMPLIED:
        other = name.removesuffix(suffix)
        if other != name and other in others:
            return sentence.format(f"[`{other}`](#{reference.anchor(header, scope, other)})")
    return OVERLOADED.get(name, "") if kind == "function" else ""


def entry_text(reference, header, source, describe, items):
    """The section of one name, which overloads share, or of the names of one declaration."""
    line, kind, name, scope, _ = items[0]
    names = list(dict.fromkeys(item[2] for item in items))
    operation = is_operation(header, kind, source.declaration(line, kind))
    shown = "operation" if operation else KINDS[kind]
    anchors = "\n".join(f"({reference.anchor(header, scope, one)})=" for one in names)
    index = "\n\n".join(f"```{{index}} single: {one} ({shown} in {scope})\n```" for one in names)
    blocks = [f"{anchors}\n### {escaped(', '.join(names))}", index, f"*{shown}* in `{scope}`"]
    described, printed = [], set()
    for line, kind, _, _, entry in items:
        declared = source.declaration(line, kind).removesuffix(";")
        for call in (list(calls_of(name, header, reference, source)) or [declared]) if operation else [declared]:
            if call not in printed:
                blocks.append("```cpp\n" + call + ";\n```")
            printed.add(call)
        text = describe.text(entry)
        if text and text not in described:
            blocks.append(text)
            described.append(text)
        if kind in ("class", "struct", "union"):
            if not text and (said := implied_sentence(reference, header, source, kind, name, scope)):
                blocks.append(said)
                described.append(said)
            blocks += member_blocks(entry, header, reference, source, describe)
    if not described:
        sentences = [sentence for one in names if (sentence := implied_sentence(reference, header, source, kind, one, scope))]
        blocks.insert(3, "\n\n".join(sentences))
        reference.undescribed += [f"{header}:{line} {one}" for one in names] if not sentences else []
    if name in reference.examples and operation:
        blocks.append("Example (the views and `expect`: {download}`operations.hpp <../_files/docs/examples/operations.hpp>`):\n\n```cpp\n"
                      + reference.examples[name] + "\n```")
    return "\n\n".join(filter(None, blocks))


def header_anchor(header):
    return "header-" + re.sub(r"[^a-z0-9_]+", "-", header.lower())


def header_text(reference, header):
    source = Source(reference.include / header)
    describe = Description(reference.link_from(header))
    comment = source.first_comment()
    blocks = [f"({header_anchor(header)})=\n## {escaped(pathlib.PurePosixPath(header).name)}",
              f"```cpp\n#include <{header}>\n```", plain_comment(comment)]
    names, objects = {}, {item[2] for item in reference.by_file[header] if item[1] == "variable"}
    for item in reference.by_file[header]:
        line, kind, name, scope, _ = item
        if kind == "struct" and name.endswith("_fn") and name.removesuffix("_fn") in objects:
            continue  # the type of an operation, which is shown as a function
        declared = source.declaration(line, kind)
        key = declared if kind == "variable" else name  # "constexpr int q = 1, k = 2;" is one declaration
        names.setdefault((key, scope), []).append(item)
    blocks += [entry_text(reference, header, source, describe, items) for items in names.values()]
    return "\n\n".join(blocks)


def read_examples(folder):
    """The examples of operations, by name: the code from "// [example: NAME...]" to "// [end]"."""
    found = {}
    for file in sorted(folder.glob("operations*.cpp")):
        for names, code in re.findall(r"^ *// \[example: ([a-z_ ]+)\]\n(.*?)^ *// \[end\]$", file.read_text(), re.MULTILINE | re.DOTALL):
            found |= dict.fromkeys(names.split(), textwrap.dedent(code).rstrip())
    return found


def write_reference(xml, include, examples, out):
    """Writes the pages and returns the reference. `examples` is the folder of the compiled examples."""
    reference = Reference(xml, include, read_examples(examples))
    folders = {}
    for header in reference.headers():
        folders.setdefault(str(pathlib.PurePosixPath(header).parent), []).append(header)
    index = ["# Headers", "", "What a program may use, folder by folder, made from the headers. Folders and namespaces called "
             "`detail` and the bodies of kernels (`ops/cuda/kernels`) are internal and not shown; they may change at any "
             "time ([versions](../packages.md#versions)). {ref}`genindex` has every name.", ""]
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
        table = "\n".join(f"| [{escaped(pathlib.PurePosixPath(h).name)}](#{header_anchor(h)}) | {plain_comment([Source(reference.include / h).summary()]).replace(chr(10), ' ')} |"
                          for h in headers)
        text = f"# {escaped(folder)}\n\n| header | what it is |\n|---|---|\n{table}\n\n"
        text += "\n\n".join(header_text(reference, header) for header in headers)
        (out / f"{folder.replace('/', '.')}.md").write_text(text + "\n")
    return reference
