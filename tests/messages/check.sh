#!/usr/bin/env bash
# check.sh COMPILER SNIPPET: the snippet next to this file does not compile. The text in its first line is in the first
# twelve lines of the compiler's message, without the lines that only say how the compiler got there, and the whole
# message has at most forty lines.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
snippet=$2

context='^(In file included| +from |[^ ]+: +(recursively )?required |[^ ]+: +\[ skipping )'
fail() { # REASON
  printf '%s: %s\n%s\n' "$snippet" "$1" "$message"
  exit 1
}
message=
expected=$(sed -n '1s,^// ,,p' "$snippet")
[[ -n $expected ]] || fail "its first line names no expected text"
if message=$("$1" -std=c++20 -fsyntax-only -I../../include "$snippet" 2>&1); then
  fail "compiles, but must not"
fi
[[ $(grep -vE "$context" <<< "$message" | head -n 12) == *"$expected"* ]] ||
  fail "not in the first twelve lines: $expected"
(($(wc -l <<< "$message") <= 40)) || fail "more than forty lines"
