#!/usr/bin/env python3
"""Training over a throttled link, compared with PyTorch's DDP and FSDP2; prints a Markdown table.

  bench/throttled/throttled_link.py --pretrain build/apps/pretrain --python PYTHON_WITH_TORCH --out NAME.md

Every rank is a process in its own network namespace (throttled_network.py; needs root, ip, tc,
Open MPI), so that all it exchanges passes its link: ours over MPI's TCP, PyTorch's over gloo.
Model, batch, precision, clipping and AdamW are the same, and each rank has cores / ranks threads,
at least one. Both programs of a row live at the same time and take turns of a few steps, on the
open link and on the throttled one; who has no turn is stopped. The first step of a turn does not
count. torch.compile takes minutes the first time, and finds what it made in its cache later.

Columns, all per step:
  sent        bytes that leave the busiest rank, counted by its link
  exchange    those bytes at the rate of the link: the least that exchanging alone could take
  open        median step while the link is as fast as the machine
  throttled   median step while every rank sends and receives at the row's rate
  hidden      1 - (throttled - open) / exchange: the share of the exchange that costs no time
  ratio       the peer's step / ours

The rate of a row is --mbit, or such that our exchange takes --share of our open step.
"""
import argparse
import datetime
import json
import os
import pathlib
import random
import select
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time

from throttled_network import DEVICE, FRAME, SUBNET, Network, run

FOLDER = pathlib.Path(__file__).resolve().parent.parent
PEER = FOLDER / "peers" / "link_train_step.py"
TIMEOUT = 400  # seconds for PyTorch to compile and start, or for a turn
START = 60  # for MPI's ranks to start and make two steps


def write_data(folder, samples, length, vocabulary):
    """An MDS set of random ids."""
    encoding = f"ndarray:int32:{length}"
    layout = {"column_encodings": [encoding], "column_names": ["tokens"],
              "column_sizes": [4 * length], "compression": None, "format": "mds", "hashes": [],
              "size_limit": 1 << 26, "version": 2}
    header = json.dumps(layout).encode()
    first = 4 * (samples + 2) + len(header)
    offsets = [first + 4 * length * i for i in range(samples + 1)]
    ids = random.Random(1).choices(range(vocabulary), k=samples * length)
    data = struct.pack(f"<{samples + 2}I", samples, *offsets) + header
    data += struct.pack(f"<{len(ids)}i", *ids)
    folder.mkdir(parents=True)
    (folder / "shard.00000.mds").write_bytes(data)
    shard = layout | {"samples": samples, "zip_data": None,
                      "raw_data": {"basename": "shard.00000.mds", "bytes": len(data), "hashes": {}}}
    (folder / "index.json").write_text(json.dumps({"shards": [shard], "version": 2}))


class Stuck(Exception):
    """A program has ended, or does not answer."""


class Program:
    """A process whose ranks train; what it says of errors is kept."""

    def __init__(self, network, name, command, environment=None, stdin=None):
        self.network, self.name = network, name
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(command, stdin=stdin, stdout=subprocess.PIPE,
                                        stderr=self.log, bufsize=0, env=environment,
                                        start_new_session=True)

    def fail(self):
        self.log.seek(0)
        raise Stuck(f"{self.name} ended or is stuck:\n{self.log.read()[-4000:]}")


