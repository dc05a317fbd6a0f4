#!/usr/bin/env python3
"""site.py SOURCE OUT KEYS [PROGRAMS]: builds the documentation site in OUT and reads what came out. KEYS is the program
documented_keys. Skipped (77) where the site's tools are missing."""
import html.parser
import json
import pathlib
import re
import subprocess
import sys
import urllib.parse

source, out, keys_program = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
programs = sys.argv[4:5]


class Links(html.parser.HTMLParser):
    """The ids of a page, what it links to, and what a browser loads with it."""

    def __init__(self):
        super().__init__()
        self.ids, self.links, self.loaded = set(), [], []

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        if "id" in values:
            self.ids.add(values["id"])
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        if tag in ("script", "img") and values.get("src"):
            self.loaded.append(values["src"])
        if tag == "link" and values.get("rel") in ("stylesheet", "icon"):
            self.loaded.append(values["href"])


printed = subprocess.run([keys_program], capture_output=True, text=True)
assert printed.returncode == 0, printed.stderr
keys = {key["name"]: key for key in json.loads(printed.stdout)["training"]}
assert len(keys) > 300, len(keys)
assert keys["max_seq_len"]["forms"] == ["an integer"], keys["max_seq_len"]
assert keys["precision"]["fallbacks"] == ["amp_bf16"], keys["precision"]
assert keys["python_log_level"]["role"] == "without_effect" and keys["python_log_level"]["remarks"]



def accepts(name, value):
    """Whether the key can have that value, as far as its forms say."""
    checks = {"an integer": r"-?\d+", "a finite number": r"-?[\d.]+(e-?\d+)?", "true or false": "true|false",
              "a time such as 100ba": r"[\d.]*(ba|ep|tok|sp|dur)", "text": ".*"}
    forms = keys[name]["forms"]
    return not forms or value == "auto" or any(
        re.fullmatch(checks[form], value) if form in checks else value in re.findall("'([^']*)'", form) for form in forms)


# The pages for those who come from elsewhere name keys that exist, in the last column of their tables, with values that they can
# have. Other code there is a value of a key of the same row, or a program.
for name in ("megatron", "torchtitan"):
    rows = re.findall(r"^\|.*\| ([^|]*) \|$", (source / f"docs/{name}.md").read_text(), re.MULTILINE)
    others = {"prepare", "prepare --split", "finetune", "convert", "launch", "torchrun", "srun", "mpirun", "tokenizer.json"}
    named = set()
    for row in rows:
        code = re.findall("`([^`]+)`", row)
        settings = [text.partition(": ")[::2] for text in code if text.partition(": ")[0] in keys]
        named |= {key for key, _ in settings}
        wrong = [text for text in code if text.partition(": ")[0] not in keys and text not in others
                 and not any(value and accepts(key, text) for key, value in settings)]
        wrong += [f"{key}: {value}" for key, value in settings if value and not accepts(key, value)]
        assert not wrong, f"docs/{name}.md: no such keys or values: {wrong} in '{row}'"
    assert len(named) > 40, f"docs/{name}.md names {len(named)} keys"

# Each strategy's page names tests that exist, and has a picture, what is sent, how it is used and
# where its code is.
strategies = (source / "docs/strategies.md").read_text()
for section in re.split(r"^## ", strategies, flags=re.MULTILINE)[1:]:
    title = section.splitlines()[0]
    proof = section.partition("- **Proof**")[2]
    assert not proof or re.search(r'\(\.\./tests/[^)]*\), "[^"]+"', " ".join(proof.split())), f"docs/strategies.md: '{title}' names no test"
    tests = re.findall(r'\(\.\./(tests/[^)]*)\)([^`\[]*)', section)
    for file, text in tests:
        code = re.sub(r'"\s*\n\s*"', "", (source / file).read_text())
        for test in re.findall(r'"([^"]+)"', " ".join(text.split())):
            assert re.search(rf'TEST_CASE(_TEMPLATE)?\(\s*"{re.escape(test)}"', code), f"{file} has no test '{test}'"
    if title not in ("All together", "Experts"):
        for part in ("```\n", "- **Sent**", "- **Use**", "- **Code**", "- **Proof**"):
            assert part in section, f"docs/strategies.md: '{title}' has no '{part.strip()}'"

keys_file = out.parent / "documented_keys.json"
keys_file.parent.mkdir(parents=True, exist_ok=True)
keys_file.write_text(printed.stdout)
command = [sys.executable, source / "docs/site/build.py", "--keys", keys_file]
if programs and (pathlib.Path(programs[0]) / "pretrain").exists():
    command += ["--programs", programs[0]]
built = subprocess.run([*command, out], capture_output=True, text=True)
if built.returncode != 0 and re.search(r"which is missing; on Debian|has no (sphinx|myst_parser|furo): ", built.stderr):
    print("skipped:", built.stderr.strip())
    sys.exit(77)
