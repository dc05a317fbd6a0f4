#!/usr/bin/env python3
"""The whole journey of a model in one command: prepare, pretrain, evaluate, convert, reload, generate, finetune.

  bench/journey.py apps/configs/mpt/125m.yaml --text c4/*.json.gz --finetune train.jsonl test.jsonl
  bench/journey.py apps/configs/mpt/{125m,350m}.yaml --data my-copy-c4 --tokenizer tokenizer --set ranks=8

For each configuration it prints one row as LLM Foundry's reports have, and writes OUT/NAME/journey.json. The column
"convert+infer+eval" is "yes" only where comparisons hold, of the finetuned model as of the first: the checkpoint, the
Hugging Face folder made of it and the checkpoint made of that folder have the same loss to the last digit, they continue
a text alike, and finetuning lowers the loss on texts that it does not see. Otherwise it names what differs, and the exit code is 1.
"""
import argparse
import json
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
COLUMNS = ("model", "batches", "eval every", "nodes", "wall-clock s", "tokens/s", "MFU", "GiB per device", "checkpoint",
           "convert+infer+eval", "eval accuracy")


class Failure(Exception):
    """A program failed; the text says which, and the end of what it printed."""


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("configurations", nargs="+", type=pathlib.Path, help="training YAMLs, one for each model")
    parser.add_argument("--text", nargs="+", help="raw text, of which a tokenizer and a data set are made")
    parser.add_argument("--data", type=pathlib.Path, help="instead: a folder with prepared splits train and val")
    parser.add_argument("--tokenizer", type=pathlib.Path, help="the tokenizer of --data")
    parser.add_argument("--finetune", nargs=2, metavar=("TRAIN", "TEST"), help="prompts with responses, two files")
    parser.add_argument("--programs", type=pathlib.Path, default=ROOT / "build/apps")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("runs/journey"))
    parser.add_argument("--vocab-size", type=int, default=4096, help="of the tokenizer that is made of --text")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="overrides of pretraining")
    parser.add_argument("--set-finetuning", action="append", default=[], metavar="KEY=VALUE", help="of finetuning")
    parser.add_argument("--prompt", default="The most important thing")
    options = parser.parse_args()
    if (options.text is None) == (options.data is None):
        parser.error("give --text, or --data with --tokenizer")
    if options.data and not options.tokenizer:
        parser.error("--data needs --tokenizer")
    return options


