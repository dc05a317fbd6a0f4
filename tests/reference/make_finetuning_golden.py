"""Writes ../golden/finetuning.json: what LLM Foundry makes of finetuning rows.

LLM Foundry's own code runs, unchanged: `data/finetuning/tasks.py` (forms, preprocessors, tokenising, which rows are
dropped), `data/finetuning/collator.py` (labels, padding) and `data/packing.py` (bins, the ratio `auto`). Stubbed are what
its modules import and never call here (datasets, composer.utils.dist) and the data loader that `auto` draws its rows
from, which hands the same collator the same rows. The rows are invented. With the folder of sample data as argument,
whole public sets under GPT-NeoX's tokenizer are added as counts and hashes.
"""

import hashlib
import json
import sys
import types
import warnings
from pathlib import Path

import foundry_import

import transformers  # before what is stubbed below, which it looks for

foundry_import.prepare()


def _module(name: str, **members) -> types.ModuleType:
    module = types.ModuleType(name)
    for key, value in members.items():
        setattr(module, key, value)
    sys.modules[name] = module
    if "." in name:
        parent, child = name.rsplit(".", 1)
        if parent in sys.modules:
            setattr(sys.modules[parent], child, module)
    return module


def _prepare_data_package() -> None:
    base = sys.modules["llmfoundry"].__path__[0]
    for name in ("data", "data/finetuning", "tokenizers"):
        _module("llmfoundry." + name.replace("/", ".")).__path__ = [f"{base}/{name}"]
    _module("datasets", **{name: object for name in ("Dataset", "DatasetDict", "IterableDataset", "IterableDatasetDict")})
    _module("datasets.exceptions", DatasetGenerationError=type("DatasetGenerationError", (Exception,), {}))
    utils = sys.modules["composer.utils"]
    utils.dist.is_available = lambda: False
    utils.dist.get_local_rank = lambda: 0
    utils.dist.get_global_rank = lambda: 0
    utils.get_device = None
    utils.reproducibility = types.SimpleNamespace(get_rng_state=lambda: None, seed_all=lambda seed: None,
                                                  load_rng_state=lambda state: None)
    data = sys.modules["llmfoundry.data"]
    data.SUPPORTED_MDS_ENCODING_TYPES, data.stream_remote_local_validate = [], None
    _module("llmfoundry.tokenizers", get_date_string=lambda: "")
    _module("llmfoundry.utils.file_utils", dist_mkdtemp=None)
    _module("llmfoundry.utils.logging_utils", SpecificWarningFilter=None)


_prepare_data_package()

import numpy  # noqa: E402
import streaming  # noqa: E402
import tokenizers  # noqa: E402
import torch  # noqa: E402
from llmfoundry.data import packing  # noqa: E402
from llmfoundry.data.finetuning import collator as collators  # noqa: E402
from llmfoundry.data.finetuning import tasks  # noqa: E402

warnings.filterwarnings("ignore")

SENTENCES = [
    "The quick brown fox jumps over the lazy dog. The dog doesn't mind; the fox does.\n",
    "In the beginning there was the word, and the word was with the weaver.  She'd woven 1234 threads, then 1235 more.\n",
    "Naïve cafés serve crème brûlée; the café isn't naïve.\n\n    indented    text\n",
]

PROMPTS = [
    {"prompt": "What does the fox do?", "response": "It jumps over the lazy dog."},
    {"prompt": "Why?\n", "completion": " The dog doesn't mind."},
    {"prompt": "### Instruction:\nname a café\n\n### Response:\n", "response": "Café Naïve"},
    {"prompt": "the end", "response": "is here<|endoftext|>"},
    {"prompt": "<|endoftext|>the", "response": "<|endoftext|>word"},
    {"prompt": "", "response": "nothing was asked"},
    {"prompt": "nothing is said", "response": ""},
    {"prompt": " ", "response": "\n"},
    {"prompt": "the word and the weaver " * 6, "response": "is cut off"},
    {"prompt": "short", "response": "the fox and the dog and the word " * 5},
    {"prompt": "日本語で?", "response": "はい 😀"},
    {"prompt": "1234 threads", "response": "then 1235 more"},
    {"prompt": "<s>the fox", "response": "<s>the dog"},
]

