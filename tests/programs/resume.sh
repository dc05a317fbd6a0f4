#!/usr/bin/env bash
# A run that is killed with SIGKILL again and again, in mid-step and in mid-save, and resumed each
# time, ends with the very same bytes as an undisturbed one.
source "$(dirname "$0")/common.sh"

train save_folder=calm
[[ -d calm/ep0-ba40 || -n $(ls -d calm/ep*-ba40 2> /dev/null) ]] || fail "no final checkpoint"

kills=0
for delay in 0.05 0.08 0.11 0.14 0.17 0.2 0.23 0.1 0.13 0.16 0.3 0.07 0.25 0.12 0.35; do
  "$programs/pretrain" small.yaml save_folder=wild > log 2>&1 &
  sleep "$delay"
  if kill -KILL $! 2> /dev/null; then kills=$((kills + 1)); fi
  wait $! 2> /dev/null || true
done
train save_folder=wild
((kills > 5)) || fail "only $kills runs were killed: the test shows nothing"

name=$(basename "$(readlink calm/latest)")
[[ $(readlink wild/latest) == "$name" ]] || fail "latest is $(readlink wild/latest), not $name"
for file in "calm/$name"/*.safetensors; do
  cmp "$file" "wild/$name/$(basename "$file")" || fail "$(basename "$file") differs"
done
[[ -z $(find wild -name '*.tmp-*') ]] || fail "temporary folders were left"
echo "killed $kills times; parameters and optimizer states identical to the undisturbed run"
