#!/usr/bin/env bash
# Every C++ block of docs/guide.md and README.md is the marked part of the example that it names.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

part() { # FILE NAME: the lines between the marks, without their common indentation
  awk -v name="$2" '
    $0 ~ "// \\[guide: end\\]" { inside = 0 }
    inside { if (!n++) { match($0, /^ */); depth = RLENGTH }; print substr($0, depth + 1) }
    index($0, "// [guide: " name "]") { inside = 1 }' "$1"
}

for page in docs/guide.md README.md; do
  blocks=0
  while IFS= read -r line; do
    [[ $line =~ ^'<!-- '(docs/examples/[a-z_]+\.cpp)': '([a-z_]+)' -->'$ ]] || continue
    file=${BASH_REMATCH[1]} name=${BASH_REMATCH[2]}
    shown=$(awk -v mark="$line" '$0 == mark { near = 1; next }
      near && /^```cpp$/ { inside = 1; near = 0; next } /^```$/ { inside = 0 } inside' "$page")
    [[ -n $shown && $shown == "$(part "$file" "$name")" ]] ||
      { echo "$page: the block '$name' differs from $file"; exit 1; }
    blocks=$((blocks + 1))
  done < "$page"
  [[ $blocks -eq $(grep -c '^```cpp$' "$page") ]] || { echo "$page: a block without its example"; exit 1; }
  echo "$page: $blocks code blocks equal their examples"
done
