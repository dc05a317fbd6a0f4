#!/usr/bin/env bash
# own_trainer.sh SOURCE OUT: follows docs/site/pages/own_trainer.md as it is written, in a copy of the checkout and its
# own home: its commands run in order, its CMakeLists.txt is the project's, and the program prints what the page says.
set -euo pipefail
source=$1 out=$2
page=$source/docs/site/pages/own_trainer.md
rm -rf "$out"
mkdir -p "$out/home" "$out/checkout" "$out/project"
cp -r "$source"/{CMakeLists.txt,CMakePresets.json,LICENSE,cmake,include,docs,apps,src} "$out/checkout"
export HOME=$out/home

block() { # LANGUAGE NUMBER: the text of that block of the page
  awk -v start="^\`\`\`$1\$" -v wanted="$2" '/^```$/ { inside = 0 } inside { print } $0 ~ start { inside = ++n == wanted }' "$page"
}
[[ $(grep -c '^```sh$' "$page") -eq 4 ]] || { echo "the page has not four blocks of commands"; exit 1; }
(cd "$out/checkout" && bash -euo pipefail -c "$(block sh 1)" > "$out/install.log" 2>&1) || { tail "$out/install.log"; exit 1; }
cd "$out/project"
block cmake 1 > CMakeLists.txt
bash -euo pipefail -c "$(block sh 2)"
bash -euo pipefail -c "$(block sh 3)"
grep -q 'ranks = 2;' main.cpp || { echo "main.cpp is not for two ranks"; exit 1; }
bash -euo pipefail -c "$(block sh 4)" > "$out/build.log" 2>&1 || { tail -n 20 "$out/build.log"; exit 1; }
expected=$(block text 1)
printed=$(tail -n 2 "$out/build.log")
[[ $printed == "$expected" ]] || { printf 'the page says\n%s\nbut the program printed\n%s\n' "$expected" "$printed"; exit 1; }
echo "the page was followed to a trainer on two ranks in $SECONDS s"