assert built.returncode == 0, built.stdout[-3000:] + built.stderr[-3000:]

pages = {}
for file in sorted((out / "html").rglob("*.html")):
    if "_static" not in file.parts:
        pages[file] = Links()
        pages[file].feed(file.read_text())
assert len(pages) > 60, len(pages)
broken, remote = [], []
for file, page in pages.items():
    remote += [f"{file.name}: {address}" for address in page.loaded if re.match(r"(https?:)?//", address)]
    for link in page.links:
        address = urllib.parse.urlsplit(link)
        if address.scheme or address.netloc or link.startswith("#find="):
            continue
        target = (file.parent / urllib.parse.unquote(address.path)).resolve() if address.path else file
        if not target.exists() or address.fragment and target in pages and (
                urllib.parse.unquote(address.fragment) not in pages[target].ids):
            broken.append(f"{file.relative_to(out)}: {link}")
assert not broken, f"{len(broken)} links lead nowhere: {broken[:5]}"
assert not remote, f"pages load from elsewhere: {remote[:5]}"

text = (out / "html/keys.html").read_text()
missing = [name for name in keys if f">{name}<" not in re.sub(r"</?span[^>]*>", "", text)]
assert not missing, f"{len(missing)} keys are not on their page: {missing[:5]}"
unit = (out / "html/reference/parallel.zero.html").read_text()
assert "partitioned_unit" in unit and "the collectives that keep it consistent" in unit
concepts = re.sub(r"<[^>]*>", "", (out / "html/reference/parallel.layer.html").read_text())
assert "concept layer = requires" in concepts.replace("&lt;", "<"), "the concept of a layer is not shown as it is written"
shown = "".join(file.read_text() for file in (out / "html/reference").glob("*.html"))
assert not re.search(r'<span class="pre">[\w:]*::detail(::|<)', shown), "internal names are shown"
# Comments of headers reach the reference: names without a sentence are the aliases of a block and the like, and become no more.
said = re.search(r"(\d+) names, (\d+) without a sentence", built.stdout)
assert int(said[1]) > 2400 and int(said[2]) <= 10, said[0]
for file in [*(source / "include").rglob("*.hpp"), *(source / "include").rglob("*.cuh")]:
    for comment in re.findall(r"(?:^[ \t]*//.*\n)+", file.read_text(), re.MULTILINE):
        words = re.sub(r"^[ \t]*//+<?", "", comment, flags=re.MULTILINE).split()
        twice = [words[i:i + n] for n in range(3, 20) for i in range(len(words) - 2 * n + 1) if words[i:i + n] == words[i + n:i + 2 * n]]
        assert not twice, f"{file.relative_to(source)} says '{' '.join(twice[0])}' twice"
operations = [page.read_text() for page in (out / "source/reference").glob("parallel.ops*.md")]
sections = re.split(r"^### ", "\n".join(operations), flags=re.MULTILINE)
without = [section.split()[0] for section in sections if "*operation* in" in section and "\nExample (" not in section]
assert not without and sum("*operation* in" in section for section in sections) > 50, f"operations without an example: {without}"
index = re.sub(r"<[^>]*>", "", (out / "html/genindex.html").read_text())
assert all(name in index for name in ("attention (operation in parallel::ops)", "model_source (class in mpt)")), "the index lacks names"
for file, page in pages.items():
    if file.parent.name == "reference" and file.name.startswith("parallel"):
        upward = [link for link in page.links if "#name-mpt-" in link]
        assert not upward, f"{file.name} links to names of mpt: {upward[:3]}"
    if file.parent.name == "reference" or file.name == "options.html":
        blocks = re.findall(r"<pre>(.*?)</pre>", file.read_text(), re.DOTALL)
        lines = [line for block in blocks for line in re.sub(r"<[^>]*>", "", block).replace("&lt;", "<").replace("&gt;", ">").replace(
            "&amp;", "&").replace("&quot;", '"').replace("&#39;", "'").splitlines()]
        assert not [line for line in lines if len(line) > 100], f"{file.name}: {max(lines, key=len)}"
context = re.sub(r"<[^>]*>", "", (out / "html/reference/parallel.layer.html").read_text())
assert context.count("matrix_view&lt;accumulate_t&lt;T&gt;&gt; weight_sums, bias_sums;") == 1, "members of one declaration come more than once"
search = (out / "html/searchindex.js").read_text()
assert len(search) > 100_000
for page in (source / "docs/site/howto").glob("*.md"):
    title = page.read_text().splitlines()[0].removeprefix("# ")
    assert f'"howto_{page.stem}"' in search and f'"{title}"' in search, f"the search does not find '{title}'"
print(built.stdout.strip())
