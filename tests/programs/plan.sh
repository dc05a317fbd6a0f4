#!/usr/bin/env bash
# plan: the best layouts of a run on a cluster, what a slow network changes, scaling, a table of published steps, and
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
PYTHON

cat > published.csv <<'CSV'
source,model,params,layers,hidden,seq,gpu,gpus,dp,tp,pp,cp,ep,zero,micro_batch,global_batch,precision,recompute,step_s,notes
someone/trainer@1:page,mpt 1b,,24,2048,2048,H100-80GB,8,8,1,1,1,,3,8,512,bf16,none,2.0,
someone/trainer@1:page,mpt 1b,,24,2048,2048,H100-80GB,16,16,1,1,1,,3,8,1024,bf16,none,2.1,
someone/trainer@1:page,mpt 1b,,24,2048,2048,H100-80GB,16,8,1,1,1,,3,8,1024,bf16,none,2.1,
someone/trainer@1:page,mpt 1b,,24,2048,2048,H100-80GB,16,16,1,1,1,,3,8,1024,bf16,none,0.1,
CSV
plan check published.csv --json check.json
grep -q '1 rows not predicted: its degrees multiply to 8, but it has 16 GPUs' out || { cat out >&2; fail "degrees"; }
grep -q '1 rows not predicted: its step is faster than the peak of its GPUs allows' out || { cat out >&2; fail "peak"; }
python3 -c 'import json; rows = json.load(open("check.json"))["rows"]; assert len(rows) == 2, rows' || fail "two rows"

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
refused "no layout fits on h100x1; on 16 nodes one does" "$source_root/apps/configs/mpt/30b.yaml" cluster=h100x1
"$programs/plan" --show-cluster h100 > mine.yaml || fail "--show-cluster"
plan "$config" cluster=mine.yaml:2 --json mine.json
cmp -s <(grep seconds mine.json) <(grep seconds fast.json) || fail "a cluster of a file is another than the known one"
