#!/usr/bin/env bash
# check_options.sh COMPILER: options by which the library would not compile, or would calculate wrongly,
# are refused in one sentence, which is the first error; nothing but the end of the compiler's work follows.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

failed=0
refused() { # COMPILER OPTION SENTENCE
  local message
  if message=$("$1" -std=c++20 $2 -E -I../../include -x c++ - 2>&1 > /dev/null <<< "$source"); then
    printf '%s: compiles, but must not\n' "$2"
    failed=1
  elif [[ $(grep -m1 'error: ' <<< "$message") != *"$3"* ]] || (($(grep -c 'error: ' <<< "$message") > 2)); then
    printf '%s: the first error is not: %s\n%s\n' "$2" "$3" "$message"
    failed=1
  else
    echo "${2:-$source}: refused"
  fi
}
source='#include <parallel/parallel.hpp>'
refused "$1" -std=c++17 "ParallelLM needs C++20, and this file is compiled as an older C++"
refused "$1" -fno-exceptions "ParallelLM reports errors by exceptions, which -fno-exceptions turns off"
refused "$1" -fno-rtti "ParallelLM tells kinds of errors apart by dynamic_cast, which -fno-rtti turns off"
refused "$1" -ffast-math "ParallelLM relies on IEEE arithmetic, which -ffast-math and -Ofast give up"
refused "$1" -Ofast "ParallelLM relies on IEEE arithmetic, which -ffast-math and -Ofast give up"
refused "$1" -ffinite-math-only "ParallelLM masks by infinities and looks for NaN, which -ffinite-math-only gives up"
if ! "$1" --version | grep -q clang; then # which tells nobody
  refused "$1" -funsafe-math-optimizations "ParallelLM adds in the order that it writes"
fi
# a standard library without jthread, and macros of Windows' headers, as they come before ours
source='#include <version>
#undef __cpp_lib_jthread
#include <parallel/parallel.hpp>'
refused "$1" "" "ParallelLM needs std::jthread, which this standard library lacks"
source='#include <algorithm>
#define min(a, b) ((a) < (b) ? (a) : (b))
#include <parallel/core/config.hpp>'
refused "$1" "" "Before ParallelLM's headers min or max is defined as a macro"
# the 32-bit standard library need not be there
source='#define __SIZEOF_POINTER__ 4
#include <parallel/core/config.hpp>'
refused "$1" -Wno-builtin-macro-redefined "ParallelLM counts elements in 64 bits and needs a 64-bit target"
exit $failed
