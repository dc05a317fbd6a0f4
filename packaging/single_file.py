#!/usr/bin/env python3
"""single_file.py PROGRAM.cpp > SINGLE.cpp: the program with the library's headers in place of its includes, for places that take one
file: Compiler Explorer, a bug report. It needs no include path; standard headers, and those of other libraries, stay included.

Every header is put where it is first included, which is right as long as no header is first included under a condition."""
import pathlib
import re
import sys

INCLUDE = re.compile(r'\s*#\s*include\s*<((?:parallel|mpt)/[^>]+)>')
HEADERS = pathlib.Path(__file__).resolve().parent.parent / "include"


def lines_of(file, taken):
    """The lines of a file, with headers that are not in `taken` in place of their includes."""
    depth = 0  # of conditions
    for number, line in enumerate(file.read_text().splitlines(), 1):
        depth += bool(re.match(r"\s*#\s*if", line)) - bool(re.match(r"\s*#\s*endif", line))
        header = INCLUDE.match(line)
        if header and header[1] not in taken:
            if depth > 0:
                raise SystemExit(f"{file}:{number}: <{header[1]}> is first included under a condition; include it before")
            if not (HEADERS / header[1]).is_file():
                raise SystemExit(f"{file}:{number}: the library has no header <{header[1]}>")
            taken.add(header[1])
            yield f"// <{header[1]}>"
            yield from lines_of(HEADERS / header[1], taken)
        elif not header and line not in ("#pragma once", "#pragma GCC system_header"):  # which belong to included files
            yield line


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        raise SystemExit(__doc__)
    print("\n".join(lines_of(pathlib.Path(sys.argv[1]), set())))


main()
