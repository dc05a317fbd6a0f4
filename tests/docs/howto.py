#!/usr/bin/env python3
"""howto.py SOURCE OUT PROGRAMS EXAMPLES: does what the how-to pages of the site say, in OUT.

A page's commands run in order, with narrower models, after a small `./run pretrain`; its YAML takes the place of those
sections of small.yaml in my.yaml. Every line of its text blocks is printed by a command (or, on a page without commands, by the
example that it downloads), whatever the numbers and spaces are. Code that it quotes exists. EXAMPLES: the folder of the compiled examples."""
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


def without_numbers(text):
    return " ".join(re.sub(r"\d[\d.,]*(e-?\d+)?", "#", text).split())


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
    blocks = re.findall(r"^```(\w+)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
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
    for language, block in blocks:
        for line in block.strip().splitlines() if language == "text" else []:
            assert without_numbers(line) in without_numbers(printed), f"{page.name}: '{line}' is not printed:\n{printed[-2000:]}"
    assert re.search(r"^More: ", text, re.MULTILINE), f"{page.name}: it does not say where more is explained"
    note = "accepted and without effect here"
    assert "yaml" not in dict(blocks) or note not in printed, f"{page.name}: a key has no effect:\n{printed[-2000:]}"
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