CHATS = [
    [("user", "Who jumps?"), ("assistant", "The fox.")],
    [("system", "You weave words."), ("user", "Weave."), ("assistant", "She'd woven 1234 threads."),
     ("user", "More?"), ("assistant", "1235 more.\n")],
    [("user", ""), ("assistant", "nothing was asked")],
    [("system", "Be brief."), ("assistant", "I begin."), ("tool", "42"), ("assistant", "It is 42."), ("user", "Sure?"),
     ("assistant", "Yes, the word was with the weaver, and the fox and the dog and the word.")],
    [("user", "naïve café?"), ("assistant", "")],
    [("user", "the lazy dog " * 14), ("assistant", "too long to be asked")],
    [("user", "one"), ("assistant", "two"), ("user", "the quick brown fox " * 14), ("assistant", "cut")],
]

PREPROCESSED = {
    "tatsu-lab/alpaca": [{"text": "Below is.\n\n### Instruction:\nGo\n\n### Response:\nGone", "output": "x"}],
    "HuggingFaceH4/databricks_dolly_15k": [
        {"instruction": "Name a fish", "input": "", "output": "Tope", "category": "qa"},
        {"instruction": "Which one?", "input": "Tope or Rope", "output": "Tope", "category": "qa"},
    ],
    "bigscience/P3": [{"inputs": "2 and 2", "targets": "4", "idx": 1}],
    "Muennighoff/P3": [{"inputs": "a", "targets": "b"}, {"inputs": "a ", "targets": "b"}, {"inputs": "a", "targets": "\tb"}],
    "Muennighoff/flan": [{"inputs": "a\n", "targets": "b", "task": "t"}],
    "teknium/OpenHermes-2.5": [{"conversations": [{"from": "human", "value": "Hi", "weight": 0}, {"from": "gpt", "value": "Ho"}],
                                "source": "s"}],
    "math-ai/StackMathQA": [{"Q": "1+1?", "A": "2", "meta": {}}],
    "AI-MO/NuminaMath-CoT": [{"messages": [{"role": "user", "content": "p"}, {"role": "assistant", "content": "q"}], "source": "s"}],
}


def base_tokenizer() -> dict:
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=290, min_frequency=2, special_tokens=["<|endoftext|>"],
                                             initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet())
    made.train_from_iterator(SENTENCES, trainer)
    return json.loads(made.to_str())


def added(token_id: int, content: str) -> dict:
    return {"id": token_id, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
            "special": True}


def template(front: list, back: list) -> dict:
    special = lambda token: {"SpecialToken": {"id": token, "type_id": 0}}
    ids = {"<s>": 290, "<|endoftext|>": 0}
    single = [special(t) for t in front] + [{"Sequence": {"id": "A", "type_id": 0}}] + [special(t) for t in back]
    return {"type": "Sequence", "processors": [
        {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True},
        {"type": "TemplateProcessing", "single": single, "pair": single + [{"Sequence": {"id": "B", "type_id": 1}}],
         "special_tokens": {t: {"id": t, "ids": [ids[t]], "tokens": [t]} for t in dict.fromkeys(front + back)}}]}


FAST = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False, "eos_token": "<|endoftext|>"}
NEOX = {"tokenizer_class": "GPTNeoXTokenizerFast", "eos_token": "<|endoftext|>", "bos_token": "<|endoftext|>",
        "unk_token": "<|endoftext|>", "add_prefix_space": False}

TOKENIZERS = {
    "plain": {"config": FAST},
    "chat": {"added": ["<|im_start|>", "<|im_end|>", "<|padding|>"],
             "config": {**FAST, "eos_token": "<|im_end|>", "pad_token": "<|padding|>"}},
    "bos": {"added": ["<s>"], "post_processor": template(["<s>"], []), "config": {**FAST, "bos_token": "<s>"}},
    "around": {"added": ["<s>"], "post_processor": template(["<s>"], ["<|endoftext|>"]), "config": {**FAST, "bos_token": "<s>"}},
    "neox": {"config": NEOX},
    "neox_bos": {"added": ["<s>"], "config": {**NEOX, "bos_token": "<s>", "add_bos_token": True}},
}


