#!/usr/bin/env bash
# measure: a machine described by a short run, plans from it, a run that compares its steps with the plan, and what is
# refused.
source "$(dirname "$0")/common.sh"

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
! "$programs/pretrain" run.yaml ranks=1 measure=one.yaml > out 2>&1 || fail "one rank is not refused"
grep -q 'give it two or more ranks' out || { cat out >&2; fail "the refusal of one rank"; }
