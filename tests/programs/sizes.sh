#!/usr/bin/env bash
# apps/configs/mpt: the nine published sizes in both forms, planned for 8 and 64 GPUs of 80 GB. The
# parameters are those of LLM Foundry's tables; what cannot fit is refused with the ranks that would do.
source "$(dirname "$0")/common.sh"

hub_form="model.learned_pos_emb=false model.no_bias=true model.attn_config.alibi=true model.vocab_size=50432"
plan() { # size, ranks, overrides
  "$programs/pretrain" "$source_root/apps/configs/mpt/$1.yaml" dry_run=true device_memory=80GB ranks="$2" "${@:3}" 2>&1
}
check() { # size, parameters of form a, parameters of form b, ranks that are needed
  local ranks form overrides=() status
  for ranks in 8 64; do
    for form in a b; do
      overrides=()
      [[ $form == b ]] && read -ra overrides <<< "$hub_form"
      status=0
      plan "$1" "$ranks" "${overrides[@]}" > plan.txt || status=$?
      grep -q "parameters *$([[ $form == a ]] && echo "$2" || echo "$3") " plan.txt ||
        { cat plan.txt >&2; fail "$1 in form $form has other parameters"; }
      if ((ranks >= $4)); then
        [[ $status == 0 ]] && grep -q '^fits: ' plan.txt || { cat plan.txt >&2; fail "$1 does not fit $ranks GPUs"; }
      else
        [[ $status == 1 ]] && grep -Eq "^error: does not fit: .*; set (ranks=$4|zero_stage=3 offload_optimizer=true( fsdp_config.activation_checkpointing=true)?)$" plan.txt ||
          { cat plan.txt >&2; fail "$1 on $ranks GPUs is not refused with the ranks, or the setting, that would do"; }
      fi
    done
  done
}
#     size parameters of form a, b        least ranks
check 125m 125,311,488    123,685,632    1
check 350m 355,985,408    353,682,432    1
check 760m 760,470,528    757,016,064    1
check 1b   1,315,950,592  1,311,344,640  1
check 3b   2,651,837,440  2,645,854,720  1
check 7b   6,658,859,008  6,649,286,656  1
check 13b  12,853,954,560 12,841,538,560 1
check 30b  29,975,214,080 29,957,200,896 16
check 70b  64,862,437,376 64,838,967,296 32
echo "nine sizes in both forms are planned on 8 and on 64 GPUs"
