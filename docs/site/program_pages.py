"""Pages made by the programs: their keys, from what the readers report (documented_keys.cpp), their options, from --help,
and pictures of steps, which pretrain draws."""
import json
import pathlib
import re
import subprocess
import textwrap

PROGRAMS = ("prepare", "train_tokenizer", "pretrain", "finetune", "evaluate", "generate", "convert", "checkpoint", "launch",
            "flight", "quickstart", "report", "fetch", "track", "plan")
ROLES = {"effective": "", "without_effect": "no effect here", "restricted": "not supported"}


def code(text):
    shown = text.replace("|", "\\|").replace("\n", "\\n")
    return f"`{shown}`" if text else ""


def cell(text):
    return re.sub(r"([\\*_<>\[\]{}#|~$`])", r"\\\1", " ".join(text.split()))


def pages_with(name, pages):
    """Links to the pages that write the key, or its last part, as code."""
    short = name.split(".")[-1]
    found = []
    for page, text in pages.items():
        if re.search(rf"`[^`\n]*(?<![\w.]){re.escape(name)}\b[^`\n]*`", text) or (
                len(short) > 4 and re.search(rf"`(?:[\w.]*\.)?{re.escape(short)}\b[^`\n]*`", text)):
            found.append(f"[{page}]({page}.md)")
    return ", ".join(found[:3])


def row(key, pages):
    if len(key["fallbacks"]) == 1:
        fallback = code(key["fallbacks"][0])
    else:
        fallback = "by other keys" if key["fallbacks"] else ""
    effect = ROLES[key["role"]]
    remark = cell("; ".join(key["remarks"][:2]))
    if key["role"] != "effective":
        effect = ": ".join(filter(None, [effect, remark]))
    else:
        example = "e.g. " + code(key["examples"][0].partition("=")[2]) if key["examples"] else ""
        effect = "; ".join(filter(None, [remark, example]))
    return f"| {code(key['name'])} | {cell('; '.join(key['forms']))} | {fallback} | {effect} | {pages_with(key['name'], pages)} |"


def tables(keys, pages):
    groups = {}
    for key in keys:
        group = key["name"].split(".")[0]
        has_members = any(other["name"].startswith(group + ".") for other in keys)
        groups.setdefault(group if has_members else "", []).append(key)
    for group in sorted(groups):
        yield f"### {cell(group) if group else 'At the top'}\n"
        yield "| key | value | default | effect | more |\n|---|---|---|---|---|"
        yield "\n".join(row(key, pages) for key in groups[group]) + "\n"


def write_keys(keys_file, pages, out):
    keys = json.loads(pathlib.Path(keys_file).read_text())
    trained = {key["name"] for key in keys["training"]}
    evaluated = [key for key in keys["evaluation"]
                 if key["name"].removeprefix("models.") not in trained or not key["name"].startswith(("model.", "models.model."))]
    text = ["# Keys of the configurations", "",
            "Every key that the programs' YAML files and `KEY=VALUE` arguments may have, as the readers of configurations report "
            "it: a test fails when a reader asks for a key that is not here, and when a key does not do what this page says. "
            "An unknown key is an error that names the nearest known one. `*` stands for a name or number of your choice.", "",
            '<div id="key-filter"></div>', "",
            "## `pretrain` and `finetune`", "",
            "The keys of `train_loader` hold for `eval_loader` too, those of `model` also for `model.config_overrides`.", "",
            *tables(keys["training"], pages),
            "## `evaluate --config`", "",
            "Keys under `icl_tasks`, `eval_gauntlet`, `tokenizer` and an `mpt_causal_lm`'s `model` are those of `pretrain`.", "",
            *tables(evaluated, pages)]
    (out / "keys.md").write_text("\n".join(text))
    return len(keys["training"]) + len(evaluated)


def wrapped(line):
    """A line of --help in at most 100 columns: descriptions go on in their column, the command of an example after a backslash."""
    if len(line) <= 100:
        return line
    described = line[28:30] == "  "
    rows = textwrap.wrap(line, 98, subsequent_indent=" " * (30 if described else 4 if line.startswith("  ") else 0), break_long_words=False,
                         break_on_hyphens=False)
    return ("\n" if described or not line.startswith("  ") else " \\\n").join(rows)


