#!/usr/bin/env python3
"""MPT's training step in PyTorch on one GPU, for comparison with gpu_step: the same arguments, the
same answers. A step is forward, backward, clipping and fused AdamW, bf16 by autocast over fp32
weights. Modes:
  compile       torch.compile; form b by flex_attention with ALiBi as its score_mod, form a by SDPA
  transformers  MptForCausalLM as it is, eager (it has form b only)

Warms up, runs steps for --seconds (one step at least), and prints one JSON line. With --text FILE
it trains on a file's bytes, as gpu_step does.
"""
import argparse
import json
import math
import statistics
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

SIZES = {"125m": (768, 12, 12), "350m": (1024, 16, 24), "760m": (1536, 12, 24),
         "1b": (2048, 16, 24), "3b": (2560, 20, 32), "7b": (4096, 32, 32)}
PEAK = {"H200": 989.4e12, "H100 PCIe": 756.5e12, "H100": 989.4e12, "A100": 312e12}


def alibi_slopes(heads, bias_max=8):
    power = 2 ** math.ceil(math.log2(heads))
    slopes = [2 ** (-i * bias_max / power) for i in range(1, power + 1)]
    return torch.tensor(slopes if power == heads else (slopes[1::2] + slopes[::2])[:heads])


class Block(nn.Module):
    def __init__(self, width, heads, bias):
        super().__init__()
        self.heads = heads
        self.norm_1 = nn.LayerNorm(width, bias=bias)
        self.Wqkv = nn.Linear(width, 3 * width, bias=bias)
        self.out_proj = nn.Linear(width, width, bias=bias)
        self.norm_2 = nn.LayerNorm(width, bias=bias)
        self.up_proj = nn.Linear(width, 4 * width, bias=bias)
        self.down_proj = nn.Linear(4 * width, width, bias=bias)

    def forward(self, x, attend):
        batch, length, width = x.shape
        qkv = self.Wqkv(self.norm_1(x)).view(batch, length, 3, self.heads, -1)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        y = attend(q, k, v).transpose(1, 2).reshape(batch, length, width)
        x = x + self.out_proj(y)
        return x + self.down_proj(F.gelu(self.up_proj(self.norm_2(x))))


class MPT(nn.Module):
    """Form a: learned positions and biases; form b: ALiBi and no bias."""

    def __init__(self, form, length, width, heads, layers):
        super().__init__()
        bias = form == "a"
        self.wte = nn.Embedding(50368 if bias else 50432, width)
        self.wpe = nn.Embedding(length, width) if bias else None
        self.blocks = nn.ModuleList(Block(width, heads, bias) for _ in range(layers))
        self.norm_f = nn.LayerNorm(width, bias=bias)
        self.register_buffer("slopes", alibi_slopes(heads), False)
        self.mask = None  # of form b, made once, outside of what is compiled
        self.initialise(width, layers)

    def initialise(self, width, layers):
        """LLM Foundry's kaiming_normal_, projections onto the residual stream divided."""
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                std = math.sqrt(2 / parameter.shape[1])
                if "out_proj" in name or "down_proj" in name:
                    std /= math.sqrt(2 * layers)
                nn.init.normal_(parameter, std=std)
            elif "bias" in name:
                nn.init.zeros_(parameter)

    def attend(self, q, k, v):
        if self.wpe is not None:
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)
        from torch.nn.attention.flex_attention import flex_attention
        slopes = self.slopes
        return flex_attention(q, k, v, block_mask=self.mask,
                              score_mod=lambda s, b, h, i, j: s + slopes[h] * (j - i))

    def forward(self, ids, labels):
        x = self.wte(ids)
        if self.wpe is not None:
            x = x + self.wpe.weight[: ids.shape[1]]
        x = x.to(torch.bfloat16)  # the residual stream, as ours
        for block in self.blocks:
            x = block(x, self.attend)
        logits = F.linear(self.norm_f(x), self.wte.weight)
        return F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())


def transformers_model(args, width, heads, layers):
    import transformers
    if args.form == "a":
        sys.exit("transformers has no MPT of form a")
    config = transformers.MptConfig(  # ALiBi and no bias are its defaults
        d_model=width, n_heads=heads, n_layers=layers, vocab_size=50432,
        max_seq_len=args.length, use_cache=False)
    with torch.device("cuda"):  # 7B would take minutes to initialise on the CPU
        model = transformers.MptForCausalLM(config).cuda()

    def loss_of(ids, labels):
        logits = model(ids).logits
        return F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())
    return model, loss_of


