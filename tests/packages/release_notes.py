#!/usr/bin/env python3
"""release_notes.py SOURCE: notes made from CHANGELOG.md hold all its lines, what is no version is refused, and
the pages name the version that the headers state."""
import pathlib
import re
import subprocess
import sys

source = pathlib.Path(sys.argv[1])
script = source / "packaging/release_notes.py"


def run(*arguments):
    return subprocess.run([sys.executable, script, *arguments], capture_output=True, text=True)


result = run()
assert result.returncode == 0, result.stderr
changelog = (source / "CHANGELOG.md").read_text()
newest = re.search(r"^## (\d+\.\d+\.\d+) \((.+)\)$\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
header = (source / "include/parallel/core/version.hpp").read_text()
stated = ".".join(re.search(r"library_version\{(\d+), (\d+), (\d+)\};", header).groups())
assert newest[1] == stated, f"CHANGELOG.md begins with {newest[1]}, the headers state {stated}"
assert result.stdout.startswith(f"# ParallelLM {stated}\n"), result.stdout[:80]
lines = [line for line in newest[3].splitlines() if line.startswith("- ")]
missing = [line for line in lines if line not in result.stdout.splitlines()]
assert lines and not missing, missing[:3]
assert run(stated).stdout == result.stdout

pages = [source / "README.md", *source.glob("docs/**/*.md")]
named = [(page.name, name) for page in pages
         for name in re.findall(r"GIT_TAG (v[\d.]+\d)|_(\d[\d.]+)_all\.deb|release_notes\.py (\d[\d.]+\d)", page.read_text())]
assert named, "no page names a tag"
other = [(page, *name) for page, name in named if "".join(name).removeprefix("v") != stated]
assert not other, f"pages name another version than {stated}: {other}"

refused = run("99.0.0")
assert refused.returncode != 0 and "no section of version '99.0.0'" in refused.stderr, refused.stderr
print(f"release notes of {stated}: {len(lines)} lines of CHANGELOG.md")
