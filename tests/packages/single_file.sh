#!/usr/bin/env bash
# single_file.sh SOURCE OUT CXX: a program and the library's headers in one file, compiled as Compiler Explorer compiles it:
# with no include path and no library.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
needs python3
python3 "$source/packaging/single_file.py" "$source/docs/examples/ranks.cpp" > "$out/single.cpp"
! grep -q '#include <parallel/' "$out/single.cpp" || fail "a header of the library is still included"
(cd "$out" && "$compiler" -std=c++20 -O0 -pthread -Werror single.cpp -o single)
printed=$("$out/single") || fail "the program ended with $?"
[[ $printed == *"tensor group 0 sums to 3"* && $printed == *"ranks disagree in count"* ]] || fail "it printed '$printed'"
said=$(cd "$out" && echo '#include <parallel/no_such.hpp>' > wrong.cpp && python3 "$source/packaging/single_file.py" wrong.cpp 2>&1) &&
  fail "a header that does not exist is accepted"
[[ $said == *"wrong.cpp:1: the library has no header <parallel/no_such.hpp>" ]] || fail "it said '$said'"
echo "$(wc -l < "$out/single.cpp") lines in one file, compiled without an include path"
