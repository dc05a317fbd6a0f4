#!/usr/bin/env bash
# A run that is killed with SIGKILL again and again, in mid-step and in mid-save, and resumed each
# time, ends with the very same bytes as an undisturbed one.
source "$(dirname "$0")/common.sh"

train save_folder=calm
[[ -d calm/ep0-ba40 || -n $(ls -d calm/ep*-ba40 2> /dev/null) ]] || fail "no final checkpoint"

kills=0
# so long after the start, or, from the fifth on, after the first checkpoint that this start has saved
for delay in 0.05 0.08 0.1 0.12 0 0.01 0.005 0.015 0.002; do
  saved=$(last_checkpoint wild)
  "$programs/pretrain" small.yaml save_folder=wild > log 2>&1 &
  ((kills < 4)) || while [[ $(last_checkpoint wild) == "$saved" ]] && kill -0 $! 2> /dev/null; do sleep 0.01; done
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

# what the tool says of them
checkpoint() { "$programs/checkpoint" "$@" > said 2>&1; }
checkpoint list calm || fail "list"
grep -q "^$name  *2 .*complete, latest$" said || { cat said >&2; fail "list does not tell the latest"; }
"$programs/checkpoint" list calm --json | python3 -c '
import json, sys
rows = json.load(sys.stdin)
assert [row["name"] for row in rows][0] == sys.argv[1] and rows[0]["links"] == ["latest"] and rows[0]["ranks"] == 2
' "$name" || fail "the list as JSON differs"
checkpoint verify calm || { cat said >&2; fail "verify"; }
[[ $(grep -c ': sound; ' said) == 3 ]] || fail "not all three checkpoints were verified"
checkpoint diff calm wild || { cat said >&2; fail "what is equal differs"; }
checkpoint diff "calm/$name" calm/ep0-ba36 && fail "no difference after four batches"
grep -q '^state: replace /batches$' said || fail "the batch is no difference of the state"
grep -q ' elements differ, the first at ' said || fail "no tensor differs"
checkpoint reshard calm one --ranks 1 || { cat said >&2; fail "reshard"; }
checkpoint diff calm one || { cat said >&2; fail "values changed in another rank's files"; }
damaged=calm/$name/rank-00001-F32-000.safetensors
printf '\xff\xff' | dd of="$damaged" bs=1 seek=70000 conv=notrunc status=none
checkpoint verify calm && fail "damage was not found"
grep -q "^$damaged: elements .* are damaged" said || { cat said >&2; fail "the damaged slice is not named"; }
grep -q '^error: 1 of 3 checkpoints is damaged' said || fail "the damaged are not counted"
checkpoint reshard calm two --ranks 3 && fail "a damaged checkpoint was copied"
[[ ! -e two/$name ]] || fail "half of a checkpoint was left"
echo "list, verify, diff and reshard say what is there"

# the newest is damaged: the run says so, goes on from the one before, and ends with the same bytes
train save_folder=calm log_to_console=true
grep -q "$damaged: elements .* are damaged.*; went back to calm/ep0-ba36" log ||
  { cat log >&2; fail "it is not said that the newest checkpoint is damaged"; }
checkpoint diff calm wild || { cat said >&2; fail "another end after going back"; }
[[ -e calm/$name-damaged ]] || fail "the damaged checkpoint is not set aside"
echo "a damaged checkpoint cost four batches"
