#!/usr/bin/env bash
# 50 steps of an MPT by Kokkos and by the host: the same losses, but for the rounding of activations,
# which the two compute otherwise. Two ranks share Kokkos.
source "$(dirname "$0")/common.sh"

settings=(max_duration=50ba save_interval=50ba autoresume=false zero_stage=2)
for device in cpu kokkos; do
  train "${settings[@]}" device=$device metrics_file=$device.jsonl
  losses $device.jsonl > $device.losses
done
grep -q 'Kokkos' log || { cat log; fail "the program does not say that Kokkos computes"; }
[[ $(wc -l < cpu.losses) == 50 ]] || fail "there are not 50 losses"
paste -d' ' cpu.losses kokkos.losses | awk '
  function apart(x, y) { return (x > y ? x - y : y - x) / (x > y ? x : y) }
  $1 != $4 { print "FAILED: batch " $1 " is next to batch " $4; exit 1 }
  { loss = apart($2, $5); norm = apart($3, $6)
    if (loss > most) most = loss
    if (norm > most_norm) most_norm = norm }
  !(loss < 1e-6 && norm < 1e-5) { print "FAILED: batch " $0; exit 1 }
  END { print NR " batches: losses within " most ", gradient norms within " most_norm }' || exit 1

"$programs/pretrain" small.yaml "${settings[@]}" device=kokkos precision=amp_bf16 2> err &&
  fail "bf16 was accepted"
grep -q 'device=kokkos trains in fp32; set precision=fp32' err || { cat err; fail "unclear message"; }
