#!/usr/bin/env python3
"""howto.py SOURCE OUT PROGRAMS EXAMPLES: does what the how-to pages of the site say, in OUT.

A page's commands run in order, with narrower models, after a small `./run pretrain`; its YAML takes the place of those
sections of small.yaml in my.yaml. Every line of its text blocks is printed by a command (or, on a page without commands, by the
example that it downloads); spaces may differ, and below a comment that begins with "numbers of" the numbers. What pages say about numbers
holds (CLAIMS). Code that it quotes exists. EXAMPLES: the folder of the compiled examples."""
import os
import pathlib
import re
import shutil
import subprocess
import sys

source, out, programs, examples = (pathlib.Path(argument).resolve() for argument in sys.argv[1:5])
PAGES = source / "docs/site/howto"


def narrowed(text):
    """A configuration of some seconds instead of minutes."""
    for key, value in (("d_model", 32), ("n_heads", 4), ("n_layers", 2), ("device_eval_batch_size", 4)):
        text = re.sub(rf"^(\s*{key}): .*", rf"\1: {value}", text, flags=re.MULTILINE)
    return text


def sections(text):
    """The top-level sections of a YAML file, by key."""
    found = re.split(r"^(?=[a-z_]+:)", text, flags=re.MULTILINE)
    return {part.split(":")[0]: part for part in found if not part.startswith("#") and part.strip()}


def run(command, what, directory=None):
    result = subprocess.run(["timeout", "180", "bash", "-euo", "pipefail", "-c", command], cwd=directory or out, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            env=os.environ | {"HF_HUB_OFFLINE": "1", "NO_COLOR": "1"})
    assert result.returncode == 0, f"{what}: status {result.returncode} of\n{command}\n{result.stdout[-3000:]}"
    return result.stdout


def is_printed(line, printed, with_numbers):
    if not with_numbers:
        line, printed = (re.sub(r"\d[\d.,]*(e-?\d+)?", "#", text) for text in (line, printed))
    line, printed = (" ".join(text.split()) for text in (line, printed))
    return re.search(r"(?<![\d.])" + re.escape(line) + r"(?!\.?\d)", printed) is not None


def recomputation_saves_memory(printed):
    unit = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
    plans = [float(size) * unit[name] for size, name in re.findall(r"activations +([\d.]+) (\w+)", printed)]
    assert len(plans) == 2 and plans[0] > plans[1], plans


def conversion_keeps_the_loss(printed):
    losses = re.findall(r"^cross entropy +([\d.]+) nats", printed, flags=re.MULTILINE)
    assert len(losses) == 2 and losses[0] == losses[1], losses


def rate_has_all_batches(printed):
    rates = [float(rate) for rate in re.findall(r'"lr-DecoupledAdamW/group0":(\S+)', printed)]
    assert len(rates) == 12 and [rates[i] for i in (0, 1, 4, 8)] == [0, 0.00025, 0.001, 0.00055], rates


CLAIMS = {"recomputation": recomputation_saves_memory, "hugging_face": conversion_keeps_the_loss, "learning_rate": rate_has_all_batches}


def prepare():
    shutil.rmtree(out, ignore_errors=True)
    (out / "build").mkdir(parents=True)
    (out / "build/apps").symlink_to(programs)
    shutil.copytree(source / "apps/configs", out / "apps/configs")
    for name in ("small.yaml", "finetune.yaml"):
        file = out / "apps/configs" / name
        file.write_text(narrowed(file.read_text()))
    text = sorted(str(path) for path in (source / "include/parallel").rglob("*.hpp"))
    run("build/apps/quickstart --config apps/configs/small.yaml --set max_duration=6ba --set eval_interval=0 "
        "--set scheduler.t_warmup=2ba " + " ".join(text), "quickstart")


def check_code(page, text):
    """Examples that are quoted exist, with the marks or lines that the page names. Returns their number."""
    count = 0
    for file, options in re.findall(r"^```\{literalinclude\} _files/(\S+)\n((?::.*\n)*)```", text, flags=re.MULTILINE):
        code = (source / file).read_text()
        for mark in re.findall(r'^:(?:start-after|start-at|end-before): "(.*)"$', options, flags=re.MULTILINE):
            assert mark in code, f"{page}: {file} has no line '{mark}'"
        count += 1
    for file in re.findall(r"<_files/(\S+)>", text):
        assert (source / file).exists(), f"{page}: {file} does not exist"
    return count


def follow(page):
    text = page.read_text()
    quoted = check_code(page.name, text)
    found = re.findall(r"^(<!-- numbers of .*\n)?```(\w+)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    blocks = [(language, block) for _, language, block in found]
    missing = {name for name in re.findall(r"build/apps/(\w+)", text) if not (programs / name).exists()}
    if missing:  # such as launch, where its libraries are not installed
        print(f"{page.name}: left out, as there is no {' and no '.join(sorted(missing))}")
        return 0, quoted
    base = (out / "apps/configs/small.yaml").read_text()
    mine = sections(base)
    printed, commands = "", 0
    for language, block in blocks:
        if language == "yaml":
            mine |= sections(block)
            (out / "my.yaml").write_text("".join(mine.values()))
        elif language == "sh":
            printed += run(block, page.name)
            commands += 1
    assert commands or quoted, f"{page.name}: no example"
    if commands == 0 and "text" in dict(blocks):
        for file in set(re.findall(r"<_files/docs/examples/(\w+)\.cpp>", text)):
            printed += run(str(examples / f"example_{file}"), page.name)
    for note, language, block in found:
        for line in block.strip().splitlines() if language == "text" else []:
            assert is_printed(line, printed, not note), f"{page.name}: '{line}' is not printed:\n{printed[-2000:]}"
    if page.stem in CLAIMS:
        CLAIMS[page.stem](printed)
    assert re.search(r"^More: ", text, re.MULTILINE), f"{page.name}: it does not say where more is explained"
    remark = "accepted and without effect here"
    assert "yaml" not in dict(blocks) or remark not in printed, f"{page.name}: a key has no effect:\n{printed[-2000:]}"
    return commands, quoted


def main():
    listed = re.findall(r"^howto_(\w+)$", (source / "docs/site/pages/howto.md").read_text(), flags=re.MULTILINE)
    pages = sorted(PAGES.glob("*.md"))
    assert sorted(listed) == [page.stem for page in pages], "howto.md lists other pages than there are"
    prepare()
    chosen = sys.argv[5:]
    counts = [follow(page) for page in pages if not chosen or page.stem in chosen]
    print(f"{len(counts)} pages: {sum(c for c, _ in counts)} blocks of commands run, {sum(q for _, q in counts)} quotations of examples")


main()
