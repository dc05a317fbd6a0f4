"""The stages of bench/gpu: the programs of each, and the rows that they add to the page."""
import argparse
import dataclasses
import json
import math
import os
import pathlib
import shutil
import sysconfig
import time

import gpu_machine
from gpu_machine import Failure, Skipped
from gpu_page import Check, Page

PEER = gpu_machine.ROOT / "bench/peers/gpu_train_step.py"
MICROBATCHES = {  # (microbatch, accumulation) of a step at length 2048
    "125m": (16, 16), "350m": (16, 16), "760m": (8, 32), "1b": (8, 8), "3b": (4, 8), "7b": (2, 8)}
PEERS = {"a": ("compile",), "b": ("compile", "transformers")}  # transformers has no form a
PEER_NAMES = {"compile": "torch.compile", "transformers": "transformers, eager"}
SEVERAL_GPUS = "*the GPUs of this machine*"  # in the names of cases that need several GPUs


@dataclasses.dataclass(frozen=True)
class Tests:
    """Cases of gpu_tests, by doctest's filters. `rehearsed` are the cases of a rehearsal: None for all of them,
    empty for none."""
    name: str
    source: str
    cases: str = "*"
    excluded: str = ""
    rehearsed: str | None = None
    sanitizer: str = ""  # compute-sanitizer's tool


def sanitized(tool):
    """Tests under a tool of compute-sanitizer: a step, and the kernels."""
    kernels = ("operations on elements*", "operations on rows*", "attention*",
               *(("fused attention*",) if tool == "memcheck" else ()))
    return (Tests(f"{tool}, a step", "model", "MPT on a GPU: *in both forms", sanitizer=tool),
            *(Tests(f"{tool}, {cases.rstrip('*')}", "operations", cases, rehearsed="", sanitizer=tool)
              for cases in kernels))


TESTS = {
    "first": (Tests("a kernel", "operations", "operations on elements*<float>"),
              Tests("a product", "operations", "operations on rows*<float>", rehearsed="")),
    "ops": (Tests("operations", "operations", excluded="[full]*", rehearsed="operations on elements*<parallel::bf16>"),
            Tests("exchanges", "exchanges", excluded=SEVERAL_GPUS, rehearsed="")),
    "model": (Tests("model", "model", excluded="*share a GPU*"), Tests("golden numbers", "golden"),
              Tests("checkpoint", "checkpoint", rehearsed="training on a GPU: a *<float>")),
    "big": (Tests("closed forms", "big_shapes", rehearsed=""),
            Tests("every form", "operations", "[full]*", rehearsed="")),
    "sanitizer": (*sanitized("memcheck"), *sanitized("racecheck")),
    "ranks": (Tests("model", "model", "*share a GPU*"),
              Tests("NCCL", "nccl_shared", rehearsed="NCCL on a shared GPU: a step of MPT*"),
              Tests("ring", "ring", excluded="[full]*"), Tests("ring, 150 layouts", "ring", "[full]*", rehearsed="")),
    "gpus": (Tests("exchanges", "exchanges", SEVERAL_GPUS, rehearsed="exchanges on GPUs*"),),
    "documents": (Tests("memcheck", "documents", sanitizer="memcheck", rehearsed="*one form"),),
}


@dataclasses.dataclass
class Job:
    """A stage that is being run: its programs' results go to the page."""
    stage: str
    options: argparse.Namespace
    page: Page

    def check(self, name, work):
        """Records what became of work(), which returns its words; whether it passed. What goes wrong in a program,
        or in reading its results, is a failure of this check alone."""
        print(f"{self.stage}/{name} ...", flush=True)
        begin = time.monotonic()
        try:
            result, words = "passed", work()
        except Skipped as reason:
            result, words = "skipped", str(reason)
        except (Failure, OSError, LookupError, TypeError, ValueError) as problem:
            text = str(problem) if isinstance(problem, Failure) else repr(problem)
            print(text[-4000:])
            result, words = "failed", gpu_machine.summary_of(text)
        self.page.add_check(Check(self.stage, name, result, words, time.monotonic() - begin))
        print(f"{self.stage}/{name}: {result}: {words}", flush=True)
        return result == "passed"

    def skip(self, name, reason):
        """Records a program that cannot run here."""
        self.page.add_check(Check(self.stage, name, "skipped", reason, 0))

    def run(self, command):
        """The output of one of our programs."""
        return gpu_machine.run(command, self.options.limit, gpu_machine.environment(self.options.python))

    def measure(self, name, *arguments):
        """The report of a program of bench/gpu_build."""
        return gpu_machine.report_of(self.run([gpu_machine.program(name, self.options), *arguments]))

    def measure_peer(self, mode, *arguments):
        """The report of PyTorch's step. PyTorch finds its own libraries; parts of another cuDNN must not mix."""
        if self.page.machine["PyTorch"] == "none":
            raise Skipped("there is no PyTorch here (--python names one that has it)")
        command = [self.options.python, PEER, "--mode", mode, *arguments]
        return gpu_machine.report_of(gpu_machine.run(command, self.options.limit))


