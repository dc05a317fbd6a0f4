#!/usr/bin/env bash
# bench/journey.py at a small width: from raw text to a finetuned model in one command, with a row for
# each of both models; a conversion that damages a weight is found by comparison and named.
source "$(dirname "$0")/common.sh"
for i in {1..200}; do printf '{"prompt": "What is %d plus 1?", "response": "It is the number %d."}\n' "$i" $((i + 1)); done > train.jsonl
head -n 40 train.jsonl > test.jsonl
settings=()
for setting in max_duration=20ba eval_interval=20ba save_interval=20ba model.d_model=64 model.n_layers=2 \
  model.vocab_size=512 variables.max_seq_len=64 scheduler.t_warmup=5ba; do settings+=(--set "$setting"); done
journey() { # folder of programs, more options
  python3 "$source_root/bench/journey.py" "$source_root/apps/configs/small.yaml" --text "${text[@]:0:150}" \
    --vocab-size 512 --programs "$1" --out out "${settings[@]}" "${@:2}" > rows.md 2> said
}

journey "$programs" --finetune train.jsonl test.jsonl --set-finetuning max_duration=1ep \
  --set-finetuning variables.max_seq_len=64 || { cat said >&2; fail "the journey fails"; }
[[ $(grep -c '| yes |' rows.md) -eq 2 ]] || { cat rows.md >&2; fail "not two good rows"; }
grep -q '^| MPT-[0-9]*k | 20 | 20ba | 1 |' rows.md || { cat rows.md >&2; fail "another row of pretraining"; }
grep -q '^| MPT-[0-9]*k, finetuned | ' rows.md || { cat rows.md >&2; fail "no row of finetuning"; }
python3 - << 'END_OF_FILE' || fail "the report lacks what was compared"
import json
facts = json.load(open("out/small/journey.json"))
assert facts["summary"]["table_row"]["conversion_inference_evaluation_ok"] is True
assert len(facts["losses"]) == 3 and len(set(facts["losses"].values())) == 1
assert len(facts["finetuned-losses"]) == 3 and len(set(facts["finetuned-losses"].values())) == 1
assert facts["finetuned-losses"] != facts["losses"]
assert facts["finetuning losses"][-1] < facts["finetuning losses"][0] and facts["problems"] == []
END_OF_FILE

"$programs/report" out/small/checkpoints --out page.html > /dev/null
grep -q '<td>yes</td>' page.html || fail "the page does not show the verdict"

mkdir damaging
for program in "$programs"/*; do ln -s "$program" damaging/; done
rm damaging/convert
cat > damaging/convert << END_OF_FILE
#!/usr/bin/env bash
"$programs/convert" "\$@" || exit
file=\$2/model.safetensors
[[ ! -f \$file ]] || printf '\x11\x22\x33\x40' | dd of="\$file" bs=1 seek=\$((\$(stat -c %s "\$file") - 4)) conv=notrunc status=none
END_OF_FILE
chmod +x damaging/convert
journey damaging && fail "a damaged export passes"
grep -q '| no |' rows.md || { cat rows.md >&2; fail "the damaged row is not marked"; }
grep -q '^error: small: the loss depends on the form: checkpoint ' said || { cat said >&2; fail "the damage is not named"; }
echo "the journey ends with two good rows, and a damaged conversion is found"
