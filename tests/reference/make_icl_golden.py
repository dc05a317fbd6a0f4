"""Makes tests/golden/icl: prompts, draws, ids and scores of in-context-learning tasks by LLM Foundry's own code.

    make_icl_golden.py FOUNDRY [--data EVAL_DATA --tokenizer TOKENIZER]

FOUNDRY is a checkout of mosaicml/llm-foundry (8c8dd48 made what is committed). Three of its files are executed unchanged:
eval/datasets/in_context_learning_evaluation.py, eval/datasets/utils.py and eval/metrics/nlp.py. What they import is stubbed:
Hugging Face datasets by a list of dictionaries with `map`, Composer's download by a copy, torchmetrics.Metric by sums.

The task files here are invented. With --data (a folder of LLM Foundry's local_data and a tokenizer.json folder) hashes of all rows
of its own files are written to foundry_hashes.json: no text of theirs.
"""

import argparse
import contextlib
import importlib.util
import json
import os
import random
import shutil
import sys
import tempfile
import types

import torch
import transformers

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden")


class Dataset:
    """As much of datasets.Dataset as the tasks use."""

    def __init__(self, rows):
        names = {}
        for row in rows:
            names.update(dict.fromkeys(row))
        self.features = names
        self.rows = [{name: row.get(name) for name in names} for row in rows]

    def map(self, function, with_indices=False, fn_kwargs=None, **_):
        out = []
        for i, row in enumerate(self.rows):
            made = function(dict(row), *([i] if with_indices else []), **(fn_kwargs or {}))
            out.append({**row, **{k: self.plain(v) for k, v in made.items()}})
        return Dataset(out)

    @staticmethod
    def plain(value):
        if isinstance(value, torch.Tensor):
            return value.tolist()
        if isinstance(value, (list, set)):
            return [Dataset.plain(v) for v in value]
        return value

    def __getitem__(self, key):
        return [row[key] for row in self.rows] if isinstance(key, str) else self.rows[key]

    def __iter__(self):
        return iter(self.rows)

    def __len__(self):
        return len(self.rows)


def load_dataset(_, data_files, **__):
    with open(data_files, encoding="utf8") as file:
        return Dataset([json.loads(line) for line in file.read().split("\n") if line.strip()])


def foundry(root):
    """LLM Foundry's three modules."""

    def module(name, **members):
        sys.modules[name] = made = types.ModuleType(name)
        for key, value in members.items():
            setattr(made, key, value)
        return made

    @contextlib.contextmanager
    def nothing(*_, **__):
        yield

    class Metric:
        def __init__(self, *_, **__):
            self._enable_grad, self.compute_on_cpu, self._update_count, self._computed = False, False, 0, None

        def add_state(self, name, default, **_):
            setattr(self, name, default)

    distributed = module("composer.utils.dist", local_rank_zero_download_and_wait=nothing, get_local_rank=lambda: 0,
                         all_gather_object=lambda value: [value])
    module("composer")
    module("composer.core", DataSpec=object)
    module("composer.core.data_spec", _default_split_batch=None, _split_list=None)
    module("composer.utils", MissingConditionalImportError=ImportError, dist=distributed,
           get_file=lambda source, target, **_: source == target or shutil.copyfile(source, target))
    module("datasets", Dataset=Dataset, IterableDataset=Dataset, load_dataset=load_dataset)
    module("torchmetrics", Metric=Metric)
    module("llmfoundry", registry=None)
    module("llmfoundry.utils")
    module("llmfoundry.utils.registry_utils", construct_from_registry=None)
    module("llmfoundry.eval")
    module("llmfoundry.eval.datasets")

    def run(name, path):
        spec = importlib.util.spec_from_file_location(name, os.path.join(root, "llmfoundry/eval", path))
        sys.modules[name] = made = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(made)
        return made

    run("llmfoundry.eval.datasets.utils", "datasets/utils.py")
    return run("llmfoundry_tasks", "datasets/in_context_learning_evaluation.py"), run("llmfoundry_metrics", "metrics/nlp.py")


KINDS = {
    "language_modeling": ("InContextLearningLMTaskDataset", "context"),
    "multiple_choice": ("InContextLearningMultipleChoiceTaskDataset", "query"),
    "schema": ("InContextLearningSchemaTaskDataset", "context_options"),
    "generation_task_with_answers": ("InContextLearningGenerationTaskWithAnswersDataset", "context"),
}
PAD = -1  # no id: padding can be told apart


