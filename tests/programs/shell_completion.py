#!/usr/bin/env python3
"""shell_completion.py PROGRAMS WORK: types command lines of pretrain into real shells, bash and (where it is installed) zsh, presses
the tabulator, and compares the lines that they make of them: keys of the YAML, names behind a dot, files behind "="."""
import os
import pathlib
import pty
import re
import select
import shutil
import subprocess
import sys
import time

programs, work = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
shutil.rmtree(work, ignore_errors=True)
work.mkdir(parents=True)
(work / "run.yaml").write_text("max_seq_len: 128\nmodel: {name: mpt_causal_lm, d_model: 64\n")  # as it is while one writes it
(work / "my dir").mkdir()
(work / "my dir/run.yaml").write_text("max_seq_len: 128\nmodel: {name: mpt_causal_lm, d_model: 64, n_heads: 4, n_layers: 2}\n")
(work / "checkpoints-of-run").mkdir()

LINES = {
    "pretrain run.yaml max_du": "max_duration=",
    "pretrain run.yaml model.attn_config.kv_n": "model.attn_config.kv_n_heads=",
    "pretrain run.yaml max_duration=4ba schedu": "scheduler.",
    "pretrain run.yaml zero_stage=1 callbacks.early_stopper.pat": "callbacks.early_stopper.patience=",
    "finetune run.yaml max_du": "max_duration=",
    "finetune run.yaml train_loader.dataset.hf_n": "train_loader.dataset.hf_name=",
    "pretrain ~/run.yaml max_du": "max_duration=",
    "pretrain $HOME/run.yaml max_du": "max_duration=",
    "pretrain my\\ dir/run.yaml max_du": "max_duration=",
    "pretrain \"my dir/run.yaml\" model.peft_config.r=8 model.peft_config.lora_al": "model.peft_config.lora_alpha=",
    "pretrain run.yaml save_folder=checkpoints-": "save_folder=checkpoints-of-run",
    "pretrain run.y": "run.yaml",
    "pretrain run.yaml --he": "--help",
}


class Shell:
    """An interactive shell at its own terminal."""

    def __init__(self, command, setup):
        environment = {"PATH": f"{programs}:{os.environ['PATH']}", "TERM": "xterm", "PS1": "READY> ", "HOME": str(work.resolve()),
                       "EDITOR": "emacs", "LC_ALL": "C.UTF-8"}
        self.process, self.terminal = pty.fork()
        if self.process == 0:
            os.chdir(work)
            os.execvpe(command[0], command, environment)
        for line in setup:
            self.type(line + "; echo DO''NE\r")
            self.read_until("DONE\r?\n")

    def type(self, text):
        os.write(self.terminal, text.encode())

    def read_until(self, pattern):
        seen, end = "", time.monotonic() + 60
        while not re.search(pattern, seen):
            assert time.monotonic() < end, f"nothing matches {pattern} in {seen!r}"
            if select.select([self.terminal], [], [], 1)[0]:
                seen += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]", "", os.read(self.terminal, 65536).decode(errors="replace"))
        return re.search(pattern, seen)

    def completed(self, line):
        """The line's last word after the tabulator. The shell makes `echo` print it."""
        self.type(line + "\t\x01echo RES''ULT \x05\r")
        return self.read_until(r"RESULT ([^\r\n]*)\r?\n")[1].split()[-1].removesuffix("/")  # which zsh takes away itself

    def close(self):
        os.close(self.terminal)
        os.waitpid(self.process, 0)


def scripts(shell):
    return [f"source <({program} --completion {shell})" for program in ("pretrain", "finetune")]


shells = {"bash": lambda: Shell(["bash", "--norc", "--noprofile", "-i"], scripts("bash"))}
if shutil.which("zsh"):
    shells["zsh"] = lambda: Shell(["zsh", "-f", "-i"], ["autoload -Uz compinit", "compinit -u -D", *scripts("zsh")])
for name, start in shells.items():
    shell = start()
    for line, expected in LINES.items():
        found = shell.completed(line)
        assert found == expected, f"{name} makes '{found}' of '{line}'"
    shell.close()

listed = subprocess.run([programs / "pretrain", work / "run.yaml", "--keys"], capture_output=True, text=True, check=True).stdout
keys = dict(line.split("\t", 1) for line in listed.splitlines())
assert keys["max_duration"].startswith("a time such as 100ba"), keys["max_duration"]
assert len(keys) > 200 and "python_log_level" not in keys and "model" not in keys, len(keys)
print(f"{len(keys)} keys; {len(LINES)} lines are completed by {' and '.join(shells)}")
