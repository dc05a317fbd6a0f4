#!/usr/bin/env bash
# cuda_defaults.sh CHECKOUT FOLDER CMAKE NVCC: where nvcc is and no GPU, kernels are made to train with: by nvcc's full
# optimisation, with code for H100 and PTX that newer GPUs' drivers translate; GPUs without bf16 are refused.
set -euo pipefail
checkout=$1 folder=$2 cmake=$3 nvcc=$4
rm -rf "$folder" "$folder-old"
configure() { # FOLDER, settings
  PATH=$(dirname "$nvcc"):$PATH "$cmake" -S "$checkout" -B "$1" -G Ninja -DCMAKE_BUILD_TYPE=Release -DPARALLELLM_CUDA=ON \
    -DPARALLELLM_KOKKOS=OFF -DPARALLELLM_TESTS=OFF -DPARALLELLM_BENCH=OFF -DCMAKE_EXPORT_COMPILE_COMMANDS=ON \
    "${@:2}" > "$folder.log" 2>&1
}
configure "$folder" || { cat "$folder.log"; exit 1; }
commands=$(grep '"command".*/nvcc .* -x cu ' "$folder/compile_commands.json")
(($(wc -l <<< "$commands") > 15)) || { printf 'few kernels:\n%s\n' "$commands"; exit 1; }
wrong=$(grep -v 'arch=compute_90,code=\[compute_90,sm_90\]' <<< "$commands" || true)
[[ -z $wrong ]] || { printf 'not code for H100 and PTX:\n%s\n' "$wrong"; exit 1; }
wrong=$(grep -v -- ' -O3 ' <<< "$commands"; grep -E -- '--Ofast-compile|-Xptxas -O[0-2]' <<< "$commands" || true)
[[ -z $wrong ]] || { printf 'compiled in a hurry:\n%s\n' "$wrong"; exit 1; }
if configure "$folder-old" -DCMAKE_CUDA_ARCHITECTURES=75; then
  echo "GPUs without bf16 are not refused"
  exit 1
fi
grep -q 'ParallelLM needs bf16 in hardware: CUDA architecture 75' "$folder.log" || { cat "$folder.log"; exit 1; }
echo "$(wc -l <<< "$commands") files for compute capability 9.0 and as PTX, optimised"
