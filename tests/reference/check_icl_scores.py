"""Compares `evaluate --rows` with LLM Foundry's tasks and metrics over transformers' model, row by row.

    check_icl_scores.py FOUNDRY MODEL TASKS.yaml ROWS.jsonl [--rows N] [--max_seq_len N]

FOUNDRY: a checkout of mosaicml/llm-foundry. MODEL: a Hugging Face folder that transformers loads (MPT with ALiBi, no biases), with
its tokenizer. ROWS.jsonl is what `evaluate MODEL --icl_tasks TASKS.yaml --rows ROWS.jsonl` wrote. Rows are made by LLM Foundry's
datasets (make_icl_golden.py says what is stubbed) and scored by its metrics on logits in fp32; each option's loss must agree to
1e-4 of itself (of 1 below that), and every row must be right or wrong alike. Exit status 1 otherwise. --rows: only the first N of each task.
"""

import argparse
import collections
import json
import os
import sys
import tempfile

import torch
import transformers
import yaml

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from make_icl_golden import foundry, run_task, split  # noqa: E402

NAMES = {"question_prelimiter": "prelimiter"}
OPTIONS = ["prompt_string", "example_delimiter", "continuation_delimiter", "question_prelimiter", "prelimiter", "cot_delimiter",
           "early_stopping_criteria", "do_normalization", "fewshot_random_seed"]


def near(name, beside):
    folder = os.path.abspath(beside)
    while not os.path.exists(name):
        folder, name = os.path.dirname(folder), name
        if os.path.exists(os.path.join(folder, name)):
            return os.path.join(folder, name)
        if folder == "/":
            raise FileNotFoundError(name)
    return name


class Scorer:
    def __init__(self, metrics, model, tokenizer):
        self.metrics, self.model, self.tokenizer = metrics, model, tokenizer

    def logits(self, ids):
        return self.model(torch.tensor([ids])).logits[0].float()

    def row(self, kind, row, task, labels):
        """(correct, losses, output) of one row."""
        if kind == "generation_task_with_answers":
            ids = row["options"][0][0]
            made = self.model.generate(torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long), do_sample=False,
                                       max_new_tokens=row["new_tokens"], eos_token_id=self.tokenizer.eos_token_id,
                                       pad_token_id=self.tokenizer.eos_token_id)
            output = self.tokenizer.decode(made[0][len(ids):], skip_special_tokens=True)
            metric = self.metrics.InContextLearningGenerationExactMatchAccuracy()
            result = metric.update({"cot_delimiter": task.get("cot_delimiter", ""), "do_normalization": task.get("do_normalization", True),
                                    "stopping_criteria": task.get("early_stopping_criteria")}, [output], [labels])
            return result["result"][0], None, output
        outputs, targets, spans, losses = [], [], [], []
        length = max(len(ids) for ids, _ in row["options"])
        for ids, begin in row["options"]:
            padded = torch.tensor(ids + [0] * (length - len(ids)))
            logits = self.logits(ids)
            outputs.append(torch.cat([logits, torch.zeros(length - len(ids), logits.shape[1])]))
            targets.append(torch.roll(padded, -1))
            spans.append(torch.arange(begin, len(ids)))
            losses.append(torch.nn.functional.cross_entropy(outputs[-1][spans[-1] - 1], targets[-1][spans[-1] - 1]).item())
        batch = {"continuation_indices": spans, "choice_groupings": [(0, len(spans))], "gold_indices": [row["gold"]],
                 "input_ids": torch.stack([torch.tensor(ids + [0] * (length - len(ids))) for ids, _ in row["options"]])}
        name = "LMAccuracy" if kind == "language_modeling" else "MultipleChoiceAccuracy"
        metric = getattr(self.metrics, "InContextLearning" + name)()
        return metric.update(batch, torch.stack(outputs), torch.stack(targets))["result"][0], losses, None


@torch.no_grad()
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("foundry")
    parser.add_argument("model")
    parser.add_argument("tasks")
    parser.add_argument("found")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--max_seq_len", type=int)
    arguments = parser.parse_args()
    tasks, metrics = foundry(arguments.foundry)
    tokenizer = transformers.AutoTokenizer.from_pretrained(arguments.model)
    model = transformers.MptForCausalLM.from_pretrained(arguments.model).eval()
    scorer = Scorer(metrics, model, tokenizer)
    longest = arguments.max_seq_len or model.config.max_seq_len
    found = collections.defaultdict(list)
    with open(arguments.found, encoding="utf8") as file:
        for line in file.read().split("\n"):
            if line:
                row = json.loads(line)
                found[row["task"], row["num_fewshot"], row["category"]].append(row)

    failures = 0
    with open(arguments.tasks, encoding="utf8") as file:
        listed = yaml.safe_load(file)["icl_tasks"]
    for task in listed:
        kind, path = task["icl_task_type"], near(task["dataset_uri"], arguments.tasks)
        options = {NAMES.get(key, key): task[key] for key in OPTIONS if key in task}
        options["max_seq_len"] = task.get("max_seq_len", longest)
        for shots in task["num_fewshot"]:
            with tempfile.TemporaryDirectory() as scratch:
                files = split(tasks, path, scratch) if task.get("has_categories") else {"": path}
                rows = right = other = texts = 0
                worst = 0.0
                for category, part in files.items():
                    with open(part, encoding="utf8") as file:
                        source = [json.loads(line) for line in file.read().split("\n") if line.strip()]
                    ours = found[task["label"], shots, category]
                    expected = run_task(tasks, tokenizer, kind, part, shots, **options)
                    if len(ours) != len(expected):
                        sys.exit(f"{task['label']}: {len(ours)} rows of ours, {len(expected)} of theirs")
                    for i, row in enumerate(expected[: arguments.rows]):
                        labels = [source[i]["answer"]] + source[i].get("aliases", []) if kind.startswith("generation") else None
                        correct, losses, output = scorer.row(kind, row, task, labels)
                        rows, right = rows + 1, right + correct
                        if losses is not None:
                            worst = max(worst, *(abs(a - b) / max(1, a) for a, b in zip(losses, ours[i]["losses"], strict=True)))
                        elif not output.startswith(ours[i]["output"]):  # ours ends at the first stop string
                            texts += 1
                        other += bool(correct) != ours[i]["correct"]
                print(f"{task['label']}/{shots}-shot: {rows} rows, accuracy {right / rows:.6f}, right or wrong otherwise: {other}, "
                      + (f"other texts: {texts}" if kind.startswith("generation") else f"losses apart by at most {worst:.1e} of them"), flush=True)
                failures += other + texts + (worst > 1e-4)
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
