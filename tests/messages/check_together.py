#!/usr/bin/env python3
"""check_together.py G++ SNIPPET...: as check.sh, for several snippets that g++ compiles in one unit, so that their headers are
read once. Each snippet stands in its own namespace behind the headers of all, and a message belongs to the snippet that it
names as the place where it all began. A message that another snippet has already caused is missing, which is a failure here."""
import pathlib
import re
import subprocess
import sys

FOLDER = pathlib.Path(__file__).resolve().parent
INCLUDE = re.compile(r"^#include .*$", re.MULTILINE)
# The lines that only say how the compiler got there, as in check.sh.
CONTEXT = re.compile(r"(In file included| +from |[^ ]+: +(recursively )?required |[^ ]+: +\[ skipping )")
BEGINNING = re.compile(r"In file included|[^ ]+: (In|At) ")


def messages_of(output, snippets):
    """The lines of a compiler's output by snippet."""
    found = {snippet: [] for snippet in snippets}
    parts, led = [[]], False
    for line in output.splitlines():
        leads = bool(BEGINNING.match(line) or CONTEXT.match(line))
        if (leads and not led) or (not led and re.match(r"[^ ]+: error: ", line)):
            parts.append([])
        parts[-1].append(line)
        led = leads
    owner = None
    for part in parts:
        named = re.findall(r"^([\w/]+\.cpp):\d+:", "\n".join(part), re.MULTILINE)
        owner = next((name for name in reversed(named) if name in found), owner)
        if owner is not None:
            found[owner] += part
    return found


def reason_against(snippet, message):
    """Why the message of a snippet is not as it should be; None: it is."""
    expected = re.match(r"// (.+)", (FOLDER / snippet).read_text())
    if not expected:
        return "its first line names no expected text"
    if not any(": error: " in line for line in message):
        return "compiles, or another snippet has caused its message, too"
    seen = "\n".join([line for line in message if not CONTEXT.match(line)][:12])
    if expected[1] not in seen:
        return f"not in the first twelve lines: {expected[1]}"
    return "more than forty lines" if len(message) > 40 else None


def main():
    compiler, snippets = sys.argv[1], sys.argv[2:]
    texts = {name: (FOLDER / name).read_text() for name in snippets}
    headers = dict.fromkeys(line for text in texts.values() for line in INCLUDE.findall(text.replace('"../', '"')))
    unit = list(headers)
    for name, text in texts.items():
        unit += [f"namespace of_{pathlib.Path(name).stem} {{", f'#line 1 "{name}"', INCLUDE.sub("", text), "}"]
    ended = subprocess.run([compiler, "-std=c++20", "-fsyntax-only", "-I../../include", "-I.", "-x", "c++", "-"], cwd=FOLDER,
                           input="\n".join(unit), capture_output=True, text=True)
    messages = messages_of(ended.stderr, snippets)
    wrong = {name: reason for name in snippets if (reason := reason_against(name, messages[name]))}
    for name, reason in wrong.items():
        print(f"{name}: {reason}", *messages[name], sep="\n")
    print(f"{len(snippets) - len(wrong)} of {len(snippets)} snippets have the messages that they should have")
    sys.exit(bool(wrong))


main()
