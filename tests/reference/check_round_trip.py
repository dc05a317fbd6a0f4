"""Models in and out again: transformers → convert (import) → convert (export) → transformers.

    python check_round_trip.py CONVERT [FORMS]

CONVERT is the program build/apps/convert. Random small MptForCausalLM in several configurations are saved by
transformers as safetensors, as shards, and as pytorch_model.bin, in float32, bfloat16 and float16. FORMS, the folder
of check_forms.py, adds every form with its own code, after transformers has saved it anew. What comes out has the
bytes that went in, tensor by tensor, and transformers computes the same logits to 1e-4.
"""

import argparse
import itertools
import pathlib
import subprocess
import tempfile

import safetensors.torch
import torch
import transformers

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
MODELS = {
    "plain": dict(d_model=16, n_heads=2, n_layers=1, vocab_size=31, max_seq_len=16),
    "odd heads": dict(d_model=30, n_heads=5, n_layers=2, vocab_size=50, max_seq_len=24),
    "clipped": dict(d_model=24, n_heads=6, n_layers=2, vocab_size=64, max_seq_len=16,
                    attn_config={"alibi": True, "clip_qkv": 0.6, "softmax_scale": 0.3}),
    "untied": dict(d_model=16, n_heads=4, n_layers=3, vocab_size=40, max_seq_len=16, tie_word_embeddings=False),
    "eps": dict(d_model=16, n_heads=4, n_layers=1, vocab_size=40, max_seq_len=16, layer_norm_epsilon=1e-2),
}
SAVED = {"safetensors": {}, "shards": {"max_shard_size": "4KB"}, "pickle": {"safe_serialization": False},
         "pickled shards": {"safe_serialization": False, "max_shard_size": "4KB"}}


def tensors_of(folder):
    files = sorted(folder.glob("*.safetensors"))
    return {k: v for f in files for k, v in safetensors.torch.load_file(f).items()}


def load(folder, dtype=torch.float32):
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, trust_remote_code=True,
                                                             local_files_only=True).eval()


def logits_of(model, ids):
    with torch.no_grad():
        return model(input_ids=ids, use_cache=False).logits.float()


def check(convert, model, saved, dtype, ids):
    """The largest difference of logits and the number of tensors compared byte by byte."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        model.save_pretrained(folder / "in", **saved)
        for source, target in (("in", "run"), ("run", "out")):
            subprocess.run([convert, folder / source, folder / target], check=True, stdout=subprocess.DEVNULL)
        out = tensors_of(folder / "out")
        before = model.state_dict()
        for name, tensor in out.items():
            assert tensor.dtype == dtype and torch.equal(tensor.view(torch.uint8), before[name].contiguous().view(torch.uint8)), name
        missing = set(before) - set(out) - ({"lm_head.weight"} if model.config.tie_word_embeddings else set())
        assert not missing, missing
        return (logits_of(load(folder / "out"), ids) - logits_of(load(folder / "in"), ids)).abs().max().item(), len(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("convert", type=pathlib.Path)
    parser.add_argument("forms", type=pathlib.Path, nargs="?")
    args = parser.parse_args()
    torch.manual_seed(1)
    worst = trips = tensors = 0
    for (name, config), (how, saved), dtype in itertools.product(
            MODELS.items(), SAVED.items(), (torch.float32, torch.bfloat16, torch.float16)):
        config = {"attn_config": {"alibi": True}} | config
        model = transformers.MptForCausalLM(transformers.MptConfig(no_bias=True, **config)).eval()
        with torch.no_grad():
            for p in model.parameters():
                p.copy_(torch.randn_like(p) * (0.3 if p.ndim > 1 else 1))
        ids = torch.randint(0, config["vocab_size"], (3, config["max_seq_len"]))
        apart, count = check(args.convert, model.to(dtype), saved, dtype, ids)
        worst, trips, tensors = max(worst, apart), trips + 1, tensors + count
    print(f"transformers' own: {trips} round trips, {tensors} tensors byte-equal, logits apart at most {worst:.1e}")
    forms = sorted(args.forms.glob("*.safetensors")) if args.forms else []
    apart_forms, own = 0.0, 0
    for path in forms:
        model = load(path.with_suffix(""))
        ids = safetensors.torch.load_file(path)["input_ids"].long()
        apart, count = check(args.convert, model, {}, torch.float32, ids)
        apart_forms, own, tensors = max(apart_forms, apart), own + 1, tensors + count
    if forms:
        print(f"forms of ours: {own} round trips by way of save_pretrained, logits apart at most {apart_forms:.1e}")
    raise SystemExit(max(worst, apart_forms) > 1e-4)


if __name__ == "__main__":
    main()
