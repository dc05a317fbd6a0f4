#!/usr/bin/env python3
"""Holds the number of lines of the product and of its tests: neither grows unnoticed.

A change that needs more lines raises the number here and says in docs/architecture.md ("Size") what they buy; one that needs
fewer lowers the number."""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCES = {".hpp", ".cpp", ".cu", ".cuh", ".inc"}
LIMITS = {"product": (("include", "src", "apps"), 132480), "tests": (("tests",), 96295)}


def lines(folders):
    """Physical lines of every source below the folders."""
    files = (file for folder in folders for file in (ROOT / folder).rglob("*") if file.suffix in SOURCES)
    return sum(file.read_bytes().count(b"\n") for file in files)


def main():
    grown = False
    for name, (folders, limit) in LIMITS.items():
        count = lines(folders)
        print(f"{name} ({', '.join(folders)}): {count} lines of at most {limit}")
        if count > limit:
            grown = True
            print(f"error: {name}: {count - limit} lines more than cmake/check_size.py allows: take out as many, or raise the "
                  "number there and say in docs/architecture.md, under Size, what the lines buy")
    return 1 if grown else 0


if __name__ == "__main__":
    sys.exit(main())
