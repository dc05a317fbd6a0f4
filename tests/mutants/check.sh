#!/usr/bin/env bash
# check.sh COMPILER WORK MPT_LIBRARY [WORD]: for every error of list.txt (that has WORD in its line) a copy of the headers with it in
# WORK; the test that is named must compile with them, and fail. Prints a table. Some minutes: about one an error. With
# `true` as COMPILER it takes a second and says only whether every edit still finds its line.
set -euo pipefail
compiler=$1 work=$2 word=${4-}
tests=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
libraries=("$3" -lfmt -lyaml-cpp -lzstd -lz -lutf8proc -lxxhash -lzip -lcrypto -lpthread -ldl)
# What "fake_cuda" as the first flag stands for; such a test needs the headers of CUDA.
cuda=${CUDA_INCLUDE:-/usr/local/cuda/include}
fake_cuda=("-I$tests/fake_cuda/kernels" "-I$tests/../src/kernels" -isystem "$cuda" -include fake_cuda/runtime.cpp
  -include fake_cuda/streams.cpp -include combine.cu)
mkdir -p "$work"
[[ -f $work/main.o ]] || "$compiler" -std=c++20 -c "$tests/main.cpp" -o "$work/main.o"

failed=0
printf '| what is wrong | in | test that fails | of its checks |\n|---|---|---|---|\n'
while IFS=@ read -r what header change test flags; do
  [[ -z $what || $what == \#* || $what$header$test != *"$word"* ]] && continue
  rm -rf "$work/include" && cp -r "$tests/../include" "$work/include"
  read -ra words <<< "$flags"
  [[ $flags == fake_cuda* ]] && words=("${fake_cuda[@]}" "${words[@]:1}")
  sed -E -i -z "$change" "$work/include/$header"
  if cmp -s "$work/include/$header" "$tests/../include/$header"; then
    result="THE LINE IS NOT THERE" failed=1
  elif [[ $flags == fake_cuda* && ! -f $cuda/cuda_runtime.h ]]; then
    result="not tried: no headers of CUDA in $cuda"
  elif ! "$compiler" -std=c++20 -O0 -w "${words[@]}" -I"$work/include" -I"$tests" "$work/main.o" "$tests/$test" \
    -o "$work/test" "${libraries[@]}" > "$work/log" 2>&1; then
    result="DOES NOT COMPILE: $(grep -m 1 error "$work/log")" failed=1
  elif PARALLELLM_CHECKOUT=$tests/.. timeout 300 "$work/test" "--test-case-exclude=[full]*" > "$work/log" 2>&1; then
    result="SURVIVES" failed=1
  else
    result=$(sed -nE 's/.*assertions: +([0-9]+) \|.*\| +([0-9]+) failed.*/\2 of \1 fail/p' "$work/log" | tail -n 1)
    result=${result:-the program ends or hangs}
  fi
  printf '| %s | `%s` | `%s` | %s |\n' "$what" "$header" "${test%_test.cpp}" "$result"
done < "$tests/mutants/list.txt"
exit $failed