def load_tokenizer(base: dict, variant: dict, folder: Path):
    made = json.loads(json.dumps(base))
    for token in variant.get("added", []):
        made["added_tokens"].append(added(max(made["model"]["vocab"].values()) + 1 + len(made["added_tokens"]) - 1, token))
    if "post_processor" in variant:
        made["post_processor"] = variant["post_processor"]
    folder.mkdir(parents=True)
    (folder / "tokenizer.json").write_text(json.dumps(made))
    (folder / "tokenizer_config.json").write_text(json.dumps(variant["config"]))
    loaded = transformers.AutoTokenizer.from_pretrained(folder)
    if loaded.pad_token is None:  # as build_finetuning_dataloader does
        loaded.pad_token = loaded.eos_token
    return made, loaded


def rows_of(kind: str) -> list:
    if kind == "prompts":
        return PROMPTS
    return [{"messages": [{"role": role, "content": content} for role, content in chat]} for chat in CHATS]


def lists(batch) -> dict:
    return {key: batch[key].tolist() for key in ("input_ids", "labels", "attention_mask", "sequence_id")}


POLICIES = [("none", "last"), ("none", "all"), ("all", "last"), ("length>=12", "all")]


def examples_of(turns: list, policy: tuple, max_seq_len: int) -> list:
    """Numbers of the rows that are kept."""
    return [i for i, example in enumerate(turns)
            if tasks.is_valid_ift_example(max_seq_len, policy[0], policy[1], True, example)]


def collator(tokenizer, policy, max_seq_len, **options):
    return collators.Seq2SeqFinetuningCollator(tokenizer, max_seq_len, True, policy[1], policy[0], **options)


def random_turns(count: int, longest: int, seed: int) -> list:
    draw = numpy.random.default_rng(seed)
    out = []
    for _ in range(count):
        size = int(min(longest, 4 + draw.exponential(longest / 6)))
        prompt = int(draw.integers(1, size - 1))
        ids = draw.integers(1, 290, size).tolist()
        out.append({"turns": [{"input_ids": ids[:prompt], "labels": ids[prompt:]}]})
    return out


def pack(tokenizer, turns, side, **settings) -> dict:
    tokenizer.padding_side = side
    inner = collator(tokenizer, ("none", "last"), settings["max_seq_len"])
    packer = packing.BinPackCollator(inner, settings["rows"], settings["max_seq_len"], tokenizer.pad_token_id, side,
                                     settings["leftover"])
    batches = []
    for first in range(0, len(turns), settings["drawn"]):
        batches.append(lists(packer(turns[first:first + settings["drawn"]])))
    tokenizer.padding_side = "right"
    return {"turns": turns, "side": side, **settings, "batches": batches, "left": len(packer._leftover_bins),
            "waste": packer.waste, "efficiency": packer.efficiency}


def written(folder: Path, columns: dict, samples: list) -> dict:
    """Hashes of the files that streaming's writer makes of samples, as convert_finetuning_dataset.py has it write them."""
    with streaming.MDSWriter(columns=columns, out=str(folder)) as out:
        for sample in samples:
            out.write(sample)
    return {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in ("index.json", "shard.00000.mds")}


def auto(tokenizer, turns, max_seq_len, rows) -> dict:
    def build_dataloader(config, tokenizer, batch_size):
        made = collator(tokenizer, ("none", "last"), max_seq_len, pad_to_longest=config["dataset"]["pad_to_longest"])
        return types.SimpleNamespace(dataloader=[made(turns[:batch_size])])
    _module("llmfoundry.data.dataloader", build_dataloader=build_dataloader)
    ratio = packing.auto_packing_ratio({"dataset": {"max_seq_len": max_seq_len}}, tokenizer, rows)
    sizes = [min(max_seq_len, len(t["turns"][0]["input_ids"] + t["turns"][0]["labels"]) + 1) for t in turns]
    return {"lengths": sizes, "max_seq_len": max_seq_len, "rows": rows, "ratio": float(ratio)}


