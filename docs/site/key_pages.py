"""The pages of the programs' keys, from what the readers report (documented_keys.cpp), and of their options, from --help."""
import json
import pathlib
import re
import subprocess

PROGRAMS = ("prepare", "train_tokenizer", "pretrain", "finetune", "evaluate", "generate", "convert", "checkpoint", "launch",
            "flight", "quickstart", "report", "fetch", "journey")
ROLES = {"effective": "", "without_effect": "no effect here", "restricted": "not supported"}


def code(text):
    return "`" + text.replace("|", "\\|") + "`" if text else ""


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
    remark = "; ".join(key["remarks"][:2])
    if remark and key["role"] != "effective":
        effect += f": {cell(remark)}"
    if key["role"] == "effective" and key["examples"]:
        effect = "e.g. " + code(key["examples"][0])
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
            "it: a test fails when a reader asks for a key that is not here, and when a key does not do what is said here. An unknown "
            "key is an error that names the nearest known one. `*` stands for a name or number of your choice.", "",
            '<div id="key-filter"></div>', "",
            "## `pretrain` and `finetune`", "",
            "What is said of `train_loader` holds for `eval_loader` too, what is said of `model` also for "
            "`model.config_overrides`.", "", *tables(keys["training"], pages),
            "## `evaluate --config`", "",
            "Keys under `icl_tasks`, `eval_gauntlet`, `tokenizer` and an `mpt_causal_lm`'s `model` are those of `pretrain`.", "",
            *tables(evaluated, pages)]
    (out / "keys.md").write_text("\n".join(text))
    return len(keys["training"]) + len(evaluated)


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
        text += [f"## {name}", "", "~~~~text", result.stdout.strip(), "~~~~", ""]
        shown.append(name)
    (out / "options.md").write_text("\n".join(text))
    return shown
