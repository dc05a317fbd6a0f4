#!/usr/bin/env bash
# plan and measure: the best layouts of a run on a cluster, what a slow network changes, scaling, a table of published steps, and
# what is refused.
source "$(dirname "$0")/common.sh"

config=$source_root/apps/configs/mpt/1b.yaml
plan() { "$programs/plan" "$@" > out 2> log || { cat log >&2; fail "plan $*"; }; }
refused() { # text, arguments
  local text=$1
  shift
  ! "$programs/plan" "$@" > out 2> log || fail "plan $* is not refused"
  grep -qF -- "$text" log || { cat log >&2; fail "plan $* does not say: $text"; }
}

plan "$config" cluster=h100x8x2 --json fast.json
grep -q '^mpt-1b on h100x8x2: 16 devices' out || { cat out >&2; fail "the cluster is not named"; }
grep -q 'most sensitive to the rate of matrix products' out || { cat out >&2; fail "what the plan depends on"; }
settings=$(sed -n 's/^  pretrain [^ ]* //p' out)
plan "$config" cluster=h100x8x2 network=1Gb/s --json slow.json
grep -q 'waits [0-9]* % for sums of gradients' out || { cat out >&2; fail "the slow network is not the reason"; }
plan "$config" cluster=h100x8x2 parallelism.pipeline=4 zero_stage=1 layout=file --trace trace.json
[[ $(grep -cE '^[0-3] [.FBWU]{78}$' out) == 4 ]] || { cat out >&2; fail "no drawing of the pipeline"; }
grep -q '^memory by pipeline rank: .*, .*, .*, ' out || { cat out >&2; fail "no memory by pipeline rank"; }
python3 - << 'PYTHON' || fail "the trace"
import json
events = [e for e in json.load(open("trace.json"))["traceEvents"] if e["ph"] == "X"]
assert {e["pid"] for e in events} == {0, 1, 2, 3}
by_stream = {}
for e in events:  # the actions of a stream follow each other
    by_stream.setdefault((e["pid"], e["tid"]), []).append((e["ts"], e["dur"]))
for actions in by_stream.values():
    assert all(a + d <= b + 1e-6 * b for (a, d), (b, _) in zip(sorted(actions), sorted(actions)[1:]))