class Ours(Program):
    """`pretrain` on ranks over gloo or MPI. Its metrics file has a line a step."""

    def __init__(self, args, network, folder, precision, zero):
        folder.mkdir()
        self.metrics = folder / "metrics.jsonl"
        self.program = pathlib.Path(args.pretrain).resolve()
        ranks = network.ranks
        data = folder.parent / "data"
        loader = {"name": "text", "drop_last": True,
                  "dataset": {"local": str(data), "split": "train", "max_seq_len": args.length,
                              "shuffle": False}}
        config = {
            "run_name": "link", "max_seq_len": args.length,
            "model": {"name": "mpt_causal_lm", "d_model": args.width, "n_heads": args.heads,
                      "n_layers": args.layers, "expansion_ratio": 4, "max_seq_len": args.length,
                      "vocab_size": args.vocabulary},
            "tokenizer": {"name": "none", "kwargs": {"model_max_length": args.length}},
            "train_loader": loader, "max_duration": "1000000ba", "eval_interval": 0,
            "scheduler": {"name": "constant_with_warmup", "t_warmup": "10ba"},
            "optimizer": {"name": "decoupled_adamw", "lr": 6e-4, "betas": [0.9, 0.95],
                          "eps": 1e-8, "weight_decay": 0.0},
            "algorithms": {"gradient_clipping": {"clipping_type": "norm",
                                                 "clipping_threshold": 1.0}},
            "global_train_batch_size": args.batch,
            "device_train_microbatch_size": args.batch // ranks, "seed": 1,
            "precision": "fp32" if precision == "fp32" else "amp_bf16", "zero_stage": zero,
            "device": "cpu", "threads": args.threads(ranks), "metrics_file": str(self.metrics),
            "callbacks": {"speed_monitor": {"gpu_flops_available": 1e12}},
            "log_to_console": False, "progress_bar": False, "profile": args.profile,
            "save_folder": ""}
        if args.bucket_mib:
            config["bucket_bytes"] = int(args.bucket_mib * 2**20)
        file = folder / "run.yaml"
        file.write_text(json.dumps(config))
        start = self.by_mpi if args.over == "mpi" else self.by_gloo
        super().__init__(network, "pretrain", start(network, folder, file))
        self.wait_for(2, START)
        self.signal(signal.SIGSTOP)

    def by_gloo(self, network, folder, file):
        launch = self.program.parent / "launch"
        lines = [f"ip netns exec {network.name(rank)} {launch} -n 1 --nodes {network.ranks} "
                 f"--node {rank} --interface {DEVICE} --rendezvous {folder}/meeting "
                 f"--logs {folder}/logs{rank} {self.program} {file} &"
                 for rank in range(network.ranks)]
        return ["sh", "-c", "\n".join([*lines, "wait"])]

    def by_mpi(self, network, folder, file):
        ranks = network.ranks
        hosts = ",".join(f"{network.address(rank)}:1" for rank in range(ranks))
        parameters = {"plm": "rsh", "plm_rsh_agent": network.agent(folder),
                      "plm_rsh_no_tree_spawn": 1, "pml": "ob1", "btl": "tcp,self",
                      "btl_tcp_if_include": f"{SUBNET}.0/24",
                      "oob_tcp_if_include": f"{SUBNET}.0/24",
                      "orte_tmpdir_base": folder}
        mca = [str(x) for item in parameters.items() for x in ("--mca", *item)]
        return ["ip", "netns", "exec", network.hub, "mpirun", "--allow-run-as-root", "-n",
                str(ranks), "--host", hosts, "--bind-to", "none", *mca, str(self.program), str(file)]

    def steps(self):
        """Seconds since training began, after each step."""
        if not self.metrics.exists():
            return []
        lines = self.metrics.read_text().split("\n")[:-1]
        return [json.loads(line)["time/train_seconds"] for line in lines]

    def wait_for(self, count, seconds=TIMEOUT):
        limit = time.monotonic() + seconds
        while len(self.steps()) < count:
            if self.process.poll() is not None or time.monotonic() > limit:
                self.fail()
            time.sleep(0.005)

    def signal(self, number):
        for rank in range(self.network.ranks):
            for pid in self.network.processes(self.network.name(rank)):
                if os.path.realpath(f"/proc/{pid}/exe") == str(self.program):
                    os.kill(pid, number)

    def turn(self, count):
        """Seconds of `count` steps, and the bytes that each rank sent in them."""
        done = len(self.steps())
        self.signal(signal.SIGCONT)
        self.wait_for(done + 2)  # in the first it was stopped
        before = self.network.sent()
        self.wait_for(done + 2 + count)
        after = self.network.sent()
        self.signal(signal.SIGSTOP)
        ends = self.steps()[done + 1:done + 2 + count]
        return ([b - a for a, b in zip(ends, ends[1:])],
                [(b - a) / count for a, b in zip(before, after)])

    def stop(self):
        self.signal(signal.SIGKILL)
        self.process.wait()


