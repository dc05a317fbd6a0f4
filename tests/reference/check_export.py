"""Loads an exported Hugging Face folder with transformers, strictly, and says what it computes (one JSON line).

    python check_export.py FOLDER [--ids FILE.npy|FILE.json] [--seq N] [--dtype float32|float64|bfloat16]
                                  [--generate TEXT] [--new-tokens N]

The model must be a form (b) MPT (model_type mpt: ALiBi, no bias). No parameter may be missing, unexpected or of another
shape, and what transformers ignores in config.json must be harmless. Ids: an array [rows, seq], or a flat one that
`--seq` cuts into rows (the rest is dropped; without it, one row). Each row is scored on its own: the cross entropy is
the mean over all predicted tokens, seq-1 in each row, in natural logarithms.
"""

import argparse
import json
import math
import pathlib

import numpy as np
import safetensors
import torch
import transformers

transformers.logging.set_verbosity_error()


def refuse_what_transformers_ignores(config):
    """transformers' MPT reads little of its config; a model that needs more would load and compute something else."""
    attn = config.get("attn_config") or {}
    wrong = []
    for where, name, expected in (
            (config, "no_bias", True), (config, "expansion_ratio", 4), (config, "logit_scale", None),
            (config, "tie_word_embeddings", True), (config, "final_logit_softcapping", None),
            (config, "block_overrides", None), (attn, "alibi", True), (attn, "alibi_bias_max", 8),
            (attn, "qk_ln", False), (attn, "qk_gn", False), (attn, "rope", False), (attn, "sliding_window_size", -1),
            (attn, "attn_logit_softcapping", None), (attn, "attn_type", "multihead_attention"),
            (config, "attention_bias", None if "attention_bias" not in config else False)):
        if where.get(name, expected) != expected:
            wrong.append(f"{name} = {where[name]!r} (transformers computes as if {expected!r})")
    if config.get("norm_eps", 1e-5) != config.get("layer_norm_epsilon", 1e-5):
        wrong.append("norm_eps differs from layer_norm_epsilon, which is what transformers reads")
    if wrong:
        raise SystemExit("config.json asks for what transformers' MPT does not do: " + "; ".join(wrong))


def load(folder, dtype):
    config = json.loads((folder / "config.json").read_text())
    if config.get("model_type") != "mpt":
        raise SystemExit(f"config.json: model_type is {config.get('model_type')!r}, not 'mpt'")
    refuse_what_transformers_ignores(config)
    model, info = transformers.MptForCausalLM.from_pretrained(
        folder, torch_dtype=dtype, output_loading_info=True, local_files_only=True, attn_implementation="eager")
    problems = {k: sorted(map(str, v)) for k, v in info.items() if v}
    if problems:
        raise SystemExit(f"the weights do not fit the model: {json.dumps(problems)}")
    # The tied lm_head.weight may be absent; where it is present transformers drops it unread, so it is compared here.
    stored = {}
    for path in sorted(folder.glob("*.safetensors")):
        with safetensors.safe_open(path, "pt") as file:
            stored |= {k: file.get_tensor(k) for k in file.keys() if k in ("lm_head.weight", "transformer.wte.weight")}
    if "lm_head.weight" in stored and not torch.equal(stored["lm_head.weight"], stored["transformer.wte.weight"]):
        raise SystemExit("lm_head.weight is not transformer.wte.weight, but transformers would take it so")
    return config, model.eval()


def cross_entropy(model, rows):
    total, count = 0.0, 0
    with torch.no_grad():
        for row in rows:
            logits = model(input_ids=row[None], use_cache=False).logits[0, :-1]
            logits = logits if logits.dtype == torch.float64 else logits.float()
            total += torch.nn.functional.cross_entropy(logits, row[1:], reduction="sum").double().item()
            count += len(row) - 1
    return total / count, count


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--ids", type=pathlib.Path)
    parser.add_argument("--seq", type=int)
    parser.add_argument("--dtype", default="float32", choices=("float32", "float64", "bfloat16"))
    parser.add_argument("--generate", metavar="TEXT")
    parser.add_argument("--new-tokens", type=int, default=20)
    args = parser.parse_args()

    # fp64 is fp32's check: attention's softmax stays fp32 inside transformers.
    if args.dtype == "float64":
        torch.set_default_dtype(torch.float64)
    config, model = load(args.folder, getattr(torch, args.dtype))
    result = {"config": config, "dtype": args.dtype,
              "parameters": sum(p.numel() for p in model.parameters()), "transformers": transformers.__version__}
    if args.ids:
        ids = np.load(args.ids, allow_pickle=False) if args.ids.suffix == ".npy" else \
            np.asarray(json.loads(args.ids.read_text()))
        ids = ids.astype(np.int64)
        if ids.ndim == 1:
            seq = args.seq or len(ids)
            ids = ids[: len(ids) // seq * seq].reshape(-1, seq)
        if ids.ndim != 2 or not 2 <= ids.shape[1] <= model.config.max_seq_len or ids.min() < 0 or ids.max() >= model.config.vocab_size:
            raise SystemExit(f"ids: shape {ids.shape}, range {ids.min()}..{ids.max()} do not suit the model "
                             f"(max_seq_len {model.config.max_seq_len}, vocab_size {model.config.vocab_size})")
        loss, count = cross_entropy(model, torch.from_numpy(ids))
        result |= {"cross_entropy": loss, "perplexity": math.exp(loss), "tokens": count}
    tokenizer_files = sorted(f.name for f in args.folder.glob("*token*"))
    if tokenizer_files:
        tokenizer = transformers.AutoTokenizer.from_pretrained(args.folder, local_files_only=True)
        result |= {"tokenizer": type(tokenizer).__name__, "tokenizer_size": len(tokenizer),
                   "tokenizer_files": tokenizer_files, "eos_token_id": tokenizer.eos_token_id}
        if len(tokenizer) > model.config.vocab_size:
            raise SystemExit(f"the tokenizer has {len(tokenizer)} ids, the model {model.config.vocab_size}")
    if args.generate is not None:
        if not tokenizer_files:
            raise SystemExit("--generate needs tokenizer files in the folder")
        prompt = tokenizer(args.generate, return_tensors="pt", return_token_type_ids=False)
        out = model.generate(**prompt, max_new_tokens=args.new_tokens, do_sample=False, use_cache=True,
                             pad_token_id=tokenizer.eos_token_id)[0]
        result |= {"prompt_ids": prompt["input_ids"][0].tolist(), "generated_ids":
                   out[prompt["input_ids"].shape[1]:].tolist(), "generated_text": tokenizer.decode(out)}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