def digest_of(lists_of_ids) -> str:
    digest = hashlib.sha256()
    for ids in lists_of_ids:
        digest.update(numpy.asarray(ids, dtype="<i4").tobytes())
    return digest.hexdigest()


def shifted(labels: list) -> list:
    return labels[1:] + [-100]


def real(data: Path) -> list:
    tokenizer = transformers.AutoTokenizer.from_pretrained(data / "tokenizers/gpt-neox-20b")
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    out = []
    for name, mapping, length in [("dolly_hhrlhf_train_small.jsonl", None, 2048), ("dolly_hhrlhf_train_small.jsonl", None, 192),
                                  ("gsm8k_train.jsonl", {"prompt": "question", "response": "answer"}, 256)]:
        rows = [json.loads(line) for line in (data / "instruct" / name).open(encoding="utf-8")]
        if mapping:
            rows = list(map(tasks.dataset_constructor.get_preprocessing_fn_from_dict(mapping), rows))
        turns = [tasks.tokenize_formatted_example(row, tokenizer) for row in rows]
        turns = [turns[i] for i in examples_of(turns, ("none", "last"), length)]
        single = collator(tokenizer, ("none", "last"), length, pad_to_longest=True)
        made = [single([one]) for one in turns]
        entry = {"file": name, "mapping": mapping, "max_seq_len": length, "rows": len(rows), "kept": len(turns),
                 "ids": digest_of(one["input_ids"][0] for one in made),
                 "labels": digest_of(shifted(one["labels"][0].tolist()) for one in made)}
        sizes = [one["input_ids"].shape[1] for one in made]
        rows_a_batch, seed = 8, 17
        sampler = torch.utils.data.DistributedSampler(turns, num_replicas=1, rank=0, shuffle=True, seed=seed, drop_last=True)
        ordered = [turns[i] for i in sampler]
        ratio = auto(tokenizer, ordered, length, rows_a_batch)["ratio"]
        drawn = int(rows_a_batch * ratio)
        packer = packing.BinPackCollator(collator(tokenizer, ("none", "last"), length), rows_a_batch, length,
                                         tokenizer.pad_token_id, "right")
        batches = []
        for epoch in range(2):
            sampler.set_epoch(epoch)
            order = list(sampler)
            for first in range(0, len(order) - drawn + 1, drawn):
                batches.append(packer([turns[i] for i in order[first:first + drawn]]))
        entry |= {"rows_a_batch": rows_a_batch, "seed": seed, "ratio": float(ratio), "batches": len(batches),
                  "tokens": sum(sizes), "packed_ids": digest_of(b["input_ids"].flatten() for b in batches),
                  "packed_labels": digest_of(shifted(row) for b in batches for row in b["labels"].tolist()),
                  "packed_sequence_id": digest_of(b["sequence_id"].flatten() for b in batches)}
        out.append(entry)
        print(entry)
    return out


