"""The page that `bench/gpu all` leaves: what a stranger should know of a first hour on a GPU."""
import importlib.machinery
import importlib.util
import pathlib
import re
import sys

from gpu_table import VOCABULARY, good, of_stage, result_of, speed_rows, table

HERE = pathlib.Path(__file__).resolve().parent
CHECKS = ("first", "ops", "model", "ranks", "gpus", "sanitizer", "big", "trainer", "documents")
LENGTH = 2048
# Groups of operations: names of bench/gpu_model's, and of a profile's; the first that matches.
GROUPS = (
    ("head's products", r"head's products", None),
    ("products, forward", r"products, forward", r"matmul (?!.* d[XW])"),
    ("products, backward", r"products, backward", r"matmul .* d[XW]"),
    ("attention, forward", r"attention, forward", r"attention$"),
    ("attention, backward", r"attention, backward", r"attention_backward$"),
    ("AdamW, and the norm of gradients", r"AdamW", r"adamw|squared_norm|all_finite|gradient_scale"),
    ("norms", r"norms", r"(layer|rms)_norm|norm_gradients"),
    ("GELU", r"GELU", r"activation"),
    ("cross entropy", r"cross entropy", r".*cross_entropy|vocabulary_statistics"),
    ("embeddings", r"embeddings", r"embedding|add_positions"),
    ("everything else", r"", r""))


