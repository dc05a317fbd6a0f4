#!/usr/bin/env python3
"""Runs a benchmark and its peers alternately and prints a Markdown table with ratios.

  compare.py BUILD tokenizer --tokenizer FOLDER [--tokenizer ...] NAME=FILE[,FILE...] ...
  compare.py BUILD loader MDS_FOLDER

BUILD is the build folder; run it with a Python that has the peers' packages. Texts are files of any
kind; they are cut into documents of about 16 KiB (JSON lines: their "text"), at most --bytes of
them. Every program runs once a round in turn; the best of --rounds counts, in processor time.
"""
import argparse
import datetime
import gzip
import json
import pathlib
import platform
import subprocess
import sys
import tempfile

here = pathlib.Path(__file__).resolve().parent.parent


class Program:
    """A benchmark that waits for its turn."""

    def __init__(self, *command):
        self.process = subprocess.Popen([str(c) for c in command], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.result = self.read()
        self.seconds = []

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{self.process.args} ended early")
        return json.loads(line)

    def turn(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        self.seconds.append(self.read()["seconds"])

    def best(self):
        return min(self.seconds)


def alternate(programs, rounds):
    for _ in range(rounds):
        for program in programs:
            program.turn()
    for program in programs:
        program.process.stdin.close()
        program.process.wait()


def documents(files, limit):
    """Pieces of about 16 KiB; a JSON row's "text" is one document."""
    total = 0
    for name in files:
        data = (gzip.open(name) if name.endswith(".gz") else open(name, "rb")).read()
        if name.removesuffix(".gz").endswith((".json", ".jsonl")):
            rows = [row for row in data.split(b"\n") if row.strip()]
            texts = (json.loads(row)["text"] for row in rows)
        else:
            whole = data.decode(errors="replace")
            texts = (whole[at:at + 16384] for at in range(0, len(whole), 16384))
        for text in texts:
            if total >= limit:
                return
            total += len(text.encode())
            yield text


def peer(name, *args):
    return Program(sys.executable, here / "peers" / f"{name}.py", *args)


def tokenizer(args):
    print("| text | MB | tokenizer | ParallelLM MB/s | tokenizers MB/s | ratio | tiktoken MB/s |"
          " ratio | same ids |\n|---|---|---|---|---|---|---|---|---|")
    versions = {}
    for item in args.texts:
        name, _, files = item.partition("=")
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
            for text in documents(files.split(","), args.bytes):
                file.write(json.dumps({"text": text}) + "\n")
            file.flush()
            for folder in args.tokenizer:
                ours = Program(args.build / "bench/bench_tokenizer", folder, file.name)
                peers = [peer("tokenizer", kind, folder, file.name)
                         for kind in ("tokenizers", "tiktoken")]
                alternate([ours, *peers], args.rounds)
                megabytes = ours.result["bytes"] / 1e6
                same = [p.result["digest"] == ours.result["digest"] for p in peers]
                versions.update(zip(("tokenizers", "tiktoken"),
                                    (p.result["version"] for p in peers)))
                cells = [name, f"{megabytes:.1f}", pathlib.Path(folder).name,
                         f"{megabytes / ours.best():.1f}"]
                for p in peers:
                    cells += [f"{megabytes / p.best():.2f}", f"{p.best() / ours.best():.1f}"]
                cells.append(", ".join("yes" if s else "**no**" for s in same))
                print("| " + " | ".join(cells) + " |", flush=True)
    return versions


def loader(args):
    print("| set | samples | ParallelLM samples/s | GB/s | streaming samples/s | ratio |"
          " memory copy samples/s | share |\n|---|---|---|---|---|---|---|---|")
    program = args.build / "bench/bench_loader"
    versions = {}
    for folder in args.sets:
        common = [folder, "--batch", args.batch]
        ours = Program(program, *common, "--length", args.length)
        copy = Program(program, *common, "--length", args.length, "--copy")
        streaming = peer("loader", *common)
        alternate([ours, copy, streaming], args.rounds)
        samples = ours.result["samples"]
        assert samples == streaming.result["samples"]
        versions["mosaicml-streaming"] = streaming.result["version"]
        print(f"| {pathlib.Path(folder).name} | {samples} | {samples / ours.best():,.0f} | "
              f"{ours.result['bytes'] / ours.best() / 1e9:.2f} | "
              f"{samples / streaming.best():,.0f} | {streaming.best() / ours.best():.1f} | "
              f"{samples / copy.best():,.0f} | {copy.best() / ours.best():.2f} |", flush=True)
    return versions


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=7)
    what = parser.add_subparsers(required=True)
    tokens = what.add_parser("tokenizer")
    tokens.add_argument("--tokenizer", action="append", required=True)
    tokens.add_argument("--bytes", type=int, default=4_000_000)
    tokens.add_argument("texts", nargs="+", metavar="NAME=FILE[,FILE...]")
    tokens.set_defaults(run=tokenizer)
    loading = what.add_parser("loader")
    loading.add_argument("--batch", type=int, default=32)
    loading.add_argument("--length", type=int, default=2048)
    loading.add_argument("sets", nargs="+")
    loading.set_defaults(run=loader)
    args = parser.parse_args()
    versions = args.run(args)
    cpu = next((line.split(": ")[1].strip() for line in open("/proc/cpuinfo")
                if line.startswith("model name")), platform.machine())
    commit = subprocess.run(["git", "-C", here, "describe", "--always", "--dirty"], text=True,
                            capture_output=True).stdout.strip()
    print(f"\n{datetime.date.today()}, {cpu}, one thread each, processor time, best of "
          f"{args.rounds} alternating rounds, commit {commit}; Python {platform.python_version()}, "
          + ", ".join(f"{k} {v}" for k, v in versions.items()))


if __name__ == "__main__":
    main()
