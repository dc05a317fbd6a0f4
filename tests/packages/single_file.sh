#!/usr/bin/env bash
# single_file.sh SOURCE OUT CXX: a program and the library's headers in one file, compiled as Compiler Explorer compiles it:
# with no include path and no library, by the flags that docs/packages.md names. Programs: that of all tests of packages, and
# the page's.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
needs python3
make_program() { # FILE NAME: the program NAME, of one file
  python3 "$source/packaging/single_file.py" "$source/$1" > "$out/$2.cpp"
  ! grep -q '#include <parallel/' "$out/$2.cpp" || fail "a header of the library is still included in $2.cpp"
  (cd "$out" && "$compiler" -std=c++20 -O1 -pthread -Werror "$2.cpp" -o "$2")
}
grep -q -- '-std=c++20 -O1 -pthread' "$source/docs/packages.md" || fail "docs/packages.md names other flags"
make_program tests/consumer/parallel/main.cpp consumer
check_program "$out/consumer"
make_program docs/examples/ranks.cpp single
printed=$("$out/single") || fail "the program ended with $?"
[[ $printed == *"tensor group 0 sums to 3"* && $printed == *"ranks disagree in count"* ]] || fail "it printed '$printed'"
said=$(cd "$out" && echo '#include <parallel/no_such.hpp>' > wrong.cpp && python3 "$source/packaging/single_file.py" wrong.cpp 2>&1) &&
  fail "a header that does not exist is accepted"
[[ $said == *"wrong.cpp:1: the library has no header <parallel/no_such.hpp>" ]] || fail "it said '$said'"
echo "$(wc -l < "$out/single.cpp") lines in one file, compiled without an include path"