class Torch(Program):
    """A rank of PyTorch in each namespace; the first is the one that tells of its steps."""

    def __init__(self, args, network, precision, method, mode):
        self.others = []
        environment = os.environ | {"WORLD_SIZE": str(network.ranks), "MASTER_PORT": "29517",
                                    "MASTER_ADDR": network.address(0), "GLOO_SOCKET_IFNAME": DEVICE}
        for rank in reversed(range(network.ranks)):
            command = ["ip", "netns", "exec", network.name(rank), args.python, str(PEER),
                       "--method", method, "--precision", precision,
                       "--threads", str(args.threads(network.ranks))]
            command += ["--batch", str(args.batch // network.ranks)]
            for name in ("length", "width", "heads", "layers", "vocabulary"):
                command += [f"--{name}", str(getattr(args, name))]
            command += ["--bucket-mib", str(args.bucket_mib)] if args.bucket_mib else []
            command += ["--compile"] if mode == "compile" else []
            this = (network, method, command, environment | {"RANK": str(rank)}, subprocess.PIPE)
            if rank:
                self.others.append(Program(*this))
            else:
                super().__init__(*this)
        if not self.line().startswith("ready"):
            self.fail()

    def line(self):
        if not select.select([self.process.stdout], [], [], TIMEOUT)[0]:
            self.fail()
        text = self.process.stdout.readline()
        if not text:
            self.fail()
        return text.decode().strip()

    def turn(self, count):
        for program in (self, *self.others):
            program.process.stdin.write(f"{count + 1}\n".encode())
        self.line()
        before = self.network.sent()
        seconds = [float(self.line()) for _ in range(count)]
        after = self.network.sent()
        return seconds, [(b - a) / count for a, b in zip(before, after)]

    def stop(self):
        for program in (self, *self.others):
            program.process.stdin.close()
        for program in (self, *self.others):
            program.process.wait()


class Measured:
    def __init__(self):
        self.open, self.throttled, self.bytes = [], [], []

    def add(self, turn, throttled):
        (self.throttled if throttled else self.open).extend(turn[0])
        self.bytes.append(max(turn[1]))

    def sent(self):
        return statistics.median(self.bytes)

    def step(self, throttled):
        return statistics.median(self.throttled if throttled else self.open)

    def exchange(self, mbit):
        return self.sent() * FRAME * 8 / (mbit * 1e6)

    def hidden(self, mbit):
        return 1 - (self.step(True) - self.step(False)) / self.exchange(mbit)


def measure(args, ranks, precision, zero):
    """Lines of the table: ours and the peer's."""
    method = "fsdp2" if zero == 3 else "ddp"
    with tempfile.TemporaryDirectory() as name, Network(ranks) as network:
        folder = pathlib.Path(name)
        write_data(folder / "data" / "train", 64, args.length, args.vocabulary)
        programs = {f"ParallelLM, ZeRO {zero}":
                    Ours(args, network, folder / "ours", precision, zero)}
        if args.python:
            title = f"{'FSDP2' if zero == 3 else 'DDP'} ({args.mode})"
            programs[title] = Torch(args, network, precision, method, args.mode)
        results = {title: Measured() for title in programs}
        mbit = args.mbit
        for _ in range(args.rounds):
            for throttled in (False, True):
                if throttled and not mbit:
                    ours = next(iter(results.values()))
                    mbit = max(10, round(ours.exchange(1) / (args.share * ours.step(False)), -1))
                network.throttle(mbit if throttled else 0)
                for title, program in programs.items():
                    results[title].add(program.turn(args.steps), throttled)
        network.throttle(0)
        for program in programs.values():
            program.stop()
    best = next(iter(results.values()))
    lines = []
    for title, of in results.items():
        ratios = [f"**{of.step(t) / best.step(t):.2f}**" if of is not best else ""
                  for t in (False, True)]
        lines.append([f"{ranks}, {precision}, {mbit:.0f} Mbit/s", title, f"{of.sent() / 1e6:.1f}",
                      f"{of.exchange(mbit):.2f}", f"{of.step(False):.2f}", ratios[0],
                      f"{of.step(True):.2f}", ratios[1], f"{100 * of.hidden(mbit):.0f} %"])
    return lines


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown processor"


def heading(args):
    def git(*arguments):
        return subprocess.run(["git", "-C", str(FOLDER), *arguments], capture_output=True,
                              text=True).stdout.strip()

    changed = " with changes" if git("status", "--porcelain", "--", "..") else ""
    mpi = run("mpirun", "--version").splitlines()[0].split()[-1]
    torch = run(args.python, "-c", "import torch; print(torch.__version__)").strip() \
        if args.python else "none"
    buckets = f"{args.bucket_mib:g} MiB" if args.bucket_mib else "as each program has them"
    return (f"{datetime.date.today()}, {processor()}, {args.cores} cores, commit "
            f"{git('rev-parse', '--short', 'HEAD')}{changed}; Open MPI {mpi}, torch {torch} over "
            f"gloo. MPT of {args.layers} layers × {args.width}, vocabulary {args.vocabulary}; "
            f"{args.batch} × {args.length} tokens over all ranks; gradient buckets {buckets}. "
            f"Medians of {args.rounds * args.steps} steps.")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pretrain", default="build/apps/pretrain")
    parser.add_argument("--python", default="", help="with torch; none: ours alone")
    parser.add_argument("--over", choices=["gloo", "mpi"], default="mpi", help="of ours")
    parser.add_argument("--mode", choices=["compile", "sdpa"], default="compile")
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--precisions", default="bf16,fp32")
    parser.add_argument("--zero", default="0,3")
    parser.add_argument("--mbit", type=float, default=0, help="of the link; 0: see --share")
    parser.add_argument("--share", type=float, default=0.5)
    parser.add_argument("--bucket-mib", type=float, default=4, help="0: each program's default")
    parser.add_argument("--batch", type=int, default=8, help="sequences of all ranks")
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--heads", type=int, default=6)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--vocabulary", type=int, default=4096)
    parser.add_argument("--steps", type=int, default=2, help="of a turn that count")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--out", type=pathlib.Path)
    args = parser.parse_args()
    args.cores = len(os.sched_getaffinity(0))
    args.threads = lambda ranks: max(1, args.cores // ranks)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # so that namespaces go
    head = ["ranks, precision, link", "program", "sent MB", "exchange s", "open s", "ratio",
            "throttled s", "ratio", "hidden"]
    lines = [heading(args), "", "| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    print("\n".join(lines), flush=True)
    for ranks in map(int, args.ranks.split(",")):
        for precision in args.precisions.split(","):
            for zero in map(int, args.zero.split(",")):
                try:
                    rows = measure(args, ranks, precision, zero)
                except Stuck as problem:  # once in a while mpirun does not get its ranks started
                    print(problem, file=sys.stderr)
                    rows = measure(args, ranks, precision, zero)
                for cells in rows:
                    lines.append("| " + " | ".join(cells) + " |")
                    print(lines[-1], flush=True)
                if args.out:
                    args.out.parent.mkdir(parents=True, exist_ok=True)
                    args.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