def main() -> None:
    import tempfile
    scratch = Path(tempfile.mkdtemp())
    base = base_tokenizer()
    out = {"versions": {"llm-foundry": "0.22.0", "transformers": transformers.__version__, "tokenizers": tokenizers.__version__,
                        "torch": torch.__version__, "numpy": numpy.__version__},
           "tokenizer": base, "tokenizers": {}, "prompts": PROMPTS, "chats": rows_of("chats"), "tokenized": [], "examples": [],
           "batches": [], "packed": [], "auto": [], "preprocessed": []}
    loaded = {}
    for name, variant in TOKENIZERS.items():
        made, loaded[name] = load_tokenizer(base, variant, scratch / name)
        out["tokenizers"][name] = {"added_tokens": made["added_tokens"], "post_processor": made["post_processor"],
                                   "config": variant["config"], "pad_id": loaded[name].pad_token_id}
    turns = {}
    for name, kind in [(n, "prompts") for n in TOKENIZERS] + [("plain", "chats"), ("chat", "chats"), ("around", "chats")]:
        made = [tasks.tokenize_formatted_example(row, loaded[name]) for row in rows_of(kind)]
        turns[name, kind] = [{"turns": [{"input_ids": t["input_ids"], "labels": t["labels"]} for t in e["turns"]]} for e in made]
        out["tokenized"].append({"tokenizer": name, "rows": kind,
                                 "turns": [[[t["input_ids"], t["labels"]] for t in e["turns"]] for e in turns[name, kind]]})
    for (name, kind), policies in [(("plain", "prompts"), POLICIES[::2]), (("bos", "prompts"), POLICIES[:1]),
                                   (("chat", "chats"), POLICIES)]:
        for policy in policies:
            for length in (24, 64):
                kept = examples_of(turns[name, kind], policy, length)
                rows = []
                for i in kept:
                    one = collator(loaded[name], policy, length, pad_to_longest=True)([turns[name, kind][i]])
                    rows.append([i, one["input_ids"][0].tolist(), one["labels"][0].tolist()])
                out["examples"].append({"tokenizer": name, "rows": kind, "target_prompts": policy[0], "target_responses": policy[1],
                                        "max_seq_len": length, "examples": rows})
    for side in ("right", "left"):
        for options in ({}, {"allow_pad_trimming": True}, {"pad_to_longest": True}):
            tokenizer = loaded["chat"]
            tokenizer.padding_side = side
            kept = [turns["chat", "chats"][i] for i in examples_of(turns["chat", "chats"], POLICIES[1], 96)]
            made = collator(tokenizer, POLICIES[1], 96, **options)
            out["batches"].append({"side": side, **options, "kept": len(kept), "max_seq_len": 96,
                                   "batches": [lists(made(kept[:2])), lists(made(kept[2:4]))]})
            tokenizer.padding_side = "right"
    plain = loaded["plain"]
    small = random_turns(60, 30, 1)
    out["packed"].append(pack(plain, small, "right", rows=3, max_seq_len=32, drawn=12, leftover=None))
    out["packed"].append(pack(plain, small, "left", rows=2, max_seq_len=32, drawn=15, leftover=2))
    out["packed"].append(pack(plain, small, "right", rows=4, max_seq_len=30, drawn=10, leftover=0))
    out["packed"].append(pack(plain, random_turns(23, 40, 2), "right", rows=5, max_seq_len=40, drawn=9, leftover=None))
    for count, longest, length, rows, seed in [(900, 300, 1024, 2, 3), (400, 1200, 2048, 1, 4), (60, 200, 512, 8, 5),
                                               (30, 100, 100, 4, 6), (500, 60, 640, 3, 7)]:
        out["auto"].append(auto(plain, random_turns(count, longest, seed), length, rows))
    for name, rows in PREPROCESSED.items():
        make = tasks.dataset_constructor.get_preprocessing_fn_from_str(name)
        out["preprocessed"].append({"set": name, "function": f"{make.__module__}:{make.__name__}", "rows": rows,
                                    "made": [make(dict(row)) for row in rows]})
    order = []
    for size, seed, epoch in [(10, 0, 0), (10, 0, 1), (37, 9176, 3)]:
        sampler = torch.utils.data.DistributedSampler(range(size), num_replicas=1, rank=0, shuffle=True, seed=seed, drop_last=True)
        sampler.set_epoch(epoch)
        order.append({"size": size, "seed": seed, "epoch": epoch, "order": list(sampler)})
    out["orders"] = order
    kept = [turns["plain", "prompts"][i] for i in examples_of(turns["plain", "prompts"], ("none", "last"), 64)]
    text = [{"prompt": row["prompt"], "response": row.get("response", row.get("completion"))} for row in PROMPTS]
    out["written"] = {
        "turns": {"kept": len(kept), **written(scratch / "turns", {"turns": "json"}, kept)},
        "text": written(scratch / "text", {"prompt": "str", "response": "str"}, text),
        "messages": written(scratch / "messages", {"messages": "json"}, rows_of("chats"))}
    if len(sys.argv) > 1:
        out["real"] = real(Path(sys.argv[1]))
    path = Path(__file__).parent.parent / "golden" / "finetuning.json"
    path.write_text(json.dumps(out, separators=(",", ":"), ensure_ascii=True) + "\n")
    print(path, path.stat().st_size, "bytes; auto", [one["ratio"] for one in out["auto"]])


if __name__ == "__main__":
    main()
