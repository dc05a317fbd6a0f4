#!/usr/bin/env python3
"""The same training step in PyTorch, for comparison: MPT written in plain torch modules.

A step is forward, backward, clipping and AdamW, with random weights and tokens. Modes:
  eager     attention with materialised scores
  sdpa      scaled_dot_product_attention; ALiBi is its additive mask
  compile   torch.compile of sdpa
With --config a family's config.json, transformers' model of it; the modes are then its implementations
of experts (eager, batched_mm, grouped_mm), with +compile for torch.compile of the whole.

Precision bf16 is autocast over fp32 weights; `pure` keeps weights and AdamW's states in bf16 too
(less work and memory than training needs for the same result, but some people do it).

Prints "ready" and then answers every line of standard input, a mode's name, with the seconds of
one step of it. Works with torch 1.13 (eager only) and later.
"""
import argparse
import json
import math
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


def alibi_slopes(heads, bias_max=8):
    power = 2 ** math.ceil(math.log2(heads))
    slopes = [2 ** (-i * bias_max / power) for i in range(1, power + 1)]
    return torch.tensor(slopes if power == heads else (slopes[1::2] + slopes[::2])[:heads])


class Attention(nn.Module):
    def __init__(self, width, heads, bias):
        super().__init__()
        self.heads = heads
        self.Wqkv = nn.Linear(width, 3 * width, bias=bias)
        self.out_proj = nn.Linear(width, width, bias=bias)

    def forward(self, x, mask, kind):
        batch, length, width = x.shape
        q, k, v = self.Wqkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        if kind == "eager":
            scores = q @ k.transpose(-1, -2) * (1 / math.sqrt(q.shape[-1])) + mask
            y = torch.softmax(scores, -1).to(v.dtype) @ v
        elif mask is None:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask.to(q.dtype))
        return self.out_proj(y.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width, heads, bias):
        super().__init__()
        self.norm_1 = nn.LayerNorm(width)
        self.attn = Attention(width, heads, bias)
        self.norm_2 = nn.LayerNorm(width)
        self.up_proj = nn.Linear(width, 4 * width, bias=bias)
        self.down_proj = nn.Linear(4 * width, width, bias=bias)
        if not bias:
            self.norm_1.bias = self.norm_2.bias = None

    def forward(self, x, mask, kind):
        x = x + self.attn(self.norm_1(x), mask, kind)
        return x + self.down_proj(F.gelu(self.up_proj(self.norm_2(x))))


class MPT(nn.Module):
    """Form a: learned positions and biases; form b: ALiBi and no bias."""

    def __init__(self, form, length, width=768, heads=12, layers=12, vocabulary=None,
                 positions=2048):
        super().__init__()
        bias = form == "a"
        self.wte = nn.Embedding(vocabulary or (50368 if bias else 50432), width)
        self.wpe = nn.Embedding(positions, width) if bias else None
        self.blocks = nn.ModuleList(Block(width, heads, bias) for _ in range(layers))
        self.norm_f = nn.LayerNorm(width)
        if not bias:
            self.norm_f.bias = None
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)
        at = torch.arange(length)
        apart = at[:, None] - at[None, :]
        mask = torch.zeros(1, 1, length, length)
        if not bias:
            mask = -alibi_slopes(heads)[None, :, None, None] * apart
        self.register_buffer("eager_mask", mask.masked_fill(apart < 0, -math.inf), False)
        self.sdpa_mask = None if bias else self.eager_mask

    def forward(self, ids, labels, kind):
        x = self.wte(ids)
        if self.wpe is not None:
            x = x + self.wpe.weight[: ids.shape[1]]
        mask = self.eager_mask if kind == "eager" else self.sdpa_mask
        for block in self.blocks:
            x = block(x, mask, kind)
        logits = F.linear(self.norm_f(x), self.wte.weight)
        return F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())


def family_model(args, kind):
    """transformers' model of a family, and a function of ids and labels that gives its loss."""
    import transformers

    implementation, _, compiled = kind.partition("+")
    config = transformers.AutoConfig.from_pretrained(args.config)
    config._experts_implementation = implementation
    config.use_cache = False
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="sdpa")
    call = torch.compile(model) if compiled else model

    def loss_of(ids, labels, _):
        logits = call(input_ids=ids).logits
        return F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())

    return model, loss_of, config.vocab_size


def make_step(args, kind, pure):
    torch.manual_seed(1)
    if args.config:
        model, call, vocabulary = family_model(args, kind)
    else:
        model = MPT(args.form, args.length)
        call = torch.compile(model) if kind == "compile" else model
        vocabulary = model.wte.num_embeddings
    if pure:
        model = model.bfloat16()
    fused = {"foreach": True} if torch.__version__ < "2.4" else {"fused": True}
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, betas=(0.9, 0.95), **fused)
    ids = torch.randint(vocabulary, (args.batch, args.length))
    labels = ids.roll(-1, 1)
    clock = time.process_time if args.processor_time else time.perf_counter
    autocast = args.precision == "bf16" and not pure

    def step():
        begin = clock()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            loss = call(ids, labels, kind)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return clock() - begin

    return step


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--form", choices="ab", default="a")
    parser.add_argument("--config", help="a family's config.json")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="bf16")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--processor-time", action="store_true", help="with --threads 1")
    parser.add_argument("--modes", default="eager", help="eager,sdpa,compile and eager-pure, ...")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    steps = {}
    for mode in args.modes.split(","):
        kind, _, pure = mode.partition("-")
        steps[mode] = make_step(args, kind, pure == "pure")
        for _ in range(2 if "compile" in kind else 1):
            steps[mode]()
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(steps[line.strip()]()), flush=True)


if __name__ == "__main__":
    main()