PYTHON
# the settings of the best layout are a run's, which fits by the run's own plan
read -ra words <<< "$settings"
"$programs/pretrain" "$config" "${words[@]}" ranks=16 dry_run=true device_memory=77GiB > dry 2>&1 || { cat dry >&2; fail "dry run"; }
# so is the file that --write leaves, of any family and with adapters
mkdir llama qwen
cp tokenizer/* llama
cp tokenizer/* qwen
cat > llama/config.json << 'JSON'
{"model_type": "llama", "hidden_size": 2048, "num_hidden_layers": 16, "vocab_size": 128256, "num_attention_heads": 32,
 "num_key_value_heads": 8, "intermediate_size": 8192, "head_dim": 64, "max_position_embeddings": 2048, "tie_word_embeddings": true}
JSON
cat > qwen/config.json << 'JSON'
{"model_type": "qwen2", "hidden_size": 1536, "num_hidden_layers": 28, "vocab_size": 151936, "num_attention_heads": 12,
 "num_key_value_heads": 2, "intermediate_size": 8960, "max_position_embeddings": 2048, "tie_word_embeddings": true}
JSON
finetuned=$source_root/apps/configs/finetune.yaml
written() { # program, arguments of the plan
  local program=$1
  shift
  plan "$@" cluster=h100x8x2 --write "run.yaml" --json written.json
  grep -q "^  $program run.yaml" out || { cat out >&2; fail "plan $* --write does not name $program"; }
  "$programs/$program" run.yaml dry_run=true device_memory=77GiB > dry 2>&1 || { cat dry >&2; fail "the file of plan $*"; }
  grep -q '^fits: ' dry || { cat dry >&2; fail "the file of plan $* does not fit"; }
  plan run.yaml cluster=h100x8x2 layout=file --json again.json
  python3 -c 'import json; a, b = (json.load(open(f))["layouts"][0] for f in ("written.json", "again.json"))
assert a["layout"] == b["layout"] and a["seconds"] == b["seconds"], (a["layout"], b["layout"])' || fail "the file of plan $* is another run"
}
written pretrain "$config"
for model in llama qwen; do
  written finetune "$finetuned" model.name=hf_causal_lm model.pretrained_model_name_or_path=$model tokenizer.name=$model \
    train_loader.dataset.packing_ratio= max_duration=100ba eval_interval=50ba save_interval=50ba
done
written finetune "$finetuned" model.name=hf_causal_lm model.pretrained_model_name_or_path=llama tokenizer.name=llama max_duration=100ba \
  "model.peft_config={peft_type: LORA, r: 16, lora_alpha: 32, target_modules: all-linear}" train_loader.dataset.packing_ratio= eval_interval=50ba save_interval=50ba
# a training program compares its layout with the best one
compared() { # pretrain's arguments
  "$programs/pretrain" "$config" dry_run=true ranks=16 device_memory=77GiB plan=true "$@" > out 2> log || { cat log >&2; fail "pretrain plan=true $*"; }
}
compared cluster=h100x8x2 zero_stage=3 parallelism.tensor=8
grep -q '^plan: by h100x8x2 a step of this layout takes .* % more than .*; set zero_stage=' log || { cat out log >&2; fail "a slow layout is not named"; }
read -ra words <<< "$settings"
compared cluster=h100x8x2 "${words[@]}"
grep -q '^plan: by h100x8x2 no layout is much faster than this one' log || { cat out log >&2; fail "the best layout is said to be slow"; }
training_refused() { # text, arguments
  ! "$programs/pretrain" small.yaml autoresume=false max_duration=1ba "${@:2}" > out 2> log || fail "pretrain ${*:2} is not refused"
  grep -qF -- "$1" log || { cat log >&2; fail "pretrain ${*:2} does not say: $1"; }
}
# a run that trains says it, too, and computes what it computes without
for asked in "" "plan=true cluster=h100x2x1"; do
  "$programs/pretrain" small.yaml autoresume=false max_duration=2ba ranks=2 metrics_file="asked$asked.jsonl" $asked > asked 2>&1 ||
    { cat asked >&2; fail "pretrain $asked"; }
done
grep -q '^plan: by h100x2x1 ' asked || { cat asked >&2; fail "a run does not compare its layout"; }
cmp -s <(losses asked.jsonl) <(losses "askedplan=true cluster=h100x2x1.jsonl") || fail "plan=true changes the run"
training_refused "is not known; measure it by a run with measure=machine.yaml" plan=true
training_refused "plan: expected true or false, found 'perhaps'" plan=perhaps
training_refused "cluster=h100x8 has 8 devices, but the run has 2 ranks" plan=true ranks=2 cluster=h100x8
refused "--write: " "$config" cluster=h100x8 --write "$config"
plan "$config" cluster=h100x8 scale=1,2 price=2
grep -qE '^\| *2 \| *16 \|.*yes' out || { cat out >&2; fail "no scaling table"; }

python3 - << 'PYTHON' || fail "predictions contradict each other"
import json
fast, slow = (json.load(open(name))["layouts"] for name in ("fast.json", "slow.json"))
assert [x["seconds"] for x in fast] == sorted(x["seconds"] for x in fast)
assert slow[0]["seconds"] > 3 * fast[0]["seconds"]
for layout in fast + slow:
    assert abs(sum(layout["split"].values()) - layout["seconds"]) < 1e-9 * layout["seconds"]
    assert 0 < layout["mfu"] < 0.8
# between nodes of 1 Gb/s, shards of parameters over both nodes are slower than within each
data_only = [x for x in slow if "tensor" not in x["layout"] and "pipeline" not in x["layout"] and "ZeRO 3" in x["layout"]]
best = lambda layouts: min(x["seconds"] for x in layouts)
over_all = best([x for x in data_only if "replicate" not in x["layout"]])
in_node = best([x for x in data_only if "replicate" in x["layout"]])
assert in_node < over_all, (in_node, over_all)
assert any("bf16 sums" in x["layout"] for x in slow), "no layout sends gradients in bf16"
PYTHON

# one sum of all gradients in fp32 over 16 ranks of two nodes: 15/16 of them twice, an eighth of it to the other node
plan "$source_root/apps/configs/mpt/125m.yaml" cluster=h100x8x2 layout=file ranks=16 zero_stage=0 --draw --json sum.json
grep -qE '^0 F+[FB]*B+[.U]*$' out || { cat out >&2; fail "--draw"; }
python3 - << 'PYTHON' || fail "bytes by link"
import json
document = json.load(open("sum.json"))
layout, gradients = document["layouts"][0], document["run"]["checkpoint_bytes"] / 3
sent = 2 * gradients * 15 / 16
assert abs(layout["bytes_sent"]["in_node"] / sent - 1) < 1e-3, (layout["bytes_sent"], sent)
assert abs(layout["bytes_sent"]["to_nodes"] * 8 / layout["bytes_sent"]["in_node"] - 1) < 1e-9
assert layout["memory_by_pipeline_rank"] == [layout["memory_bytes"]]
assert abs(layout["waits"]["gradients"] - layout["split"]["sums"]) == 0 and layout["waits"]["values"] == 0
PYTHON

# a run on one device: its evaluation is forward passes alone, its time has parts that sum up
plan "$source_root/apps/configs/mpt/125m.yaml" cluster=h100x1x1 layout=file ranks=1 zero_stage=0 global_train_batch_size=4 \
  device_train_microbatch_size=4 device_eval_batch_size=4 eval_subset_num_batches=1 fsdp_config.activation_checkpointing=false \
  price=2 --json run.json
grep -q 'the run: 4,800 steps, .* device hours, goodput [0-9.]* %, .* at 2 an hour' out || { cat out >&2; fail "the run"; }
python3 - << 'PYTHON' || fail "the parts of the run"
import json
document = json.load(open("run.json"))
run, step = document["run"], document["layouts"][0]["seconds"]
assert 0.25 * step < run["evaluation_seconds"] < 0.4 * step, (run, step)
assert run["seconds"]["training"] == 4800 * step and run["evaluations"] == 10 and run["saves"] == 10
total = sum(run["seconds"].values())
assert abs(run["days"] * 86400 - total) < 1e-6 * total and abs(run["device_hours"] - total / 3600) < 1e-6 * total
assert abs(run["goodput"] - run["seconds"]["training"] / total) < 1e-9 and run["cost"] == 2 * run["device_hours"]
assert 12 * 124e6 < run["checkpoint_bytes"] < 12 * 126e6  # weights and two states of 4 bytes
PYTHON

# the search finds nothing slower than the best of all combinations of some settings, each predicted alone
python3 - "$programs/plan" "$source_root/apps/configs/mpt/125m.yaml" << 'PYTHON' || fail "the search misses a layout"
import itertools, json, subprocess, sys
plan, config = sys.argv[1:]
def seconds(*settings):
    command = [plan, config, "cluster=v100x4x1", "global_train_batch_size=64", *settings, "--json", "one.json"]
    if subprocess.run(command, capture_output=True).returncode: return None
    return json.load(open("one.json"))["layouts"][0]["seconds"]
best, alone = seconds(), []
for zero, tensor, pipeline, microbatch in itertools.product((0, 1, 3), (1, 2), (1, 2), (1, 4, 16)):
    for schedule, stages in (("1f1b", 1), ("zb-h1", 1), ("interleaved", 2))[:3 if pipeline > 1 else 1]:
        alone.append(seconds("layout=file", f"zero_stage={zero}", f"parallelism.tensor={tensor}", f"parallelism.pipeline={pipeline}",
                             f"parallelism.sequence_parallel={str(tensor > 1).lower()}", f"parallelism.schedule={schedule}",
                             f"parallelism.stages_per_rank={stages}", f"device_train_microbatch_size={microbatch}"))
alone = [x for x in alone if x]
assert len(alone) > 50 and best <= min(alone), (len(alone), best, min(alone))
PYTHON
# states are in the host's memory only where nothing fits without
plan "$source_root/apps/configs/mpt/7b.yaml" cluster=h100x1x1
grep -q 'offload_optimizer=true' out || { cat out >&2; fail "nothing fits on one device"; }
grep -q 'while training goes on' out || { cat out >&2; fail "there is no room for a copy of what is saved"; }
"$programs/plan" --show-cluster h100 | sed 's/memory: 2TB/memory: 100GB/; s/devices: 8/devices: 1/' > host.yaml
plan "$source_root/apps/configs/mpt/7b.yaml" cluster=host.yaml:1  # 80 GB of states on the host, and as many of a copy
grep -q 'while training stands' out || { cat out >&2; fail "a copy has no room on the host"; }
sed -i 's/memory: 100GB/memory: 60GB/' host.yaml
refused "no layout fits on host.yaml:1" "$source_root/apps/configs/mpt/7b.yaml" cluster=host.yaml:1
refused "for what a rank moves there, but a rank's share of node.memory is 55.9 GiB" "$source_root/apps/configs/mpt/7b.yaml" \
  cluster=host.yaml:1 layout=file offload_optimizer=true
plan "$source_root/apps/configs/mpt/7b.yaml" cluster=h100x2x1
! grep -q 'states on the host' out || { cat out >&2; fail "states on the host where they need not be"; }

# the costs of another program make a run longer
plan "$config" cluster=h100x8x2 layout=file program=llm-foundry --json other.json
plan "$config" cluster=h100x8x2 layout=file --json own.json
python3 -c 'import json; a, b = (json.load(open(f))["layouts"][0]["seconds"] for f in ("other.json", "own.json")); assert 1.1 * b < a < 3 * b' ||
  fail "the costs of a program"
refused "program=nobody: its costs on h100 are not known; there are those of IST-DASLab/llmq, mosaicml/llm-foundry" "$config" cluster=h100x8 program=nobody

cat > published.csv <<'CSV'
source,model,params,layers,hidden,seq,gpu,gpus,dp,tp,pp,cp,ep,zero,micro_batch,global_batch,precision,recompute,step_s,notes
someone/trainer@1:page,mpt 1b,,24,2048,2048,H100-80GB,8,8,1,1,1,,3,8,512,bf16,none,2.0,
someone/trainer@1:page,mpt 1b,,24,2048,2048,H100-80GB,16,16,1,1,1,,3,8,1024,bf16,none,2.1,
someone/trainer@1:page,mpt 1b,,24,2048,2048,H100-80GB,16,8,1,1,1,,3,8,1024,bf16,none,2.1,
someone/trainer@1:page,mpt 1b,,24,2048,2048,H100-80GB,16,16,1,1,1,,3,8,1024,bf16,none,0.1,
someone/trainer@1:page,mpt 1b,,24,2048,2048,H100-80GB,8,8,1,1,1,,3,8,512,bf16,none,2.0,lora
someone/trainer@1:page,mpt 1b,,24,2048,2048,H100-80GB,8,4,1,1,2,,3,8,512,bf16,none,2.0,context
someone/trainer@1:page,mpt 1b,,24,2048,2048,H100-80GB,8,8,1,1,1,,3,8,512,fp8,none,2.0,
someone/trainer@1:page,gpt 1b,,24,2048,2048,H100-80GB,8,4,2,1,1,,1,8,512,bf16,none,2.0,
someone/trainer@1:page,gpt-like 1b,1.3e9,,,2048,H100-80GB,8,8,1,1,1,,3,8,512,bf16,none,2.0,
CSV
plan check published.csv --json check.json
grep -q '1 rows not predicted: its degrees multiply to 8, but it has 16 GPUs' out || { cat out >&2; fail "degrees"; }
grep -q '1 rows not predicted: its step is faster than the peak of its GPUs allows' out || { cat out >&2; fail "peak"; }

python3 - << 'PYTHON' || fail "rows of a table contradict each other"
import json
rows = json.load(open("check.json"))["rows"]
assert len(rows) == 7, rows
full, _, lora, context, fp8, tensor, derived = rows
assert 0.6 < lora["products"] / full["products"] < 0.75  # no gradients of frozen weights
assert context["attention"] > 0.5 * full["attention"]
assert 0.5 < fp8["products"] / full["products"] < 0.75  # the blocks in fp8, the head in bf16
assert tensor["axes"] > 0.03 * tensor["products"]  # others' products wait for tensor exchanges
assert fp8["elements"] > full["elements"]  # casts
assert derived["gpu"] == "h100, derived size"
PYTHON

# a layout of 10 000 ranks, whose first stages have 80 microbatches under way
plan "$source_root/apps/configs/mpt/70b.yaml" cluster=h100x8x1250 parallelism.tensor=8 parallelism.pipeline=10 zero_stage=1 \
  global_train_batch_size=10000 device_train_microbatch_size=1 layout=file --json large.json
grep -q '10000 devices' out || { cat out >&2; fail "10 000 ranks"; }
python3 -c 'import json; [x] = json.load(open("large.json"))["layouts"]; assert 0.1 < x["mfu"] < 0.8, x' || fail "10 000 ranks"

# tables of layouts that fit or do not, and of allocated bytes
cat > fits.csv << 'CSV'
source,model,layers,hidden,seq,gpu,gpus,dp,tp,pp,zero,mbs,gbs,precision,recompute,outcome,notes
someone/trainer@1:page,llama 13b,40,5120,2048,A100-80GB,64,64,1,1,0,1,2048,bf16,none,OOM,
someone/trainer@1:page,llama 13b,40,5120,2048,A100-80GB,64,8,8,1,1,1,2048,bf16,blocks,fits,
someone/trainer@1:page,llama 13b,40,5120,2048,A100-80GB,64,8,8,1,1,1,2048,bf16,blocks,crashed,
CSV
plan check fits.csv --json fits.json
grep -q '1 rows not predicted: its outcome is crashed, neither fits nor OOM' out || { cat out >&2; fail "outcome"; }
cat > memory.csv << 'CSV'
source,case,platform,layers,hidden,heads,seq,experts,tp,pp,cp,sp,dist_optimizer,micro_batch,global_batch,precision,recompute,mem_allocated_bytes,mem_max_allocated_bytes
NVIDIA/Megatron-LM@1:a,gpt3_resume,dev_dgx_h100,12,512,8,1024,,1,1,1,,true,4,32,bf16,,581489664,2700000000
NVIDIA/Megatron-LM@1:a,gpt3_resume,dev_dgx_h100,12,512,8,1024,,2,1,1,,true,4,,bf16,,300000000,1500000000
NVIDIA/Megatron-LM@1:a,gpt3_moe,dev_dgx_h100,12,512,8,1024,8,1,1,1,,true,4,32,bf16,,1,1
NVIDIA/Megatron-LM@1:a,t5_resume,dev_dgx_h100,12,512,8,1024,,1,1,1,,true,4,32,bf16,,1,1
CSV
plan check memory.csv --json memory.json
grep -q 'Megatron-LM | H100-80GB, width 512' out || { cat out >&2; fail "no table of allocated bytes"; }
grep -q '1 rows not predicted: its model is no GPT' out || { cat out >&2; fail "a model that is no GPT"; }
python3 - << 'PYTHON' || fail "predicted memory"
import json
outcomes = [(r["fits"], r["predicted_share"] <= 1) for r in json.load(open("fits.json"))["layouts"]]
assert outcomes == [(False, False), (True, True)], outcomes
first, second = json.load(open("memory.json"))["allocated"]
# bf16 values, fp32 gradients and states of 12 bytes over 8 GPUs: parameters of 12 blocks, words and positions
parameters = 12 * (12 * 512**2 + 13 * 512) + (50304 + 1024 + 2) * 512
[rank] = first["ranks"]
assert rank["value_bytes"] == 2 * parameters and rank["gradients"] == parameters, (rank, parameters)
assert abs(rank["states"] - parameters / 8) <= 64, rank
assert rank["logits"] == 4 * 1024 * 50304 and rank["scores"] == 12 * 4 * 8 * 1024**2, rank
assert 2.4e9 < first["predicted"] < 3e9, first
assert second["ranks"][0]["states"] < parameters / 2, second  # found from the bytes between steps
PYTHON

refused "which cluster? write cluster=h100x8x64" "$config"
refused "'h10' is not known; there are h100" "$config" cluster=h10x8
refused "'fast' is not a rate" "$config" cluster=h100x8 network=fast
refused "no layout fits on h100x1; on 4 nodes one does" "$source_root/apps/configs/mpt/30b.yaml" cluster=h100x1
"$programs/plan" --show-cluster h100 > mine.yaml || fail "--show-cluster"
sed 's/node_days: [0-9]*/node_days: 0.001/' mine.yaml > broken.yaml
refused "it would not end; try save_interval=" "$config" cluster=broken.yaml:2
plan "$config" cluster=mine.yaml:2 --json mine.json
cmp -s <(grep seconds mine.json) <(grep seconds fast.json) || fail "a cluster of a file is another than the known one"