class Journey:
    """The programs that one model goes through; `facts` is what they told."""

    def __init__(self, options, configuration):
        self.options, self.configuration = options, configuration
        self.folder = options.out / configuration.stem
        self.data = options.data or options.out / "data"
        self.tokenizer = options.tokenizer or options.out / "tokenizer"
        self.facts = {"configuration": str(configuration)}

    def run(self, program, *words):
        """The standard output of a program."""
        print(f"{program} {' '.join(map(str, words[:3]))}{' ...' * (len(words) > 3)}", file=sys.stderr, flush=True)
        result = subprocess.run([self.options.programs / program, *map(str, words)], capture_output=True, text=True)
        if result.returncode:
            raise Failure(f"{program} failed: {result.stderr.strip()[-1500:]}")
        return result.stdout

    def prepare(self):
        """A tokenizer and the splits, once for all models."""
        text = self.options.text
        if text is None:
            return
        note = self.options.out / "prepared.json"
        made_of = {"text": text, "vocabulary": self.options.vocab_size, "sequence length": self.sequence_length()}
        if note.exists():
            if json.loads(note.read_text()) != made_of:
                raise Failure(f"{self.data} was made of other text, or for another vocabulary or length; give another --out")
            return
        self.run("train_tokenizer", "--vocab_size", self.options.vocab_size, "--out", self.tokenizer, *text)
        for split, part in (("train", "rest"), ("val", "held_out")):
            self.run("prepare", "--tokenizer", self.tokenizer, "--concat_tokens", self.sequence_length(), "--eos_text",
                     "<|endoftext|>", "--compression", "zstd", "--out_root", self.data, "--split", split, "--hold_out", 20,
                     "--part", part, *text)
        note.write_text(json.dumps(made_of))

    def sequence_length(self):
        """max_seq_len of the configuration, in its variables."""
        for override in reversed(self.options.set):
            if override.startswith("variables.max_seq_len="):
                return override.partition("=")[2]
        for line in self.configuration.read_text().splitlines():
            if line.strip().startswith("max_seq_len:") and "$" not in line:
                return line.split(":")[1].split("#")[0].strip()
        raise Failure(f"{self.configuration} names no max_seq_len")

    def pretrain(self):
        checkpoints = self.folder / "checkpoints"
        self.run("pretrain", self.configuration, f"variables.data_local={self.data}", f"tokenizer.name={self.tokenizer}",
                 f"save_folder={checkpoints}", f"metrics_file={self.folder / 'metrics.jsonl'}", "progress_bar=false",
                 *self.options.set)
        self.facts["summary"] = json.loads((checkpoints / "summary.json").read_text())

    def forms(self, checkpoints, head):
        """A model as its checkpoint, as a Hugging Face folder, and as the checkpoint made of that folder."""
        exported, imported = self.folder / (head + "huggingface"), self.folder / (head + "imported")
        for folder in (exported, imported):
            shutil.rmtree(folder, ignore_errors=True)
        self.run("convert", checkpoints, exported)
        self.run("convert", exported, imported)
        return {"checkpoint": checkpoints, "Hugging Face folder": exported, "imported": imported}

    def compare_forms(self, checkpoints, head=""):
        """What differs between the forms of a model, whose folders begin with `head`; an empty list is what is hoped for."""
        losses, texts, forms = {}, {}, self.forms(checkpoints, head)
        end_of_text = json.loads((forms["Hugging Face folder"] / "config.json").read_text())["eos_token_id"]
        ends = ["--eos_token_id", end_of_text] if head else []  # attention of a finetuned model does not look across texts
        for name, model in forms.items():
            report = self.folder / "evaluation.json"
            self.run("evaluate", model, "--data", self.data / "val", "--tokenizer", self.tokenizer, "--json", report, *ends)
            losses[name] = json.loads(report.read_text())["cross_entropy"]
            if name != "imported":  # which has no tokenizer of its own
                texts[name] = self.run("generate", model, "--prompt", self.options.prompt, "--max_new_tokens", 24,
                                       "--temperature", 0)
        self.facts |= {head + "losses": losses, head + "texts": texts}
        problems = []
        if len(set(losses.values())) != 1:
            problems.append(f"the {head}loss depends on the form: " + ", ".join(f"{k} {v}" for k, v in losses.items()))
        if len(set(texts.values())) != 1 or not all(text.strip() for text in texts.values()):
            problems.append(f"the form changes the {head}text that is generated")
        return problems

    def finetune(self):
        """What goes wrong in finetuning the exported model."""
        train, test = self.options.finetune
        folder, metrics = self.folder / "finetuned", self.folder / "finetuning.jsonl"
        metrics.unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
        self.run("finetune", ROOT / "apps/configs/finetune.yaml", f"variables.model={self.folder / 'huggingface'}",
                 f"variables.train={train}", f"variables.test={test}", f"save_folder={folder}", f"metrics_file={metrics}",
                 "eval_first=true", "progress_bar=false", *self.options.set_finetuning)
        rows = [json.loads(line) for line in metrics.read_text().splitlines()]
        losses = [row["metrics/eval/LanguageCrossEntropy"] for row in rows if "metrics/eval/LanguageCrossEntropy" in row]
        self.facts |= {"finetuning": json.loads((folder / "summary.json").read_text()), "finetuning losses": losses}
        problems = self.compare_forms(folder, "finetuned-")
        if len(losses) < 2 or not losses[-1] < losses[0]:
            problems.append(f"finetuning does not lower the loss on unseen texts: {losses}")
        return problems

    def row(self, summary, verdict):
        """A row of the table."""
        row = summary["table_row"]

        def number(key, form, factor=1.0):
            return form.format(row[key] * factor) if row[key] is not None else "–"
        return (row["model"], f"{row['batches']:,}", row["evaluated_every"], str(row["nodes"]),
                number("wall_clock_seconds", "{:.1f}"), number("tokens_per_second", "{:,.0f}"), number("mfu", "{:.3f}"),
                number("gib_per_device", "{:.3g}"), number("checkpoint_bytes", "{:.3g} MiB", 2 ** -20), verdict,
                number("evaluation_accuracy", "{:.4f}"))

    def take(self):
        """Goes all the way; returns the rows, and what went wrong."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.prepare()
        self.pretrain()
        problems = self.compare_forms(self.folder / "checkpoints")
        finetuning_problems = self.finetune() if self.options.finetune else []
        for summary, folder, found in ((self.facts["summary"], "checkpoints", problems),
                                       (self.facts.get("finetuning"), "finetuned", finetuning_problems)):
            if summary:  # the verdict goes into the run's own file too, which `report` shows
                summary["table_row"]["conversion_inference_evaluation_ok"] = not found
                (self.folder / folder / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")
        rows = [self.row(self.facts["summary"], "no" if problems else "yes")]
        if self.options.finetune:
            row = list(self.row(self.facts["finetuning"], "no" if finetuning_problems else "yes"))
            rows.append((row[0] + ", finetuned", *row[1:]))
        self.facts["problems"] = problems + finetuning_problems
        (self.folder / "journey.json").write_text(json.dumps(self.facts, indent=2) + "\n")
        return rows, self.facts["problems"]


def main():
    options = parse_arguments()
    rows, problems = [], []
    for configuration in options.configurations:
        try:
            found, wrong = Journey(options, configuration).take()
        except (Failure, OSError, KeyError, ValueError) as problem:
            found, wrong = [(configuration.stem, *["–"] * (len(COLUMNS) - 3), "no", "–")], [str(problem)]
        rows += found
        problems += [f"{configuration.stem}: {text}" for text in wrong]
    for cells in (COLUMNS, ["---"] * len(COLUMNS), *rows):
        print(f"| {' | '.join(cells)} |")
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