@dataclasses.dataclass(frozen=True)
class Shape:
    """The shape of a step of gpu_step."""
    size: str
    form: str
    microbatch: int
    accumulation: int
    length: int = 2048

    def arguments(self):
        """The arguments of gpu_step and its peers."""
        return [part for field in dataclasses.fields(self) for part in (f"--{field.name}", getattr(self, field.name))]

    def quartered(self):
        """The same tokens in smaller microbatches: eager attention stores all of its scores."""
        parts = min(4, self.microbatch)
        return dataclasses.replace(self, microbatch=self.microbatch // parts, accumulation=self.accumulation * parts)


def tuning(job):
    """The arguments of gpu_step by which a rehearsal leaves out the tuning of products, which takes long."""
    return ["--tuned", 0] if job.options.rehearse else []


def shape(job, size, form, length=2048, accumulation=None):
    """The usual step of a size, or a tiny one in a rehearsal."""
    if job.options.rehearse:
        return Shape("tiny", form, 2, 2, min(128, length // 32))
    microbatch, usual = MICROBATCHES[size]
    return Shape(size, form, max(1, microbatch * 2048 // length), accumulation or usual, length)


def run_tests(job):
    """Runs the tests of a stage, each group in its own process."""
    def work(group):
        arguments = [f"--source-file=*{group.source}_test*", f"--test-case={group.cases}"]
        if group.excluded:
            arguments.append(f"--test-case-exclude={group.excluded}")
        if job.options.rehearse and group.rehearsed:
            arguments[1:] = [f"--test-case={group.rehearsed}"]
        tool = []
        if group.sanitizer:
            path = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
            if not pathlib.Path(path).exists():
                raise Skipped("compute-sanitizer is not installed")
            tool = [path, "--tool", group.sanitizer, "--error-exitcode", "9"]
        return words_of_tests(job.run([*tool, gpu_machine.program("gpu_tests", job.options), "--no-colors=true",
                                       *arguments]))
    for group in TESTS[job.stage]:
        if not (job.options.rehearse and group.rehearsed == ""):
            job.check(group.name, lambda group=group: work(group))


def words_of_tests(output):
    """How many cases passed, and the seeds of their random numbers. A program that skips or has no cases fails."""
    summary = next((line.split() for line in output.splitlines() if "test cases:" in line), [])
    count = int(summary[3]) if len(summary) > 3 else 0
    if count == 0 or "skipped: this machine" in output:
        raise Failure(output + "\nno case was run")
    seeds = [line.split("seed ")[1].split()[0] for line in output.splitlines() if "seed " in line]
    return f"{count} case" + "s" * (count > 1) + (f", seed {seeds[0]}" if seeds else "")


def step_words(report):
    """The speed of a step."""
    return f"{report['tokens_per_second']:,.0f} tokens/s, MFU {100 * report['mfu']:.1f} %"


def speed(job):
    """Steps of each size, form and length: ours, those of PyTorch, and ours again."""
    for size in job.options.sizes:
        for form in job.options.forms:
            for length in job.options.lengths:
                compare_step(job, f"{size}/{form}" + f"/{length}" * (length != 2048), shape(job, size, form, length))


def compare_step(job, name, step):
    """Rows of a step's speed, each peer's next to ours."""
    ours = []

    def add_row(program, report, factor=""):
        job.page.add_row("Speed of a step", name, program, f"{report['tokens_per_second']:,.0f}",
                         f"{100 * report['mfu']:.1f} %", factor, f"{report['peak_bytes'] / 2 ** 30:.1f}")

    def measure_ours():
        report = job.measure("gpu_step", *step.arguments(), "--seconds", job.options.seconds, *tuning(job))
        ours.append(report["tokens_per_second"])
        add_row("ParallelLM", report)
        return step_words(report)

    def measure_peer(mode):
        arguments = (step.quartered() if mode == "transformers" else step).arguments()
        try:
            report = job.measure_peer(mode, *arguments, "--seconds", job.options.seconds)
        except Failure as problem:  # which is no failure of ours
            raise Skipped(f"it did not run: {gpu_machine.summary_of(str(problem))}") from problem
        peers[mode] = report
        return step_words(report)
    peers = {}
    if not job.check(name, measure_ours):
        return
    for mode in PEERS[step.form]:
        job.check(f"{name}, {mode}", lambda mode=mode: measure_peer(mode))
    if peers and job.check(f"{name} again", measure_ours):
        for mode, report in peers.items():
            factor = sum(ours) / len(ours) / report["tokens_per_second"]
            add_row(PEER_NAMES[mode], report, f"×{factor:.2f}")


def memory(job):
    """The GPU memory that steps take, compared with the plan: the same to the byte."""
    def check(name, step, *ways):
        def work():
            # tuning takes scratch for a while, which no later step has
            report = job.measure("gpu_step", *step.arguments(), "--tuned", 0, "--seconds", 0, *ways)
            planned, allocated = report["planned_bytes"], report["allocated_bytes"]
            planned_scratch, scratch = report["planned_scratch_bytes"], report["scratch_bytes"]
            job.page.add_row("Memory of a step, GiB", name, *(
                f"{count / 2 ** 30:.3f}" for count in (planned, allocated, planned_scratch, scratch,
                                                       report["device_bytes"])))
            if allocated != planned:
                raise Failure(f"error: {allocated} bytes were allocated, {planned} were planned")
            if scratch > planned_scratch + (2 << 20):  # a pool rounds
                raise Failure(f"error: operations took {scratch} bytes of scratch, {planned_scratch} were planned")
            return f"{allocated} bytes, as planned"
        job.check(name, work)
    for form in "ba":
        check(f"125m/{form}", shape(job, "125m", form, accumulation=2))
    for way in ("graphs", "beside", "offload"):
        check(f"125m/b, {way}", shape(job, "125m", "b", accumulation=2), f"--{way}", 1)
    if not job.options.rehearse:  # where all sizes are the same
        check("1b/b", shape(job, "1b", "b", accumulation=2))


def profile(job):
    """Where the time of one microbatch and the optimizer's step goes, by operation."""
    def work(name, step):
        measured = job.measure("gpu_step", *step.arguments(), "--seconds", 0, "--profile", 1,
                               *tuning(job))["profile"]
        for row in measured["operations"][:20]:
            job.page.add_row("Operations of a step", name, row["name"], f"{row['milliseconds']:.2f}", row["calls"],
                             f"{row['tflops']:.0f}" if "tflops" in row else "")
        total = sum(row["milliseconds"] for row in measured["operations"])
        return f"{measured['step_milliseconds']:.1f} ms, {total:.1f} of them in operations"
    for size in job.options.sizes:
        for form in job.options.forms:
            step = shape(job, size, form, accumulation=1)
            job.check(f"{size}/{form}", lambda name=f"{size}/{form}", step=step: work(name, step))


def big(job):
    """Shapes at which indices, grids and scratch are large, and every form of what takes long."""
    def work():
        step = dataclasses.replace(shape(job, "125m", "b", 32768, 2), microbatch=1)
        report = job.measure("gpu_step", *step.arguments(), "--seconds", 0, *tuning(job))
        if not isinstance(report["loss"], float) or not math.isfinite(report["loss"]):
            raise Failure(f"error: the loss of a step at length 32768 is {report['loss']}")
        return f"loss {report['loss']:.3f}"
    run_tests(job)
    job.check("125m, length 32768", work)


def training(job):
    """300 steps of 125M compared with PyTorch's, whose seeds say how far losses differ; resumed with the same bits."""
    folder = job.options.build / "training"
    folder.mkdir(parents=True, exist_ok=True)
    text = folder / "text"
    write_text(text, 20 << 20)
    arguments = [*shape(job, "125m", "b", accumulation=2).arguments(), "--text", text]

    def add_row(name, report):
        losses = report["losses"]
        if not all(isinstance(loss, float) and math.isfinite(loss) for loss in losses):
            raise Failure("error: a loss is not finite")
        last = f"{sum(losses[-20:]) / len(losses[-20:]):.4f}"
        job.page.add_row("Training", name, len(losses), f"{losses[0]:.3f}", last,
                         f"{report['tokens_per_second']:,.0f}")
        return f"the last 20 losses are {last}"
    for seed in (1, 2):
        name = f"ParallelLM, seed {seed}"
        job.check(name, lambda name=name, seed=seed: add_row(
            name, job.measure("gpu_step", *arguments, "--seed", seed)))
    for seed in (1, 2, 3):
        name = f"PyTorch, seed {seed}"
        job.check(name, lambda name=name, seed=seed: add_row(
            name, job.measure_peer("compile", *arguments, "--seed", seed)))

    def resume():
        saved = folder / "checkpoints"
        shutil.rmtree(saved, ignore_errors=True)
        exact = [*arguments, "--deterministic", 1, "--steps", 40]
        whole = job.measure("gpu_step", *exact, "--save", saved, "--save-at", 20)
        resumed = job.measure("gpu_step", *exact, "--resume", saved)
        shutil.rmtree(saved, ignore_errors=True)
        if (resumed["checksum"], resumed["losses"]) != (whole["checksum"], whole["losses"][20:]):
            raise Failure("error: a resumed run has other bits than the uninterrupted one")
        return f"the same bits after step {resumed['first_step']}"
    job.check("resumed", resume)


def write_text(file, size):
    """Writes Python's own library, a text that every machine has."""
    parts, length = [], 0
    for source in sorted(pathlib.Path(sysconfig.get_paths()["stdlib"]).rglob("*.py")):
        if length < size and not {"site-packages", "dist-packages"} & set(source.parts):
            parts.append(source.read_bytes())
            length += len(parts[-1])
    file.write_bytes(b"".join(parts)[:size])


@dataclasses.dataclass(frozen=True)
class Pretraining:
    """The model and data of a run of pretrain; batch and microbatch in sequences, for each rank."""
    text_bytes: int = 20 << 20
    tokens: int = 4096
    vocabulary: int = 50432
    width: int = 768
    heads: int = 12
    layers: int = 12
    length: int = 2048
    batch: int = 64
    microbatch: int = 16
    batches: int = 30


TINY_PRETRAINING = Pretraining(1 << 18, 500, 512, 64, 2, 2, 32, 4, 2, 6)


def prepare_text(job, sizes):
    """A tokenizer and shards for pretrain, made once; their folder."""
    folder = job.options.build / f"pretrain-{sizes.width}"
    if not (folder / "data").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        write_text(folder / "sample", min(sizes.text_bytes, 2 << 20))
        write_text(folder / "text", sizes.text_bytes)
        job.run([gpu_machine.product("train_tokenizer", job.options), "--vocab_size", sizes.tokens,
                 "--out", folder / "tokenizer", folder / "sample"])
        job.run([gpu_machine.product("prepare", job.options), "--tokenizer", folder / "tokenizer", "--concat_tokens",
                 sizes.length, "--eos_text", "<|endoftext|>", "--out_root", folder / "unfinished", "--compression",
                 "zstd", folder / "text"])
        (folder / "unfinished").rename(folder / "data")
    return folder


def pretrain(job, name, ranks, launcher=(), gpus=None):
    """Some steps of pretrain on `ranks` ranks, with as many tokens for each: the loss falls."""
    def work():
        program = gpu_machine.product("pretrain", job.options)
        sizes = TINY_PRETRAINING if job.options.rehearse else Pretraining()
        folder = prepare_text(job, sizes)
        metrics = folder / "metrics.jsonl"
        metrics.unlink(missing_ok=True)
        configuration = {
            "run_name": "first-hour", "max_seq_len": sizes.length, "device": "cuda",
            "model": {"name": "mpt_causal_lm", "d_model": sizes.width, "n_heads": sizes.heads,
                      "n_layers": sizes.layers, "max_seq_len": sizes.length, "vocab_size": sizes.vocabulary,
                      "learned_pos_emb": False, "no_bias": True, "attn_config": {"alibi": True}},
            "tokenizer": {"name": str(folder / "tokenizer")},
            "train_loader": {"name": "text", "dataset": {"local": str(folder / "data")}},
            "scheduler": {"name": "cosine_with_warmup", "t_warmup": f"{sizes.batches // 3}ba", "alpha_f": 0.1},
            "optimizer": {"name": "decoupled_adamw", "lr": 6.0e-4},
            "max_duration": f"{sizes.batches}ba", "eval_interval": "0ba", "precision": "amp_bf16",
            "global_train_batch_size": sizes.batch * ranks, "device_train_microbatch_size": sizes.microbatch,
            "metrics_file": str(metrics), **({} if launcher else {"ranks": ranks})}
        (folder / "run.yaml").write_text(json.dumps(configuration, indent=1))  # JSON is YAML too
        job.run([*launcher, program, folder / "run.yaml"])
        rows = [row for row in map(json.loads, metrics.read_text().splitlines()) if "loss/train/total" in row]
        losses = [row["loss/train/total"] for row in rows]
        if len(losses) != sizes.batches or not losses[-1] < losses[0]:  # also where one is NaN
            raise Failure(f"error: the losses of {sizes.batches} steps are {losses}")
        speeds = sorted(row["throughput/tokens_per_sec"] for row in rows[sizes.batches // 3:])
        job.page.add_row("pretrain, with as many tokens on each GPU", name, ranks, gpus or ranks,
                         f"{speeds[len(speeds) // 2]:,.0f}", f"{losses[0]:.3f}", f"{losses[-1]:.3f}")
        return f"the loss falls from {losses[0]:.3f} to {losses[-1]:.3f}"
    job.check(name, work)


def launch_pretrain(job, name, gpus):
    """The same by mpirun with two ranks that are processes, on one GPU or two."""
    mpirun = shutil.which("mpirun")
    if not mpirun:
        job.skip(name, "mpirun is not installed")
        return
    visible = ("env", "CUDA_VISIBLE_DEVICES=0") if gpus == 1 else ()
    as_root = ("--allow-run-as-root",) if os.geteuid() == 0 else ()
    pretrain(job, name, 2, (*visible, mpirun, *as_root, "-n", 2), gpus)


def trainer(job):
    """pretrain and its tests, of the whole project's build."""
    job.check("tests", lambda: words_of_tests(job.run(
        [gpu_machine.product("test_gpu", job.options), "--no-colors=true", "--source-file=*trainer_test*"])))
    pretrain(job, "1 GPU", 1)
    launch_pretrain(job, "mpirun, 2 ranks on 1 GPU", 1)  # which exchange through the host's memory


def several_gpus(job):
    """What several GPUs show: they read each other's memory, and train together."""
    count = job.page.machine["number of GPUs"]
    if count < 2:
        job.skip("several GPUs", "there is one GPU here")
        return
    run_tests(job)
    for ranks in (2, 4, 8):
        if ranks <= count:
            pretrain(job, f"{ranks} GPUs", ranks)
    launch_pretrain(job, "mpirun, 2 GPUs", 2)


# The stages: function, summary; the most informative first.
STAGES = {
    "first": (run_tests, "one kernel, and one product"),
    "ops": (run_tests, "every operation against fp64, exchanges"),
    "model": (run_tests, "MPT against the host and PyTorch's golden numbers, checkpoints"),
    "speed": (speed, "steps next to torch.compile and transformers: tokens/s, MFU"),
    "memory": (memory, "memory of steps compared with the plan"),
    "profile": (profile, "where a step's time goes, by operation"),
    "trainer": (trainer, "pretrain for 30 steps of 125M, and its tests"),
    "big": (big, "a vocabulary of 50432 by a width of 4096, sequences of 32768"),
    "sanitizer": (run_tests, "compute-sanitizer's memcheck and racecheck on a step and operations"),
    "ranks": (run_tests, "several ranks on this GPU: MPT along every axis, exact layouts"),
    "gpus": (several_gpus, "several GPUs: exchanges, and pretrain on 2, 4 and 8"),
    "documents": (run_tests, "documents as separate sequences, under compute-sanitizer"),
    "training": (training, "300 steps of 125M next to PyTorch's seeds; resumed with the same bits"),
}
FIRST_HOUR = tuple(name for name in STAGES if name != "training")
