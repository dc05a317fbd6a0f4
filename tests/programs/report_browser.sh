#!/usr/bin/env bash
# Pages in a headless browser (report_browser.py says what is checked): a run of 50 000 batches with peaks, markup in its
# names and values that are not finite, a comparison of three, and a page without curves. 77: no browser is installed.
# usage: report_browser.sh PROGRAMS WORK [FOLDER FOR SCREENSHOTS]
set -euo pipefail
programs=$1
work=$2
driver=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/report_browser.py
screenshots=${3:+--screenshots $(realpath -m "$3")}
for browser in chromium chromium-browser google-chrome google-chrome-stable chrome none; do
  command -v "$browser" > /dev/null && break
done
[[ $browser == none ]] && { echo "skipped: no browser is installed (chromium)"; exit 77; }
rm -rf "$work"
mkdir -p "$work"
cd "$work"
python3 - << 'PYTHON'
import json, math, pathlib, random

def run(folder, name, batches, seed, rate):
    """A run as pretrain leaves one, with a loss that falls and a rank that was killed once."""
    random.seed(seed)
    saves = pathlib.Path(folder, "checkpoints")
    saves.mkdir(parents=True)
    hostile = "\x1b[31m\u202e<script>injected=1</script>\u009b" + '" onload="injected=1'
    configuration = {"run_name": name, hostile: hostile, "seed of " + name: name, "max_duration": f"{batches}ba", "optimizer.lr": str(rate), "seed": "17",
                     "model.d_model": "768", "global_train_batch_size": "256"}
    start = {"event": "start", "time": 1.79e9, "program": "pretrain", "program_seconds": 21, "run_name": name,
             "model": "mpt, 125M parameters, 12 layers × 768, ALiBi", "precision": "bf16", "ranks": 8, "nodes": 1,
             "device": "GPU", "layout": "8 data ranks, ZeRO stage 1, 1 microbatches of 32", "metrics_file": "",
             "memory_plan": {"parameters": 250e6, "gradients": 250e6, "master weights": 62e6, "optimizer states": 125e6,
                             "buffers": 50e6, "activations": 9.5e9, "scratch": 32e6},
             "notes": ["device_train_microbatch_size: auto is 32"], "configuration": configuration}
    events = [start, {"event": "train", "time": 1.79e9 + 9, "batches": 0},
              {"event": "note", "time": 1.79e9 + 99, "batch": batches // 3,
               "text": "rank 3 on <b onclick='injected=1'>node7</b> is slow: the last 50 batches took 61 s" + hostile},
              *({"event": "memory", "time": 1.79e9 + 100, "batch": batch, "device_bytes": [
                  int(13.4e9 - 4e7 * rank - 6e9 / batch) for rank in range(8)]} for batch in range(50, batches + 1, 50)),
              {"event": "end", "time": 1.79e9 + batches * .11, "batches": batches, "batches_here": batches, "stopped": False,
               "training_seconds": batches * .1, "data_wait_share": .03, "evaluation_seconds": batches * .006,
               "saving_seconds": batches * .002, "wall_clock_seconds": batches * .11 + 30}]
    (saves / "run.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    (saves / "summary.json").write_text(json.dumps(
        {"run_name": name, "tokens_per_second": 5.2e6, "mfu": .31, "peak_flops": 7.9e15, "device_memory_bytes": 13.4e9,
         "device_memory_by_rank": [13.4e9 - 4e7 * rank for rank in range(8)],
         "table_row": {"model": "MPT-125M", "evaluated_every": "1000ba", "nodes": 1, "checkpoint_bytes": 1.5e9}}))
    with open(pathlib.Path(folder, "metrics.jsonl"), "w") as file:
        for batch in range(1, batches + 1):
            part = batch / batches
            loss = 2.4 + 8.4 * math.exp(-9 * part ** .55) + random.gauss(0, .05) - .1 * rate * 1000 * part
            if batch in (batches // 2, batches * 3 // 4):
                loss += 4  # a spike
            file.write(json.dumps({
                "time/batch": batch, "time/token": batch * 524288, "time/val": part * batches * .006 / 3600,
                "time/train_seconds": batch * .1, "time/data_wait_share": .03 + .02 * math.sin(part * 40),
                "time/checkpoint_blocked": 0, "loss/train/total": None if batch == batches // 5 else loss,
                "metrics/train/TokenAccuracy": .5 - loss / 20, "l2_norm/grad/before_clipping": .3 + abs(random.gauss(0, .1)),
                "lr-DecoupledAdamW/group0": rate * min(1, part * 50) * (.55 + .45 * math.cos(math.pi * part)),
                "throughput/tokens_per_sec": 5.2e6 + random.gauss(0, 5e4),
                "throughput/device/mfu": .31 + random.gauss(0, .003), "throughput/device/mfu_causal": .3,
                "memory/current_allocated_mem": 9.9, "memory/peak_allocated_mem": 13.4,
                "memory/peak_resident_gb": 4.1}) + "\n")
            if batch % (batches // 25) == 0:
                file.write(json.dumps({"time/batch": batch, "metrics/eval/c4/LanguageCrossEntropy": loss + .06,
                                       "metrics/eval/c4/TokenAccuracy": .49 - loss / 20}) + "\n")
            if batch % (batches // 4) == 0:
                file.write(json.dumps({"time/batch": batch, "generations/0": "Once upon a time → there was <u>a rank</u> "
                                       "that waited for no other.", "generations/1": "The answer is → 42." + hostile}) + "\n")

run("long", "<img src=x onerror=\"injected=1\">long</script>", 50_000, 1, 6e-4)
run("a", "mpt-125m", 4800, 2, 6e-4)
run("b", "mpt-125m-lr1e-3", 4800, 3, 1e-3)
run("c", "mpt-125m-lr3e-4", 4000, 4, 3e-4)
run("hostile", "<script>alert(1)</script>\x1b[2J\u202egpj.exe\u2066", 400, 5, 3e-4)
pathlib.Path("bare").mkdir()
pathlib.Path("bare/summary.json").write_text(json.dumps({"run_name": "bare", "batches": 7}))
PYTHON
for page in long a bare; do "$programs/report" $page --out $page.html 2> log; done
"$programs/report" a b c --out three.html 2> log
"$programs/report" a hostile --out hostile.html --title $'<script>injected=1</script>\e[31m' 2> log
grep -q $'\e' log hostile.html && { echo "FAILED: an escape of a terminal is passed on" >&2; exit 1; }
size=$(stat -c %s long.html)
((size < 2000000)) || { echo "FAILED: the page of 50 000 batches has $size bytes" >&2; exit 1; }
python3 - << 'PYTHON'
import json, re
data = re.search(r'<script type="application/json" id="data">(.*?)</script>', open("long.html").read())
if data:
    training = next(c for c in json.loads(data[1])["charts"] if c["id"] == "loss")["series"][0]
    peaks = [x for x, y in zip(training["x"], training["y"]) if y and y > 5.5 and x > 20000]
    assert peaks == [25000, 37500], f"the peaks are lost: {peaks}"
    assert 10000 in training["x"] and training["y"][training["x"].index(10000)] is None, "a loss that is not finite"
PYTHON
served=()
if grep -q 'id="data"' three.html; then
  "$programs/report" a b c --serve 0 > address 2> log &
  trap 'kill $!' EXIT
  for ((i = 0; i < 200; ++i)); do [[ -s address ]] && break; sleep 0.05; done
  served=(--address "$(cat address)")
fi
# shellcheck disable=SC2086
python3 "$driver" long.html a.html three.html hostile.html bare.html $screenshots "${served[@]}"
