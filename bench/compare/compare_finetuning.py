#!/usr/bin/env python3
"""Alternates finetune with PyTorch and PEFT on the same rows, whole models and LoRA; prints a Markdown table.

  bench/compare/compare_finetuning.py build/apps/finetune MODEL --python ref/bin/python [--precision bf16] [--turns 3]

MODEL: a Hugging Face folder of an MPT that transformers represents, with its tokenizer. The rows are made here: prompts
and responses of one length, so that no program pads. In each turn every program takes a few steps; its best one
counts, the first apart: other work on the machine only ever adds time.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

PEER = pathlib.Path(__file__).resolve().parent.parent / "peers" / "finetune.py"

YAML = """
run_name: bench
max_seq_len: {length}
model: {{name: hf_causal_lm, pretrained_model_name_or_path: {model}{lora}}}
tokenizer: {{name: {model}}}
train_loader: {{name: finetuning, dataset: {{hf_name: {rows}, split: train, shuffle: false, decoder_only_format: true}}}}
scheduler: {{name: constant_with_warmup, t_warmup: 0ba}}
optimizer: {{name: decoupled_adamw, lr: 1.0e-4}}
algorithms: {{gradient_clipping: {{clipping_type: norm, clipping_threshold: 1.0}}}}
max_duration: {steps}ba
eval_interval: 0ba
global_train_batch_size: {batch}
device_train_microbatch_size: {batch}
precision: {precision}
log_to_console: false
"""


def run(command):
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"{' '.join(command)}:\n{result.stderr}")
    return result.stdout


def ours(args, folder, lora):
    file, metrics = folder / "run.yaml", folder / "metrics.jsonl"
    metrics.unlink(missing_ok=True)
    adapters = (f", peft_config: {{r: {lora}, lora_alpha: {2 * lora}, target_modules: all-linear}}" if lora else "")
    file.write_text(YAML.format(length=args.length, model=args.model.resolve(), rows=folder, steps=args.steps, batch=args.batch,
                                precision="amp_bf16" if args.precision == "bf16" else "fp32", lora=adapters))
    run([str(args.ours), str(file), f"metrics_file={metrics}"])
    at = [json.loads(line)["time/train_seconds"] for line in metrics.read_text().splitlines()]
    return [b - a for a, b in zip(at, at[1:])]


def theirs(args, folder, lora):
    out = run([args.python, str(PEER), str(args.model), str(folder / "train.jsonl"), "--steps", str(args.steps), "--batch",
               str(args.batch), "--precision", args.precision, "--lora", str(lora)])
    steps = [json.loads(line) for line in out.splitlines()]
    assert all(step["tokens"] == args.batch * args.length for step in steps), steps
    return [step["seconds"] for step in steps[1:]]


def write_rows(args, folder):
    """Rows of `length` tokens of which the second half is the response: words that the tokenizer has whole."""
    words = json.loads((args.model / "tokenizer.json").read_text())["model"]["vocab"]
    whole = [w for w in words if w.startswith("Ġ") and w[1:].isascii() and w[1:].isalpha()]
    spaced = [" " + w[1:] for w in sorted(whole)]
    with open(folder / "train.jsonl", "w") as file:
        for row in range(4 * args.batch):
            text = [spaced[(31 * row + 7 * i) % len(spaced)] for i in range(args.length)]
            half = args.length // 2
            file.write(json.dumps({"prompt": "".join(text[:half]), "response": "".join(text[half:])}) + "\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("ours", type=pathlib.Path)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="bf16")
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--rank", type=int, default=16)
    args = parser.parse_args()
    best = {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_rows(args, folder)
        for _ in range(args.turns):
            for lora in (0, args.rank):
                for program in (ours, theirs):
                    seconds = min(program(args, folder, lora))
                    best[lora, program] = min(seconds, best.get((lora, program), seconds))
    tokens = args.batch * args.length
    print(f"| {args.precision}, {args.batch}×{args.length} | finetune | PyTorch, PEFT | |\n|---|---|---|---|")
    for lora in (0, args.rank):
        a, b = best[lora, ours], best[lora, theirs]
        print(f"| {f'LoRA, rank {lora}' if lora else 'all weights'} | {tokens / a:.0f} tokens/s | {tokens / b:.0f} tokens/s "
              f"| {b / a:.2f}× |")


if __name__ == "__main__":
    main()
