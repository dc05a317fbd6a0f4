#!/usr/bin/env python3
"""check_identifiers.py [FOLDER...]: finds identifiers that are function words (of, at, here, what ...) and so name nothing.

Without arguments it holds each folder of the project to its limit below, in identifiers per 1 000 lines, and exits with 1
where one is above it; with folders or files it prints every place. Comments, strings and preprocessor lines do not count,
nor do names that the standard library chose (std::..., x.at(i), clock::now(), error.what())."""
import functools
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

FUNCTION_WORDS = frozenset("""
about above across after again against all along among around as at before behind below beneath beside between both by each
either enough ever every few fewer have has had here how into least less many more most much neither never nor now of off on
once only onto over own per same several since so soon still such than that then there these those through thus till too
toward under until unless upon very via when where whether which who whoever whom whose why with within without yet
am are be been being can could did does done its may might mine must our ours shall should their theirs them they us was we
were what whatever will would you your yours he him she me
another came come gave given gone kept made making others said taken told went
""".split())

# The most per 1 000 lines, for each folder that a pattern names.
LIMITS = {"include/*": 5, "include/*/*": 5, "apps": 5, "apps/*": 5, "src/*": 5, "src/mpt/*": 5, "docs/examples": 5,
          "bench": 10, "tests": 10, "tests/*": 10, "tests/parallel/*": 10, "tests/mpt/*": 10}

SOURCES = {".hpp", ".cpp", ".cu", ".cuh", ".h", ".inc"}
TOKEN = re.compile(r'''
    (?P<ignored> //[^\n]* | /\*.*?\*/ | ^[ \t]*\#(?:\\\n|[^\n])*
               | R"(?P<mark>\w*)\(.*?\)(?P=mark)" | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])+' )
  | (?P<word> [A-Za-z_]\w* ) | (?P<symbol> :: | -> | \S )''', re.VERBOSE | re.DOTALL | re.MULTILINE)


def is_standard(word, before, following):
    """Whether `word` after the tokens `before` and before `following` is a name that the standard library chose."""
    if before[-1:] == ["::"] and before[-2:-1] in (["std"], ["ranges"], ["views"], ["chrono"], ["this_thread"]):
        return True
    if following != "(":
        return False
    return word in ("what", "now") or (word in ("at", "then") and before[-1:] in (["."], ["->"]))


def function_words(text):
    """The (line, word) of every identifier in `text` that is a function word."""
    tokens = [(m.lastgroup, m.group(), m.start()) for m in TOKEN.finditer(text) if m.lastgroup in ("word", "symbol")]
    for i, (kind, token, position) in enumerate(tokens):
        if kind != "word" or token not in FUNCTION_WORDS:
            continue
        before = [earlier[1] for earlier in tokens[max(0, i - 2):i]]
        following = tokens[i + 1][1] if i + 1 < len(tokens) else ""
        if not is_standard(token, before, following):
            yield text.count("\n", 0, position) + 1, token


def sources(place):
    return [place] if place.is_file() else sorted(f for f in place.rglob("*") if f.suffix in SOURCES and f.is_file())


@functools.cache  # a folder and those above it have limits
def counts(file):
    """The number of lines of `file` and of identifiers in it that are function words."""
    text = file.read_text(errors="replace")
    return text.count("\n"), sum(1 for _ in function_words(text))


def main():
    if len(sys.argv) > 1:
        for name in sys.argv[1:]:
            for file in sources(pathlib.Path(name)):
                for line, word in function_words(file.read_text(errors="replace")):
                    print(f"{file}:{line}: {word}")
        return 0
    failed, checked = False, 0
    for pattern, limit in LIMITS.items():
        for folder in sorted(ROOT.glob(pattern)):
            if not folder.is_dir():
                continue
            lines, found = map(sum, zip((0, 0), *map(counts, sources(folder))))
            checked += 1
            if found > limit * lines / 1000:
                failed = True
                print(f"{folder.relative_to(ROOT)}: {found} identifiers in {lines} lines are function words, "
                      f"{1000 * found / lines:.1f} per 1 000; allowed are {limit}: "
                      f"cmake/check_identifiers.py {folder.relative_to(ROOT)} prints them; say what each thing is")
    if not failed:
        print(f"identifiers: {checked} folders are within their limits")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