def write_options(programs, out):
    """A section for each program that is there: its own --help. Returns their names."""
    text = ["# Options of the programs", "", "Each program's own `--help`. Keys of YAML files: [keys](keys.md).", ""]
    shown = []
    for name in PROGRAMS:
        program = pathlib.Path(programs) / name
        if not program.is_file():
            continue
        result = subprocess.run([program, "--help"], capture_output=True, text=True, timeout=60, env={"NO_COLOR": "1", "COLUMNS": "100"})
        if result.returncode != 0:
            raise SystemExit(f"{program} --help ended with {result.returncode}: {result.stderr.strip()}")
        text += [f"## {name}", "", "~~~~text", *map(wrapped, result.stdout.strip().replace(str(program), name).splitlines()), "~~~~", ""]
        shown.append(name)
    (out / "options.md").write_text("\n".join(text))
    return shown


PICTURES = (
    ("Data parallelism with ZeRO-1", "Gradients are reduced after the last microbatch; each rank updates its share.",
     ("ranks=2", "zero_stage=1", "global_train_batch_size=4")),
    ("ZeRO-3", "Parameters are gathered before the parts that use them.",
     ("ranks=2", "zero_stage=3", "global_train_batch_size=4")),
    ("ZeRO-3 in the least memory", "Parameters are gathered for each pass, and gradients reduced after it.",
     ("ranks=2", "zero_stage=3", "global_train_batch_size=4", "fsdp_config.reshard_after_forward=true", "reduce_every_microbatch=true")),
    ("Tensor and sequence parallelism", "Both ranks compute every microbatch; they exchange inside the layers, which is not drawn.",
     ("ranks=2", "parallelism.tensor=2", "parallelism.sequence_parallel=true", "global_train_batch_size=2")),
    ("Context parallelism", "Each rank has half of every sequence; attention exchanges inside the layer, which is not drawn.",
     ("ranks=2", "parallelism.context=2", "global_train_batch_size=2")),
    ("A pipeline: 1F1B", "Messages carry activations to the next rank and gradients back.",
     ("ranks=2", "parallelism.pipeline=2", "global_train_batch_size=4")),
    ("A pipeline: ZB-H1", "Weight gradients wait, and fill the bubble.",
     ("ranks=2", "parallelism.pipeline=2", "parallelism.schedule=zb-h1", "global_train_batch_size=4")),
    ("A pipeline: ZB-V", "Each rank has two stages; the first rank also has the last.",
     ("ranks=2", "parallelism.pipeline=2", "parallelism.schedule=zb-v", "global_train_batch_size=4")),
)


def write_pictures(programs, configuration, out):
    """A picture of each strategy's step, drawn by pretrain print_plan=true. Returns how many there are."""
    text = ["# Steps, drawn", "", "One step of a model of four blocks on two ranks, as it is enqueued and proved before it runs: "
            "every pass and exchange takes one unit of time here. Ranks of one pipeline stage do the same, so only pipeline ranks have "
            "lines of their own. `pretrain print_plan=true` draws the step of any configuration.", ""]
    for number, (title, sentence, settings) in enumerate(PICTURES):
        folder = out / "_static" / "steps" / str(number)
        folder.mkdir(parents=True)
        keys = ["print_plan=true", "device_train_microbatch_size=1", "model.n_layers=4", *settings]
        result = subprocess.run([pathlib.Path(programs) / "pretrain", configuration, *keys, f"save_folder={folder}"],
                                capture_output=True, text=True, timeout=120)
        if result.returncode != 0 or not (folder / "plan.svg").exists():
            raise SystemExit(f"pretrain {' '.join(keys)} ended with {result.returncode}: {result.stderr.strip()[-500:]}")
        text += [f"## {title}", "", sentence, "", f"`pretrain {configuration.name} {' '.join(keys)}`", "",
                 f"```{{image}} _static/steps/{number}/plan.svg", f":alt: {title}: the passes and exchanges of a step in time",
                 ":class: step-picture", "```", ""]
    (out / "steps.md").write_text("\n".join(text))
    return len(PICTURES)
