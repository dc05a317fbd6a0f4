#!/usr/bin/env bash
# Every code block of docs/guide.md is the marked part of the example that it names.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

part() { # FILE NAME: the lines between the marks, without their common indentation
  awk -v name="$2" '
    $0 ~ "// \\[guide: end\\]" { inside = 0 }
    inside { if (!n++) { match($0, /^ */); depth = RLENGTH }; print substr($0, depth + 1) }
    index($0, "// [guide: " name "]") { inside = 1 }' "$1"
}

blocks=0
while IFS= read -r line; do
  [[ $line =~ ^'<!-- '(docs/examples/[a-z_]+\.cpp)': '([a-z_]+)' -->'$ ]] || continue
  file=${BASH_REMATCH[1]} name=${BASH_REMATCH[2]}
  shown=$(awk -v mark="$line" '$0 == mark { near = 1; next }
    near && /^```cpp$/ { inside = 1; near = 0; next } /^```$/ { inside = 0 } inside' docs/guide.md)
  [[ -n $shown && $shown == "$(part "$file" "$name")" ]] ||
    { echo "docs/guide.md: the block '$name' differs from $file"; exit 1; }
  blocks=$((blocks + 1))
done < docs/guide.md
[[ $blocks -eq $(grep -c '^```cpp$' docs/guide.md) ]] || { echo "docs/guide.md: a block without its example"; exit 1; }
echo "$blocks code blocks equal their examples"