# The machine at hand: described by a short run, planned, and a run that compares its steps with the plan.
sed -e 's/^device_train_microbatch_size:.*/device_train_microbatch_size: 6/' -e 's/^max_duration:.*/max_duration: 41ba/' \
  -e 's/^autoresume:.*/autoresume: false/' -e 's/^save_interval:.*/save_interval: 41ba/' small.yaml > run.yaml

"$programs/pretrain" run.yaml ranks=2 zero_stage=0 measure=machine.yaml save_folder=ckpt > out 2>&1 || { cat out >&2; fail "measure"; }
grep -q 'measured: plan run.yaml cluster=machine.yaml:1' out || { cat out >&2; fail "what to do with the file is not said"; }
[[ ! -e ckpt ]] || fail "a run that measures has saved"
"$programs/plan" run.yaml cluster=machine.yaml > plan.txt 2>&1 || { cat plan.txt >&2; fail "plan on the measured machine"; }
grep -q 'machine.yaml: 2 devices' plan.txt || { cat plan.txt >&2; fail "the machine has two devices"; }
# another size is added to the file
before=$(grep -c '^        - \[' machine.yaml)
"$programs/pretrain" run.yaml ranks=2 model.d_model=64 zero_stage=0 measure=machine.yaml > out 2>&1 || { cat out >&2; fail "second measure"; }
(($(grep -c '^        - \[' machine.yaml) > before)) || fail "the second size adds no products"

