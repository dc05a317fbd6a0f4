#!/usr/bin/env bash
# Evaluate, export, generate and import on a checkpoint: the numbers agree across the formats. The
# whole quickstart, run again when it is done or was killed in mid-pretraining, ends with the same ones.
source "$(dirname "$0")/common.sh"

train save_folder=run model.learned_pos_emb=false model.no_bias=true \
  model.attn_config.alibi=true model.resid_pdrop=0.0
"$programs/prepare" --tokenizer tokenizer --concat_tokens 32 --eos_text '<|endoftext|>' \
  --out_root few "${text[@]:0:20}" > /dev/null 2>&1
"$programs/evaluate" run --data few --json native.json > /dev/null 2>&1
"$programs/convert" run hf > /dev/null
[[ -f hf/config.json && -f hf/model.safetensors && -f hf/tokenizer.json ]] || fail "export"
"$programs/evaluate" hf --data few --json hf.json > /dev/null 2>&1
number() { grep "\"$2\"" "$1" | sed 's/.*: //; s/,$//'; }
[[ $(number native.json cross_entropy) == $(number hf.json cross_entropy) ]] || fail "export changed the loss"
"$programs/convert" hf imported > /dev/null
"$programs/evaluate" imported --data few --json imported.json > /dev/null 2>&1
[[ $(number native.json cross_entropy) == $(number imported.json cross_entropy) ]] || fail "import changed the loss"

first=$("$programs/generate" hf --prompt 'the' --max_new_tokens 12 2> /dev/null)
second=$("$programs/generate" run --prompt 'the' --max_new_tokens 12 2> /dev/null)
[[ -n $first && $first == "$second" ]] || fail "generation differs: '$first' and '$second'"
"$programs/convert" run hf 2> err && fail "an existing folder was replaced"
grep -q 'exists already' err || { cat err; fail "unclear message"; }
"$programs/pretrain" small.yaml save_folder=x max_duratoin=1ba 2> err && fail "a wrong key was accepted"
grep -q 'max_duration' err || { cat err; fail "the nearest key is not named"; }
echo "checkpoint, Hugging Face folder and import evaluate alike"

cp "$source_root"/tests/golden/icl/{choice,schema,language}.jsonl .
cat > tasks.yaml <<'YAML'
icl_tasks:
- {label: choice, dataset_uri: choice.jsonl, num_fewshot: [0, 2], icl_task_type: multiple_choice, max_seq_len: 256}
- {label: schema, dataset_uri: schema.jsonl, num_fewshot: [1], icl_task_type: schema, max_seq_len: 256}
- {label: language, dataset_uri: language.jsonl, num_fewshot: [3], icl_task_type: language_modeling,
   has_categories: true, max_seq_len: 256}
YAML
tasks() { "$programs/evaluate" "$@" > /dev/null 2>&1 || fail "evaluate $*"; }
tasks run --icl_tasks tasks.yaml --tokenizer tokenizer --rows run.jsonl --json run.json
tasks hf --icl_tasks tasks.yaml --rows hf.jsonl --ranks 3
[[ $(wc -l < run.jsonl) -eq 48 ]] || fail "not every row was run"
cmp <(sed 's/"model":"run"//' run.jsonl) <(sed 's/"model":"hf"//' hf.jsonl) || fail "rows depend on ranks"
cat > eval.yaml <<'YAML'
max_seq_len: 256
device_eval_batch_size: 4
precision: fp32
icl_tasks: tasks.yaml
models: [{model_name: run, model: {name: hf_causal_lm, pretrained_model_name_or_path: nowhere}}]
YAML
tasks eval.yaml models.0.model.pretrained_model_name_or_path=hf --rows yaml.jsonl
cmp run.jsonl yaml.jsonl || fail "the YAML's form gives other rows"
tasks hf --icl_tasks tasks.yaml --data few --ranks 4 --tensor 2 --rows held.jsonl --json held.json
python3 - << 'PYTHON' || fail "models that two ranks hold together give others"
import json
rows = lambda name: [json.loads(line)["losses"] for line in open(name)]
whole, held = rows("run.jsonl"), rows("held.jsonl")
assert [len(row) for row in whole] == [len(row) for row in held]
assert all(abs(a - b) < 1e-5 for one, other in zip(whole, held) for a, b in zip(one, other))
whole, held = json.load(open("hf.json")), json.load(open("held.json"))
assert whole["tokens"] == held["tokens"]
assert abs(whole["cross_entropy"] - held["cross_entropy"]) < 1e-6
PYTHON
"$programs/evaluate" hf --icl_tasks tasks.yaml --data none 2> /dev/null && fail "a set that is not there was accepted"
printf 'the\nfor\n' > prompts.txt
"$programs/generate" hf --prompts prompts.txt --max_new_tokens 12 --json many.json > many.txt 2> /dev/null
[[ $(head -n 1 many.txt) == "$(head -n 1 <<< "$first")" ]] || fail "a file of prompts is continued otherwise"
[[ $(number many.json prompt | wc -l) -eq 2 ]] || fail "not every prompt was continued"
echo "tasks score alike from a checkpoint, a folder and a YAML, on one rank, on three, and on two that hold a model together"

