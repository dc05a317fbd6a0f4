#!/usr/bin/env python3
"""release_notes.py [VERSION | --version]: the release notes of a version, as Markdown, from CHANGELOG.md.

Without VERSION it is the one that the headers state. A version that is still marked as unreleased gets notes
that say so. --version prints only the version that the headers state."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def stated_version():
    header = (ROOT / "include/parallel/core/version.hpp").read_text()
    return ".".join(re.search(r"library_version\{(\d+), (\d+), (\d+)\};", header).groups())


def sections(changelog):
    """The text of each version's section, by "VERSION" and what stands in brackets behind it."""
    found = {}
    for heading, text in re.findall(r"^## (.+?)$\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL):
        match = re.fullmatch(r"(\d+\.\d+\.\d+) \((.+)\)", heading)
        if not match:
            sys.exit(f"CHANGELOG.md: the heading '{heading}' is not of the form '1.2.3 (2026-01-31)' or '1.2.3 (unreleased)'")
        found[match[1]] = (match[2], text.strip())
    return found


def notes(version, date, text):
    text = re.sub(r"^### ", "## ", text, flags=re.MULTILINE)
    first_minor = version.split(".")[0] == "0"
    promise = f"{version.rsplit('.', 1)[0]}.x" if first_minor else f"{version.split('.')[0]}.x"
    return f"""# ParallelLM {version}

{'Not released yet.' if date == 'unreleased' else f'Released on {date}.'} Programs that build with one version of {promise} build with every later one of
it (`docs/packages.md`).

{text}
"""


def main():
    if len(sys.argv) > 2:
        sys.exit(__doc__)
    if sys.argv[1:2] in (["-h"], ["--help"]):
        print(__doc__)
        return
    if sys.argv[1:] == ["--version"]:
        print(stated_version())
        return
    version = sys.argv[1] if len(sys.argv) == 2 else stated_version()
    known = sections((ROOT / "CHANGELOG.md").read_text())
    if version not in known:
        sys.exit(f"CHANGELOG.md has no section of version '{version}'; there are {', '.join(known)}")
    print(notes(version, *known[version]), end="")


if __name__ == "__main__":
    main()