def run_task(tasks, tokenizer, kind, file, shots, texts=None, **options):
    """Rows as the model would read them: [{options: [[ids, begin], ...], gold, new_tokens}]."""
    name, context_key = KINDS[kind]
    with tempfile.TemporaryDirectory() as folder:
        dataset = getattr(tasks, name)(dataset_uri=file, tokenizer=tokenizer, pad_tok_id=PAD, num_fewshot=shots,
                                       destination_path=os.path.join(folder, "copy.jsonl"), **options)
    if texts is not None:
        inner = dataset.tokenize_example
        dataset.tokenize_example = lambda before, question, example: (texts.append([before, question]), inner(before, question, example))[1]
    out = []
    for i in range(len(dataset)):
        row = dataset[i]
        contexts, spans = row[context_key], row.get("continuation_indices")
        if kind == "generation_task_with_answers":
            ids = [id for id in contexts if id != PAD]
            out.append({"options": [[ids, len(ids)]], "gold": 0, "new_tokens": dataset.base_batch["generation_kwargs"]["max_new_tokens"]})
            continue
        if kind == "language_modeling":
            contexts, spans = [contexts], [spans]
        out.append({"options": [[ids[:span[-1] + 1], span[0]] for ids, span in zip(contexts, spans)],
                    "gold": row.get("gold", 0), "new_tokens": 0})
    return out


def split(tasks, file, folder):
    return tasks.partition_dataset_by_category(file, os.path.join(folder, "part.jsonl"), {}, {})


