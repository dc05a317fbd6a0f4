#!/usr/bin/env bash
# --json: every program that prints figures gives the same as one JSON document, alone on standard output (-) or in a
# file in addition to the text; a plan's document has the figures of its text.
source "$(dirname "$0")/common.sh"

# what a program prints with --json -, which must be one document and nothing else
document() { # file, program, arguments
  local file=$1 program=$2
  shift 2
  "$programs/$program" "$@" > "$file" 2> log || { cat log >&2; fail "$program $*"; }
  python3 -c 'import json, sys; json.load(open(sys.argv[1]))' "$file" || { cat "$file" >&2; fail "$program prints more than JSON"; }
}

document tokenizer.json train_tokenizer --vocab_size 300 --out other "${text[@]:0:10}" --json -
document again.json train_tokenizer --vocab_size 300 --out other "${text[@]:0:10}" --json -
prepared=(--tokenizer tokenizer --concat_tokens 32 --eos_text '<|endoftext|>' --out_root few "${text[@]:0:20}")
document prepare.json prepare "${prepared[@]}" --json -
printf '{"prompt": "a", "response": "b"}\n{"prompt": "a", "response": ""}\n' > rows.jsonl
document rows.json prepare --finetuning --tokenizer tokenizer --out_root rows rows.jsonl --json -
document plan.json pretrain small.yaml save_folder=planned dry_run=true ranks=8 zero_stage=3 parallelism.pipeline=2 device_memory=1GB --json -
"$programs/pretrain" small.yaml save_folder=planned dry_run=true ranks=8 zero_stage=3 parallelism.pipeline=2 device_memory=1GB \
  --json beside.json > plan.txt 2> log || { cat log >&2; fail "a plan with a file"; }
cmp -s plan.json beside.json || fail "a plan in a file is another one"
document step.json pretrain small.yaml save_folder=planned dry_run=true print_plan=true ranks=2 parallelism.pipeline=2 --json -
"$programs/pretrain" small.yaml save_folder=planned dry_run=true ranks=2 device_memory=3MB --json tight.json > out 2> log && fail "it fits"
grep -q '^error: does not fit' log || { cat log >&2; fail "it is not said that a plan does not fit"; }
document run.json pretrain small.yaml save_folder=ckpt preflight=true --json -
document evaluation.json evaluate ckpt --data few --json -
document texts.json generate ckpt --tokenizer tokenizer --prompt namespace --max_new_tokens 4 --json -
document converted.json convert ckpt hf --json -
document imported.json convert hf imported --json -
document checkpoints.json checkpoint list ckpt --json
document resharded.json checkpoint reshard ckpt resharded --ranks 1 --json

python3 - << 'PYTHON' || fail "a document has other figures"
import json, re
read = lambda name: json.load(open(name + ".json"))
assert read("tokenizer")["tokens"] == read("again")["tokens"] == 300 and read("again")["already_there"] is True
prepared, record = read("prepare"), json.load(open("few/prepare.json"))
assert prepared["documents"] == 20 and prepared["samples"] * 32 <= prepared["tokens"] == record["tokens"]
assert read("rows")["rows"] == 1 and read("rows")["dropped_rows"] == 1 and read("rows")["tokenised"] is True

text = {row[1].strip(): row[2].strip() for row in re.finditer(r"│ (\s*\S.*?)  +(.*?) │", open("plan.txt").read())}
def size(number):  # as people read it
    unit = 0
    while number >= 1023.5: number, unit = number / 1024, unit + 1
    return f"{number:.{1 if unit > 2 and number < 99.95 else 0}f} {['B', 'KiB', 'MiB', 'GiB'][unit]}"
plan = read("plan")
memory, kinds = plan["memory"], plan["memory"]["bytes"]
assert text["parameters"] in (f"{plan['model']['parameters']:,}", size(kinds["parameters"])), text
assert f"│ parameters " in open("plan.txt").read() and f"{plan['model']['parameters']:,}" in open("plan.txt").read()
assert text["ranks"] == plan["layout"]["text"] and plan["layout"]["ranks"] == 8 and plan["layout"]["pipeline"] == 2
assert text["memory per rank"] == size(memory["total_bytes"]) and sum(kinds.values()) == memory["total_bytes"]
assert text["gradients"] == size(kinds["gradients"]) and text["optimizer"] == size(kinds["optimizer_states"])
assert text["activations"] == size(kinds["activations"]) and text["unit buffers"] == size(kinds["buffers"])
assert text["steps"] == str(plan["steps"]) and plan["tokens"] == 40 * 24 * 32 and plan["batch"]["tokens"] == 24 * 32
assert max(rank["total_bytes"] for rank in memory["by_pipeline_rank"]) == memory["total_bytes"]
assert memory["fits"] is True and memory["available_bytes"] == 10**9 and plan["candidates"] == []
step = read("step")["step"]
assert [rank["pipeline_rank"] for rank in step] == [0, 1] and any("forward" in a["action"] for a in step[0]["actions"])
tight = read("tight")
assert tight["memory"]["fits"] is False and tight["candidates"][-1]["settings"], tight["candidates"]
assert all("total_bytes" in c or "reason" in c for c in tight["candidates"])

run, summary = read("run"), json.load(open("ckpt/summary.json"))
assert run == summary and run["batches"] == 40 and run["loss"] > 0
assert len(run["network"]["machines"]) == 2 and run["network"]["inside_machine"] > 0 and run["network"]["wrong_elements"] == 0
assert read("evaluation")["cross_entropy"] > 0
texts = read("texts")
assert texts["generations"][0]["output_tokens"] <= 4
assert abs(texts["encode_seconds"] + texts["generate_seconds"] + texts["decode_seconds"] - texts["seconds"]) < 1e-9
assert read("converted")["form"] == "Hugging Face folder" and read("imported")["form"] == "checkpoint"
assert read("converted")["parameters"] == read("imported")["parameters"] == plan["model"]["parameters"]
assert read("resharded")["ranks"] == 1 and read("checkpoints")[0]["ranks"] == 2
PYTHON
for program in "$programs"/*; do
  [[ -f $program && -x $program ]] || continue
  name=${program##*/}
  case $name in report | launch | quickstart) continue ;; checkpoint) help=$("$program" list --help) ;; *) help=$("$program" --help) ;; esac
  grep -qE -- '^ *--json' <<< "$help" || fail "$name has no --json"
done
"$programs/convert" ckpt more --json /dev/full > out 2> log && fail "a full disk is not noticed"
grep -q 'No space left' log || { cat log >&2; fail "a full disk is not named"; }
"$programs/prepare" "${prepared[@]}" --json "${text[0]}" > out 2> log && fail "an input is replaced"
grep -qF 'is what is read' log || { cat log >&2; fail "an input is replaced"; }
echo "every program's figures are one JSON document, a plan's those of its text"
