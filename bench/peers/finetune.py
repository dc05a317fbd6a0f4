#!/usr/bin/env python3
"""Finetunes transformers' MPT by PyTorch, whole or with PEFT's LoRA; prints the seconds of each step.

  bench/peers/finetune.py MODEL ROWS.jsonl --steps 4 --batch 4 --precision bf16 [--lora 16]

The same work as `finetune` on the same rows: a prompt's labels are not trained on, gradients are clipped by norm, AdamW.
Rows are of equal length (compare_finetuning.py makes such), so nothing is padded. Precision bf16 is autocast over fp32 weights.
"""
import argparse
import contextlib
import json
import time

import tokenizers
import torch
import transformers


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("rows")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="bf16")
    parser.add_argument("--lora", type=int, default=0)
    parser.add_argument("--threads", type=int, default=0)
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    words = tokenizers.Tokenizer.from_file(args.model + "/tokenizer.json")
    rows = [json.loads(line) for line in open(args.rows)]
    model = transformers.MptForCausalLM.from_pretrained(args.model, dtype=torch.float32)
    model.config.use_cache = False
    if args.lora:
        from peft import LoraConfig, get_peft_model
        model = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", r=args.lora, lora_alpha=2 * args.lora,
                                                 target_modules=["Wqkv", "out_proj", "up_proj", "down_proj"]))
    model.train()
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-4, fused=True)
    autocast = (torch.autocast("cpu", torch.bfloat16) if args.precision == "bf16" else contextlib.nullcontext())
    for step in range(args.steps):
        some = [rows[(step * args.batch + i) % len(rows)] for i in range(args.batch)]
        prompts = [words.encode(row["prompt"]).ids for row in some]
        answers = [words.encode(row["response"]).ids for row in some]
        ids = torch.tensor([p + a for p, a in zip(prompts, answers)])
        labels = torch.tensor([[-100] * len(p) + a for p, a in zip(prompts, answers)])
        begin = time.monotonic()
        with autocast:
            loss = model(input_ids=ids, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        print(json.dumps({"seconds": time.monotonic() - begin, "tokens": ids.numel(), "loss": loss.item()}), flush=True)


if __name__ == "__main__":
    main()
