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

refused "which cluster? write cluster=h100x8x64" "$config"
refused "'h10' is not known; there are h100" "$config" cluster=h10x8
refused "'fast' is not a rate" "$config" cluster=h100x8 network=fast
refused "no layout fits on h100x1; on 16 nodes one does" "$source_root/apps/configs/mpt/30b.yaml" cluster=h100x1
"$programs/plan" --show-cluster h100 > mine.yaml || fail "--show-cluster"
plan "$config" cluster=mine.yaml:2 --json mine.json
cmp -s <(grep seconds mine.json) <(grep seconds fast.json) || fail "a cluster of a file is another than the known one"
