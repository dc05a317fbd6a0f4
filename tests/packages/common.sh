# shellcheck shell=bash
# Sourced by the tests of packages: SOURCE, the checkout, and OUT, a folder that the test empties.
set -euo pipefail
source=$1 out=$2 compiler=$3
rm -rf "$out"
mkdir -p "$out"
export CXX=$compiler
unset CMAKE_PREFIX_PATH PKG_CONFIG_PATH

fail() { printf 'failed: %s\n' "$*" >&2; exit 1; }
skip() { printf 'skipped: %s\n' "$*"; exit 77; }
needs() { command -v "$1" > /dev/null || skip "there is no $1"; }
version=$(sed -n 's/.*library_version{\([0-9]*\), \([0-9]*\), \([0-9]*\)};$/\1.\2.\3/p' \
  "$source/include/parallel/core/version.hpp")
[[ $version ]] || fail "the headers state no version"

# The consumer's program must print what three ranks have fitted.
check_program() {
  local printed
  printed=$("$@") || fail "$* ended with $?"
  [[ $printed == "y = 3.000000 x + -1.000000" ]] || fail "$* printed '$printed'"
}

# build_consumer FOLDER OPTION...: the CMake consumer, built in FOLDER and run.
build_consumer() {
  local folder=$1
  shift
  cmake -S "$source/tests/consumer/parallel" -B "$folder" -G Ninja -DCMAKE_BUILD_TYPE=Debug \
    -DCMAKE_CXX_FLAGS_DEBUG=-O0 "$@" > "$folder.log" 2>&1 && cmake --build "$folder" >> "$folder.log" 2>&1 ||
    { tail -n 20 "$folder.log"; fail "the consumer does not build"; }
  check_program "$folder/consumer"
}
