#!/usr/bin/env bash
# check.sh COMPILER: no snippet beside this file compiles; what its first line says stands in the
# first twelve lines of what the compiler says, but for how it came there; they are at most forty in
# all.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

failed=0
way='^(In file included| +from |[^ ]+: +(recursively )?required |[^ ]+: +\[ skipping )'
wrong() { # SNIPPET WHY MESSAGE
  printf '%s: %s\n%s\n' "$1" "$2" "$3"
  failed=1
}
for snippet in *.cpp; do
  expected=$(sed -n '1s,^// ,,p' "$snippet")
  if message=$("$1" -std=c++20 -fsyntax-only -I../../include "$snippet" 2>&1); then
    wrong "$snippet" "compiles, but must not" ""
  elif [[ -z $expected || $(grep -vE "$way" <<< "$message" | head -n 12) != *"$expected"* ]]; then
    wrong "$snippet" "not in the first twelve lines: $expected" "$message"
  elif (($(wc -l <<< "$message") > 40)); then
    wrong "$snippet" "more than forty lines" "$message"
  else
    echo "$snippet: $(wc -l <<< "$message") lines"
  fi
done
exit $failed