quickstart() { # folder; may be killed
  exec setsid "$programs/quickstart" --out "$1" --config "$source_root/apps/configs/small.yaml" \
    --set model.d_model=32 --set model.n_heads=2 --set model.n_layers=1 --set max_duration=24ba \
    --set global_train_batch_size=8 --set eval_interval=0ba --set save_interval=4ba "${text[@]}"
}
finish() { (quickstart "$1") > log 2>&1 || { cat log >&2; fail "quickstart $1"; }; }
finish calm
grep -q $'\x1b' log && fail "escapes of a terminal if there is none"
cp -r calm/checkpoints/summary.json calm/evaluation.json .
grep -q '^| model .*| wall-clock s | .*| convert+infer+eval | eval accuracy |' log || fail "the row of a table is not printed"
python3 - << 'PYTHON' || fail "the summary's row is not what the run was"
import json, os
summary = json.load(open("summary.json"))
row = summary["table_row"]
assert row["batches"] == summary["batches"] == summary["batches_here"] == 24
assert row["nodes"] == 1 and row["conversion_inference_evaluation_ok"] is None
assert row["wall_clock_seconds"] == summary["wall_clock_seconds"] > summary["seconds"] + summary["evaluation_seconds"]
assert 0 < row["mfu"] <= 1 and row["tokens_per_second"] > 0
files = [os.path.join(at, f) for at, _, all in os.walk(summary["checkpoint"]) for f in all]
assert row["checkpoint_bytes"] == sum(map(os.path.getsize, files)) > 0
assert row["gib_per_device"] * 2**30 == summary["device_memory_bytes"] > 0
PYTHON
finish calm
cmp summary.json calm/checkpoints/summary.json || fail "the summary of a finished run changed"
cmp evaluation.json calm/evaluation.json || fail "the evaluation of a finished run changed"
grep -q 'already complete: 24 batches' log || { cat log >&2; fail "not told that all is done"; }

quickstart wild > log 2>&1 &
for ((i = 0; i < 600; ++i)); do
  [[ -L wild/checkpoints/latest ]] && break
  sleep 0.05
done
kill -KILL -- -$! || fail "it was over before it was killed: the test shows nothing"
wait $! 2> /dev/null || true
[[ -f wild/checkpoints/summary.json ]] && fail "killed too late: the test shows nothing"
finish wild
grep -q 'resumed .* at batch' log || { cat log >&2; fail "training began anew"; }
for key in tokens batches loss; do
  [[ $(number summary.json $key) == $(number wild/checkpoints/summary.json $key) ]] ||
    fail "$key differs after a kill"
done
[[ $(number evaluation.json cross_entropy) == $(number wild/evaluation.json cross_entropy) ]] ||
  fail "the held-out loss differs after a kill"
echo "a run that was killed in pretraining and run again ends with the same figures"
