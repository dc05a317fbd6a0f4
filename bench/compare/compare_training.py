#!/usr/bin/env python3
"""Alternates train_step with PyTorch on the same machine; prints one Markdown table.

  bench/compare/compare_training.py --ours build/bench/bench_train_step \\
      --peer "PyTorch 2=python3:eager,sdpa,compile,sdpa-pure" --out bench/results/NAME.md

For each configuration all programs are started and warmed up; then they take one step each in turn
until the time for the configuration is spent. Each program's best step counts: other work on the
machine only ever adds time. Of a peer's modes the fastest in one first step is used. See README.md.
"""
import argparse
import datetime
import itertools
import json
import pathlib
import subprocess
import sys
import time

FOLDER = pathlib.Path(__file__).resolve().parent.parent
PEER = FOLDER / "peers" / "train_step.py"


class Follower:
    """A program that takes one step for each line it is sent."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        if self.process.stdout.readline().strip() != "ready":
            sys.exit(f"{' '.join(command)} did not start:\n{self.process.stderr.read()}")

    def step(self, line=""):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def finish(self):
        out, _ = self.process.communicate()
        return out.strip()


class Peer:
    def __init__(self, text):
        self.name, _, rest = text.partition("=")
        self.python, _, modes = rest.partition(":")
        self.modes = modes.split(",")
        self.version = subprocess.run([self.python, "-c", "import torch; print(torch.__version__)"],
                                      capture_output=True, text=True, check=True).stdout.strip()

    def start(self, shape, precision):
        modes = [m for m in self.modes if precision == "bf16" or not m.endswith("-pure")]
        self.follower = Follower([self.python, str(PEER), "--modes", ",".join(modes), *shape])
        first = {mode: self.follower.step(mode) for mode in modes}
        self.mode = min(first, key=first.get)
        self.seconds = [first[self.mode]]

    def step(self):
        self.seconds.append(self.follower.step(self.mode))


def compare(args, peers, form, precision, batch, length):
    model = ["--config", form] if form.endswith(".json") else ["--form", form]
    shape = [*model, "--precision", precision, "--batch", str(batch), "--length",
             str(length), "--threads", str(args.threads)]
    for peer in peers:
        peer.start(shape, precision)
    ours = Follower([args.ours, "--follow", *shape])
    begin, rounds = time.monotonic(), 0
    while rounds < 2 or time.monotonic() - begin < args.seconds:
        ours.step()
        for peer in peers:
            peer.step()
        rounds += 1
    for peer in peers:
        peer.follower.finish()
    report = json.loads(ours.finish())
    tokens = batch * length
    cells = [f"{pathlib.Path(form).stem if form.endswith('.json') else f'({form})'} {precision} {batch}×{length}", f"{report['tokens_per_second']:.0f}",
             f"{100 * report['share_of_bound']:.0f} %",
             f"{100 * report['share_of_library_bound']:.0f} %"]
    for peer in peers:
        best = tokens / min(peer.seconds)
        cells += [f"{best:.0f} ({peer.mode})", f"**{report['tokens_per_second'] / best:.2f}**"]
    return cells, report


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown processor"


def git(*arguments):
    return subprocess.run(["git", "-C", str(FOLDER), *arguments], capture_output=True,
                          text=True).stdout.strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ours", default="build/bench/bench_train_step")
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=PYTHON:MODES")
    parser.add_argument("--forms", default="a,b", help="or families' config.json, then modes are those of experts")
    parser.add_argument("--precisions", default="bf16,fp32")
    parser.add_argument("--shapes", default="4x64,1x1024,1x2048", help="batch x length")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=30, help="of alternation, each")
    parser.add_argument("--out", type=pathlib.Path, help="write the table here too")
    args = parser.parse_args()
    peers = [Peer(text) for text in args.peer]
    head = ["MPT-125M", "ParallelLM tokens/s", "of its products' bound", "of the library's"]
    for peer in peers:
        head += [f"{peer.name} tokens/s", "ratio"]
    changed = " with changes" if git("status", "--porcelain", "--", "..") else ""
    versions = ", ".join(f"{p.name} is torch {p.version}" for p in peers)
    lines = [f"{datetime.date.today()}, {processor()}, {args.threads} threads, commit "
             f"{git('rev-parse', '--short', 'HEAD')}{changed}. {versions}", "",
             "| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    print("\n".join(lines), flush=True)
    reports = []
    for shape, form, precision in itertools.product(
            args.shapes.split(","), args.forms.split(","), args.precisions.split(",")):
        batch, length = map(int, shape.split("x"))
        cells, report = compare(args, peers, form, precision, batch, length)
        reports.append(report)
        lines.append("| " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
        if args.out:
            args.out.parent.mkdir(parents=True, exist_ok=True)
            args.out.write_text("\n".join(lines) + "\n")
            args.out.with_suffix(".jsonl").write_text(
                "".join(json.dumps(r) + "\n" for r in reports))


if __name__ == "__main__":
    main()