def row_hash(rows):
    """FNV-1a of 64 bits over 32-bit numbers: per row the options' count, gold, new tokens, and of each option begin, length, ids."""
    value = 0xCBF29CE484222325
    for row in rows:
        numbers = [len(row["options"]), row["gold"], row["new_tokens"]]
        for ids, begin in row["options"]:
            numbers += [begin, len(ids)] + ids
        for number in numbers:
            value = ((value ^ (number & 0xFFFFFFFF)) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


# ---- invented tasks

PLACES = ["harbour", "mill", "orchard", "quarry", "lighthouse", "market", "station", "bridge", "cellar", "meadow", "attic", "ferry"]
THINGS = ["a lantern", "two kettles", "the blue rope", "an anchor", "nine apples", "a map", "the bell", "some flour", "a ladder",
          "old letters", "a brass key", "an umbrella"]


def invented():
    lm = [{"context": f"In the {place} they keep{' ' if i % 3 == 0 else ''}", "continuation": THINGS[i] + (" " if i % 4 == 1 else ""),
           "category": ["wet", "dry", "in between"][i % 3]} for i, place in enumerate(PLACES)]
    lm[5]["context"] = " \u2003Wo liegt der Schlüssel?\u00a0"
    lm[5]["continuation"] = " Im Café — ganz hinten"
    choice = [{"query": f"Q: What do you carry to the {place}?\n", "gold": i % (2 + i % 3),
               "choices": [THINGS[(i * 5 + j) % 12] + (" " if j == 1 else "") for j in range(2 + i % 3)]} for i, place in enumerate(PLACES)]
    choice[3]["choices"][0] = " " + choice[3]["choices"][0]
    schema = [{"context_options": [f"Ada met Ben at the {place} because Ada", f"Ada met Ben at the {place} because Ben "],
               "continuation": f"had {THINGS[i]}. ", "gold": i % 2} for i, place in enumerate(PLACES)]
    answers = [{"context": f"Who keeps {thing}? ", "answer": f"The keeper of the {PLACES[i]}",
                "aliases": [f"the {PLACES[i]} keeper", f" keeper, {PLACES[i]}"][: i % 3]} for i, thing in enumerate(THINGS)]
    thoughts = [{"context": f"There are {i + 2} boats with {i + 3} oars each. How many oars?", "answer": str((i + 2) * (i + 3)),
                 "chain_of_thought": f"{i + 2} times {i + 3} is {(i + 2) * (i + 3)}. "} for i in range(9)]
    return {"language": lm, "choice": choice, "schema": schema, "answers": answers, "thoughts": thoughts}


CASES = [
    ("a", "language_modeling", "language", 0, {}),
    ("a", "language_modeling", "language", 3, {"continuation_delimiter": "\nAnswer: ", "categories": True}),
    ("a", "language_modeling", "language", 2, {"prompt_string": "Say what is there.\n", "prelimiter": "Text: ", "fewshot_random_seed": 7}),
    ("a", "language_modeling", "language", 40, {"example_delimiter": " ## ", "max_seq_len": 60}),
    ("b", "language_modeling", "language", 1, {}),
    ("a", "multiple_choice", "choice", 0, {}),
    ("a", "multiple_choice", "choice", 5, {"continuation_delimiter": "\nAnswer: ", "fewshot_random_seed": 2**40 + 5}),
    ("b", "multiple_choice", "choice", 2, {"prompt_string": "Choose. ", "max_seq_len": 90}),
    ("a", "schema", "schema", 0, {}),
    ("a", "schema", "schema", 4, {"continuation_delimiter": " so ", "prelimiter": "> "}),
    ("b", "schema", "schema", 1, {"prompt_string": "Who?"}),
    ("a", "generation_task_with_answers", "answers", 0, {}),
    ("b", "generation_task_with_answers", "answers", 3, {"continuation_delimiter": "\nA:", "prelimiter": "Q: "}),
    ("a", "generation_task_with_answers", "thoughts", 5,
     {"cot_delimiter": "The answer is ", "continuation_delimiter": "\n\nA:", "prelimiter": "Question: ", "max_seq_len": 160}),
]


def make_tokenizers(folder, texts):
    """a: some merges, nothing around texts. b: bytes alone, a token before and one after."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    for name, size in (("a", 420), ("b", 259)):
        made = Tokenizer(models.BPE())
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        made.decoder = decoders.ByteLevel()
        made.train_from_iterator(texts, trainers.BpeTrainer(
            vocab_size=size, special_tokens=["<|endoftext|>", "<begin>", "<pad>"], initial_alphabet=alphabet, show_progress=False))
        made.post_processor = processors.ByteLevel(trim_offsets=False) if name == "a" else processors.Sequence([
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing(single="<begin> $A <|endoftext|>", special_tokens=[("<begin>", 1), ("<|endoftext|>", 0)])])
        path = os.path.join(folder, "tokenizer_" + name)
        os.makedirs(path, exist_ok=True)
        with open(os.path.join(path, "tokenizer.json"), "w", encoding="utf8") as file:
            json.dump(json.loads(made.to_str()), file, ensure_ascii=False, separators=(",", ":"))
        with open(os.path.join(path, "tokenizer_config.json"), "w", encoding="utf8") as file:
            json.dump({"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|endoftext|>", "bos_token": "<begin>"}, file)


ANSWERS = [
    ("The  Answer, is: 42!", ["answer is 42"]), ("an apple a day", ["apple day"]), ("Theatre", ["atre", "theatre"]),
    ("“Quoted” ‘text’ it´s `so`", ["“quoted” text it s so"]), ("under_score_A", ["under score"]), ("İstanbul", ["i̇stanbul", "istanbul"]),
    ("ÉCOLE\u00a0normale", ["école normale"]), ("a\u0301 la carte", ["\u0301 la carte"]), ("", [""]), ("thé the tea", ["thé tea"]),
    ("42 is it", ["42"]), ("no", ["yes", "nope"]), ("A", [""]), ("x\x1cy", ["x y"]), ("½ a pint", ["½ pint"]), ("漢字 the 字", ["漢字 字"]),
]
EXACT = [
    (" so 5. The answer is 12.\n\nQ: next The answer is 9", ["12."], "The answer is ", False, ["\n\n", "Question:"]),
    ("The answer is 3 Question: The answer is 4", ["3"], "The answer is ", False, ["\n\n", "Question:"]),
    (" Paris ", [" paris"], "", False, None), (" Paris ", [" Paris"], "", False, None), ("Paris, France", ["paris"], "", True, None),
    ("no delimiter 7", ["7"], "The answer is ", False, ["\n\n"]), ("a\n\nb", ["b", "A"], "", True, ["\n\n"]),
]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("foundry")
    parser.add_argument("--data")
    parser.add_argument("--tokenizer")
    arguments = parser.parse_args()
    tasks, metrics = foundry(arguments.foundry)
    folder = os.path.join(GOLDEN, "icl")
    os.makedirs(folder, exist_ok=True)

    sets = invented()
    for name, rows in sets.items():
        with open(os.path.join(folder, name + ".jsonl"), "w", encoding="utf8") as file:
            file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    make_tokenizers(folder, [json.dumps(row, ensure_ascii=False).replace('"', " ") for rows in sets.values() for row in rows])

    draws = []
    choose = sys.modules["llmfoundry.eval.datasets.utils"].get_fewshot_sample_idxs
    for rows, shots, seed in [(2, 1, 1234), (12, 3, 1234), (21, 5, 0), (40, 10, 1234), (60, 6, 3), (100, 25, 1234), (2117, 10, 1234),
                              (90, 80, 11), (300, 100, 2**33 + 1), (20321, 3, 1234)] + [(9 + seed, 1 + seed % 8, seed) for seed in range(24)]:
        rng = random.Random(seed)
        draws.append({"rows": rows, "shots": shots, "seed": seed,
                      "draws": [list(choose(rows, shots, row, rng)) for row in range(min(rows, 30 if shots < 20 else 8))]})

    cases = []
    for words, kind, name, shots, options in CASES:
        options = dict(options)
        tokenizer = transformers.AutoTokenizer.from_pretrained(os.path.join(folder, "tokenizer_" + words))
        files = {"": os.path.join(folder, name + ".jsonl")}
        with tempfile.TemporaryDirectory() as scratch:
            if options.pop("categories", False):
                files = split(tasks, files[""], scratch)
            options.setdefault("max_seq_len", 2048)
            for category, file in files.items():
                texts = []
                rows = run_task(tasks, tokenizer, kind, file, shots, texts, **options)
                cases.append({"tokenizer": words, "kind": kind, "file": name, "shots": shots, "options": options, "category": category,
                              "texts": texts if len(files) == 1 and shots < 40 else [], "rows": rows})

    metric = metrics.InContextLearningGenerationExactMatchAccuracy()
    normalised = []
    for output, labels in ANSWERS:
        result = metric.update({}, [output], [labels])
        normalised.append({"output": output, "labels": labels, "cleaned": result["cleaned_output"][0], "correct": result["result"][0]})
    exact = []
    for output, labels, delimiter, normalise, stops in EXACT:
        result = metric.update({"cot_delimiter": delimiter, "do_normalization": normalise, "stopping_criteria": stops}, [output], [labels])
        exact.append({"output": output, "labels": labels, "cot_delimiter": delimiter, "do_normalization": normalise, "stops": stops or [],
                      "cleaned": result["cleaned_output"][0], "correct": result["result"][0]})

    with open(os.path.join(folder, "golden.json"), "w", encoding="utf8") as file:
        json.dump({"draws": draws, "cases": cases, "answers": normalised, "exact": exact}, file, ensure_ascii=False, separators=(",", ":"))
        file.write("\n")

    if not arguments.data:
        return
    tokenizer = transformers.AutoTokenizer.from_pretrained(arguments.tokenizer)
    hashes = []
    for kind, file, shots, options in OF_FOUNDRY:
        options = {"max_seq_len": 1024, **options}
        path = os.path.join(arguments.data, file)
        plain = {key: value for key, value in options.items() if key != "categories"}
        with tempfile.TemporaryDirectory() as scratch:
            files = split(tasks, path, scratch) if options.get("categories") else {"": path}
            for category, part in files.items():
                rows = run_task(tasks, tokenizer, kind, part, shots, **plain)
                hashes.append({"kind": kind, "file": file, "shots": shots, "options": options, "category": category,
                               "rows": len(rows), "hash": row_hash(rows)})
        print(file, shots, flush=True)
    with open(os.path.join(folder, "foundry_hashes.json"), "w", encoding="utf8") as file:
        json.dump(hashes, file, indent=1)
        file.write("\n")


ANSWER = {"continuation_delimiter": "\nAnswer: "}
THOUGHT = {"cot_delimiter": "The answer is ", "continuation_delimiter": "\n\nA:", "prelimiter": "Question: "}
OF_FOUNDRY = [
    ("language_modeling", "world_knowledge/jeopardy_all.jsonl", 10, {**ANSWER, "categories": True}),
    ("language_modeling", "language_understanding/lambada_openai_small.jsonl", 0, {}),
    ("language_modeling", "symbolic_problem_solving/bigbench_operators.jsonl", 3, {}),
    ("language_modeling", "symbolic_problem_solving/bigbench_dyck_languages.jsonl", 5, {}),
    ("language_modeling", "symbolic_problem_solving/bigbench_repeat_copy_logic.jsonl", 10, {}),
    ("language_modeling", "reading_comprehension/pubmed_qa_labeled.jsonl", 2, {}),
    ("multiple_choice", "commonsense_reasoning/copa.jsonl", 0, {}),
    ("multiple_choice", "commonsense_reasoning/commonsense_qa.jsonl", 10, {}),
    ("multiple_choice", "commonsense_reasoning/piqa.jsonl", 0, ANSWER),
    ("multiple_choice", "world_knowledge/arc_challenge.jsonl", 3, ANSWER),
    ("multiple_choice", "reading_comprehension/bigbench_understanding_fables.jsonl", 1, {}),
    ("schema", "language_understanding/winograd_wsc.jsonl", 3, {}),
    ("schema", "language_understanding/winogrande.jsonl", 5, {}),
    ("generation_task_with_answers", "world_knowledge/triviaqa_sm_sub.jsonl", 3, {}),
    ("generation_task_with_answers", "symbolic_problem_solving/svamp.jsonl", 5, THOUGHT),
    ("generation_task_with_answers", "symbolic_problem_solving/gsm8k.jsonl", 4, THOUGHT),
]

if __name__ == "__main__":
    main()