class Training:
    def __init__(self, args):
        self.args = args
        torch.manual_seed(args.seed)
        torch.set_float32_matmul_precision("high")
        width, heads, layers = SIZES[args.size]
        self.width, self.layers = width, layers
        if args.mode == "transformers":
            self.model, self.loss_of = transformers_model(args, width, heads, layers)
        else:
            with torch.device("cuda"):
                self.model = MPT(args.form, args.length, width, heads, layers)
            if args.form == "b":
                from torch.nn.attention.flex_attention import create_block_mask
                self.model.mask = create_block_mask(lambda b, h, i, j: i >= j, None, None,
                                                    args.length, args.length, device="cuda")
            self.loss_of = torch.compile(self.model)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=6e-4, betas=(0.9, 0.95),
                                           eps=1e-8, weight_decay=0, fused=True)

    def step(self, ids, factor=1.0):
        """(seconds, mean loss) of one update with ids [accumulation, microbatch, length]."""
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for group in self.optimizer.param_groups:
            group["lr"] = 6e-4 * factor
        self.optimizer.zero_grad(set_to_none=True)
        total = torch.zeros((), device="cuda")
        for part in ids:
            labels = torch.full_like(part, -100)
            labels[:, :-1] = part[:, 1:]
            with torch.autocast("cuda", torch.bfloat16):
                loss = self.loss_of(part, labels) / len(ids)
            loss.backward()
            total += loss.detach()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        torch.cuda.synchronize()
        return time.perf_counter() - begin, total.item()

    def report(self, seconds):
        args = self.args
        tokens = args.microbatch * args.accumulation * args.length
        rate = tokens / statistics.median(seconds)
        parameters = sum(p.numel() for p in self.model.parameters())
        attention = 12 * self.layers * self.width * args.length
        name = torch.cuda.get_device_name()
        peak = next((flops for part, flops in PEAK.items() if part in name), 0)
        return {"program": "PyTorch " + torch.__version__, "mode": args.mode, "size": args.size,
                "form": args.form, "length": args.length, "microbatch": args.microbatch,
                "accumulation": args.accumulation, "parameters": parameters,
                "steps": len(seconds), "milliseconds": 1e3 * statistics.median(seconds),
                "best_milliseconds": 1e3 * min(seconds), "worst_milliseconds": 1e3 * max(seconds),
                "tokens_per_second": rate,
                "mfu": rate * (6 * parameters + attention) / peak if peak else 0,
                "mfu_causal": rate * (6 * parameters + attention / 2) / peak if peak else 0,
                "peak_bytes": torch.cuda.max_memory_allocated()}


def measure(args, training):
    ids = torch.randint(50257, (args.accumulation, args.microbatch, args.length), device="cuda")
    for _ in range(3):
        training.step(ids)
    end = time.perf_counter() + args.seconds
    seconds = [training.step(ids)[0]]
    while time.perf_counter() < end:
        seconds.append(training.step(ids)[0])
    print(json.dumps(training.report(seconds)), flush=True)


def train(args, training):
    with open(args.text, "rb") as file:
        text = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8)
    tokens = args.microbatch * args.accumulation * args.length
    seconds, losses = [], []
    for step in range(args.steps):
        at = torch.arange(step * tokens, (step + 1) * tokens) % len(text)
        ids = text[at].long().cuda().view(args.accumulation, args.microbatch, args.length)
        spent, loss = training.step(ids, min(1.0, (step + 1) / 100))
        seconds.append(spent)
        losses.append(loss)
    print(json.dumps({**training.report(seconds), "seed": args.seed, "losses": losses}))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mode", choices=["compile", "transformers"], default="compile")
    parser.add_argument("--size", choices=SIZES, default="125m")
    parser.add_argument("--form", choices="ab", default="b")
    parser.add_argument("--length", type=int, default=2048)
    parser.add_argument("--microbatch", type=int, default=16)
    parser.add_argument("--accumulation", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--text")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    training = Training(args)
    if args.text:
        train(args, training)
    else:
        measure(args, training)


if __name__ == "__main__":
    main()