def gpu_model():
    """bench/gpu_model as a module."""
    loader = importlib.machinery.SourceFileLoader("gpu_model", str(HERE / "gpu_model"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_model", loader))
    sys.modules["gpu_model"] = module
    loader.exec_module(module)
    return module


def group_of(name, size, form, of_profile):
    """The group of an operation: of a profile, or of the model."""
    product = re.match(r"matmul (\d+) x (\d+) x (\d+)", name)
    if of_profile and product and str(VOCABULARY[form]) in product.groups():
        return "head's products"
    for group, model, profile in GROUPS:
        pattern = profile if of_profile else model
        if pattern is not None and re.match(pattern, name):
            return group
    raise LookupError(f"{size} has no group for {name}")


def grouped(times, size, form, of_profile):
    """{group: milliseconds} of (operation, milliseconds)."""
    sums = {group: 0.0 for group, *_ in GROUPS}
    for name, milliseconds in times:
        sums[group_of(name, size, form, of_profile)] += milliseconds
    return sums


def time_rows(profile, size, form, tokens, model):
    """Where a step goes: the profile's time by group, beside the model's for as many tokens."""
    meant = grouped([(name, 1e3 * seconds) for name, seconds in
                     model.model(size, form, model.instructions(), tokens)[0].items()],
                    size, form, False)
    taken = grouped([(row["name"], row["milliseconds"]) for row in profile["operations"]],
                    size, form, True)
    taken["everything else"] += max(0.0, profile["step_milliseconds"] - sum(taken.values()))
    rows = [[group, f"{taken[group]:.2f}", f"{meant[group]:.2f}",
             f"×{taken[group] / meant[group]:.2f}" if meant[group] > 0 else ""]
            for group in taken if taken[group] + meant[group] > 0]
    whole, meant_whole = profile["step_milliseconds"], sum(meant.values())
    return rows + [["all", f"{whole:.2f}", f"{meant_whole:.2f}", f"×{whole / meant_whole:.2f}"]]


def step_rows(units, model):
    rows = []
    for key, unit in of_stage(units, "step").items():
        ours = unit["result"].get("ParallelLM", {})
        if "tokens_per_second" in ours:
            size, form = key.split("/")
            meant = model.model(size, form, model.instructions())[1]
            rows.append([size, form, f"{ours['tokens_per_second']:,.0f}", f"{100 * ours['mfu']:.1f} %",
                         f"{meant:.1f} %"])
    return rows


def peers_problems(units):
    """Why a peer is not in the table of speeds."""
    said = []
    for key, unit in of_stage(units, "speed").items():
        said += [f"{key}: {name} did not run: {str(one['problem']).strip().splitlines()[-1][:160]}"
                 for name, one in unit["result"].items()
                 if name != "ParallelLM" and isinstance(one, dict) and one.get("problem")]
    return said


def memory_rows(units):
    def gib(count):
        return f"{count / 2 ** 30:.3f}"
    return [[key, gib(of["planned_bytes"]), gib(of["allocated_bytes"]),
             "to the byte" if of["planned_bytes"] == of["allocated_bytes"] else "**not as planned**",
             gib(of["scratch_bytes"]),
             gib(of["planned_scratch_bytes"]) if "planned_scratch_bytes" in of else "",
             gib(of["device_bytes"])]
            for key, unit in of_stage(units, "memory").items()
            for of in [unit["result"]] if "planned_bytes" in of]


def training_rows(units):
    """Runs of pretrain, on one GPU and on several; efficiency against the one."""
    rows, alone = [], None
    for stage in ("trainer", "gpus"):
        for key, unit in of_stage(units, stage).items():
            of = unit["result"]
            if "tokens_per_second" not in of:
                continue
            gpus = of.get("gpus", of["ranks"])
            alone = of["tokens_per_second"] if of["ranks"] == 1 else alone
            rows.append([f"{stage}/{key}", of["ranks"], f"{of['tokens_per_second']:,.0f}",
                         f"{100 * of['tokens_per_second'] / gpus / alone:.0f} %" if alone
                         else "–",
                         f"{of['losses'][0]:.3f}", f"{of['losses'][-1]:.3f}"])
    return rows


def about_text(about, units):
    dates = sorted(unit["date"] for unit in units.values())
    return table(["", ""], [
        ["commit", about["commit"]], ["date", f"{dates[0]} to {dates[-1]} UTC" if dates else ""],
        ["GPUs", f"{about['gpus']} × {about['gpu']}, {about['memory']}, compute capability "
                 f"{about['capability']}"],
        ["driver", about["driver"]], ["CUDA, cuDNN", f"{about['cuda']}, {about['cudnn']}"],
        ["PyTorch, transformers", f"{about['torch']}, {about['transformers']}"],
        ["host", about["host"]]])


def correctness_text(units):
    rows = [[key, result_of(unit), unit["result"].get("cases", ""),
             " ".join(unit["result"].get("seeds", [])[:1])]
            for key, unit in units.items() if key.split("/")[0] in CHECKS]
    return table(["what", "", "cases", "seed"], rows) if rows else ""


def speed_text(units):
    text, rows = "", step_rows(units, gpu_model())
    if rows:
        text += "A step of 524,288 tokens, bf16; the model is bench/gpu_model's of an H200.\n\n" + \
            table(["size", "form", "tokens/s", "MFU", "the model's"], rows)
    rows = speed_rows(units, "speed")
    if rows:
        text += "\nIn turns with PyTorch; in brackets how many times faster than that we are:\n\n" + \
            table(["size", "form", "tokens/s", "MFU", "torch.compile", "transformers, eager"],
                  [[*row[:3], row[3].split(" (")[0], *row[5:7]] for row in rows]) + \
            "".join(f"\n- {line}" for line in peers_problems(units)) + "\n"
    return text


def memory_text(units):
    rows = memory_rows(units)
    return "GiB. Scratch is that of operations, beside what is planned for it; taken is all that the " \
           "driver says is gone.\n\n" + \
        table(["step", "planned", "allocated", "", "scratch", "planned scratch", "taken"], rows) \
        if rows else ""


def time_text(units):
    text = ""
    for key in of_stage(units, "profile"):
        of = good(units, f"profile/{key}")
        size, form = key.split("/") if "/" in key else (None, None)
        if of and size in ("125m", "1b"):
            text += f"\nMPT-{size} in form {form}, one microbatch and the optimizer's step, in " \
                    "milliseconds; the model is of an H200:\n\n" + \
                table(["", "measured", "the model's", ""],
                      time_rows(of["profile"], size, form, of["microbatch"] * LENGTH, gpu_model()))
    return text


def training_text(units):
    rows = training_rows(units)
    return "MPT-125M, as many tokens on each GPU.\n\n" + \
        table(["run", "ranks", "tokens/s", "efficiency", "first loss", "last"], rows) if rows else ""


def page(about, units, verdicts):
    """Of `verdicts` in order, (stage, what is known of it or None). A part of the page that cannot be
    made says why and spares the others. A rehearsal's has no times."""
    parts = [("Correctness", correctness_text), ("Memory beside plan", memory_text)]
    title = f"A rehearsal, with a tiny model, on {about['gpu']}"
    if not about.get("rehearsal"):
        parts[1:1] = [("Speed", speed_text)]
        parts += [("Where the time goes", time_text), ("pretrain", training_text)]
        title = f"The first hour of ParallelLM on {about['gpu']}"
    text = f"# {title}\n\n" + about_text(about, units)
    text += "\n## Verdicts\n\n" + table(
        ["stage", "verdict", "", "s"],
        [[name, of["verdict"] if of["verdict"] != "failed" else "**failed**", of["why"],
          of["seconds"]] if of else [name, "not run", "", ""] for name, of in verdicts])
    for heading, part in parts:
        try:
            said = part(units)
        except (LookupError, TypeError, ValueError, OSError) as problem:
            said = f"This part could not be made: {problem!r}\n"
        text += f"\n## {heading}\n\n{said}" if said else ""
    return text
