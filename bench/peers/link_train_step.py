#!/usr/bin/env python3
"""One rank of PyTorch's DDP or FSDP2 over gloo: the training step of train_step.py.

Rank, world, address and port are read from the environment as torchrun sets them. bf16 is autocast
under DDP and FSDP2's mixed precision (bf16 parameters, reductions in fp32). Prints "ready" and the
number of parameters, then answers every line of standard input, a number of steps, with a line of
seconds for each. All ranks must be sent the same lines.
"""
import argparse
import sys
import time

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel

from train_step import MPT


def parallel_model(args, model):
    if args.compile:
        for block in model.blocks:
            block.compile()
    if args.method == "ddp":
        options = {"bucket_cap_mb": args.bucket_mib} if args.bucket_mib else {}
        return DistributedDataParallel(model, broadcast_buffers=False, gradient_as_bucket_view=True,
                                       **options)
    policy = MixedPrecisionPolicy()
    if args.precision == "bf16":
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    mesh = dist.device_mesh.init_device_mesh("cpu", (dist.get_world_size(),))
    for block in model.blocks:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    return fully_shard(model, mesh=mesh, mp_policy=policy)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--method", choices=["ddp", "fsdp2"], required=True)
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="bf16")
    parser.add_argument("--batch", type=int, default=4, help="sequences of this rank")
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--heads", type=int, default=6)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--vocabulary", type=int, default=4096)
    parser.add_argument("--bucket-mib", type=float, default=0, help="DDP's; 0: its default")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--compile", action="store_true", help="each block")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    whole = MPT("a", args.length, args.width, args.heads, args.layers, args.vocabulary, args.length)
    parameters = sum(p.numel() for p in whole.parameters())
    model = parallel_model(args, whole)
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, betas=(0.9, 0.95), fused=True)
    torch.manual_seed(2 + dist.get_rank())
    ids = torch.randint(args.vocabulary, (args.batch, args.length))
    labels = ids.roll(-1, 1)
    autocast = args.precision == "bf16" and args.method == "ddp"

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            loss = model(ids, labels, "sdpa")
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    for _ in range(2):
        step()
    dist.barrier()
    say = print if dist.get_rank() == 0 else lambda *_, **__: None
    say("ready", parameters, flush=True)
    for line in sys.stdin:
        for _ in range(int(line)):
            begin = time.perf_counter()
            step()
            say(time.perf_counter() - begin, flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