"$programs/pretrain" run.yaml ranks=2 zero_stage=0 cluster=machine.yaml save_folder=ckpt metrics_file=metrics.jsonl > out 2>&1 \
  || { cat out >&2; fail "a run on a known machine"; }
grep -qE 'predicted [0-9.e-]+ s a step, measured [0-9.e-]+ s' out || { cat out >&2; fail "no comparison"; }
python3 - << 'PYTHON' || fail "the numbers of the comparison"
import json
rows = [json.loads(line) for line in open("metrics.jsonl")]
with_numbers = [r["time/batch"] for r in rows if "predicted/step_seconds" in r]
assert with_numbers == [5, 22], with_numbers  # after batches 2 to 4, and after the 21st, together
last = rows[21]
parts = [k for k in last if k.startswith("measured/") and k != "measured/step_seconds"]
assert abs(sum(last[k] for k in parts) - last["measured/step_seconds"]) < 1e-6 + 0.01 * last["measured/step_seconds"], last
summary = json.load(open("ckpt/summary.json"))["prediction"]
assert summary["predicted_by_operation"]["matmul"] > 0 and summary["measured_by_operation"]["matmul"] > 0
PYTHON
"$programs/plan" run.yaml cluster=ckpt/machine.yaml > plan.txt 2>&1 || { cat plan.txt >&2; fail "plan from the run's own rates"; }
"$programs/report" ckpt --out page.html > out 2>&1 || { cat out >&2; fail "report"; }
grep -q 'Predicted and measured' page.html || fail "the page has no section of the prediction"

! "$programs/pretrain" run.yaml ranks=4 cluster=machine.yaml > out 2>&1 || fail "more ranks than devices are not refused"
grep -q 'machine.yaml has 2 devices, but the run has 4 ranks' out || { cat out >&2; fail "the refusal"; }
# one device has no links, which a plan of more nodes asks for
"$programs/pretrain" run.yaml ranks=1 measure=one.yaml > out 2>&1 || { cat out >&2; fail "measure of one rank"; }
plan run.yaml cluster=one.yaml
plan run.yaml cluster=one.yaml:2 network=1Gb/s
refused "'one.yaml:2' has 2 nodes, but the description has no node.between" run.yaml cluster=one.yaml:2
