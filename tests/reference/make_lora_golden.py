"""Makes ../golden/lora, adapters that PEFT wrote for transformers' MptForCausalLM, and ../golden/mpt/lora, a model with
one.

The first adapt the models ../golden/mpt/b1 and b2; both factors of every adapter are random, exactly representable in
bf16. Each folder has adapter_config.json and adapter_model.safetensors as PEFT's save_pretrained writes them, and
golden.safetensors: input_ids and logits. mpt/lora.safetensors is like the files of make_golden.py, with peft_config in
addition to the model's configuration, and logits, loss and gradients of an fp64 run alone.

    python make_lora_golden.py [--out ../golden]      # needs torch, transformers, peft, safetensors
"""

import argparse
import contextlib
import json
import pathlib

import torch
import transformers
from peft import LoraConfig, get_peft_model
from safetensors import safe_open

from golden_file import save

torch.set_num_threads(1)

CASES = {
    "all": ("b1", dict(r=4, lora_alpha=6, target_modules="all-linear")),
    "stable": ("b2", dict(r=3, lora_alpha=2, use_rslora=True, lora_dropout=0.1,
                          target_modules=["Wqkv", "blocks.0.ffn.down_proj"])),
    "patterns": ("b1", dict(r=4, lora_alpha=6, use_rslora=True, target_modules=["Wqkv", "out_proj", "up_proj"],
                            rank_pattern={"1.attn.Wqkv": 2, "up_proj": 5},
                            alpha_pattern={"transformer.blocks.1.attn.Wqkv": 24, "blocks.0.attn.out_proj": 1.5})),
}


def base_model(form, folder):
    with safe_open(folder / f"mpt/{form}.safetensors", "pt") as file:
        config = json.loads(file.metadata()["config"])
        weights = {name[6:]: file.get_tensor(name) for name in file.keys() if name.startswith("param/")}
    attn = {k: v for k, v in config["attn_config"].items() if k in ("clip_qkv", "softmax_scale", "alibi", "alibi_bias_max")}
    model = transformers.MptForCausalLM(transformers.MptConfig(
        **{k: config[k] for k in ("d_model", "n_heads", "n_layers", "expansion_ratio", "max_seq_len", "vocab_size")},
        attn_config=attn, no_bias=True, use_cache=False))
    missing, unexpected = model.load_state_dict(weights, strict=False)
    assert not unexpected and set(missing) <= {"lm_head.weight"}, (missing, unexpected)
    model.tie_weights()
    return model


@contextlib.contextmanager
def keep_float64():
    """As in make_golden.py: what transformers writes to raise bf16 to fp32 must not lower fp64."""
    original = torch.Tensor.float
    torch.Tensor.float = lambda self, *a, **k: (
        original(self, *a, **k) if self.dtype.is_floating_point and self.dtype != torch.float64 else self.double())
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.Tensor.float = original
        torch.set_default_dtype(torch.float32)


def fill(parameters, deviation, generator):
    for parameter in parameters:
        parameter.data.copy_((torch.randn(parameter.shape, generator=generator) * deviation).to(torch.bfloat16))


def make_model(out):
    """Logits, loss and gradients of every parameter, adapted ones included."""
    sizes = dict(d_model=16, n_heads=2, n_layers=2, expansion_ratio=4, max_seq_len=8, vocab_size=29)
    settings = dict(r=3, lora_alpha=5, use_rslora=True, target_modules=["Wqkv", "out_proj", "up_proj", "down_proj"])
    generator = torch.Generator().manual_seed(51)
    model = get_peft_model(transformers.MptForCausalLM(transformers.MptConfig(**sizes, no_bias=True, use_cache=False)),
                           LoraConfig(task_type="CAUSAL_LM", **settings))
    fill((p for n, p in model.named_parameters() if "lora_" in n), 0.2, generator)
    fill((p for n, p in model.named_parameters() if "lora_" not in n and p.dim() > 1), 0.3, generator)
    name_of = lambda n: n.removeprefix("base_model.model.").replace(".base_layer", "").replace(".default", "")  # noqa: E731
    ids = torch.randint(sizes["vocab_size"], (2, 8), generator=generator)
    targets = torch.full_like(ids, -100)
    targets[:, :-1] = ids[:, 1:]
    tensors = {"input_ids": ids, "targets": targets}
    tensors |= {f"param/{name_of(n)}": p for n, p in model.named_parameters()}
    model.requires_grad_(True).double().eval()
    with keep_float64():
        result = model(ids, labels=ids)
        result.loss.backward()
    tensors |= {"logits64": result.logits, "loss64": result.loss.reshape(1)}
    tensors |= {f"grad64/{name_of(n)}": p.grad for n, p in model.named_parameters()}
    config = sizes | {"model_type": "mpt", "learned_pos_emb": False, "no_bias": True, "attn_config": {"alibi": True},
                      "peft_config": settings}
    save(tensors, out / "mpt/lora.safetensors", {"config": json.dumps(config), "source": "transformers and peft"})
    print("mpt_lora", f"loss {result.loss.item():.6f}", len(tensors), "tensors")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent.parent / "golden")
    out = parser.parse_args().out
    for number, (name, (form, settings)) in enumerate(CASES.items()):
        folder = out / "lora" / name
        model = get_peft_model(base_model(form, out), LoraConfig(task_type="CAUSAL_LM", **settings))
        generator = torch.Generator().manual_seed(41 + number)
        factors = {n: p for n, p in model.named_parameters() if p.requires_grad}
        assert factors and all("lora_" in n for n in factors)
        fill(factors.values(), 0.1, generator)
        model.save_pretrained(folder)
        (folder / "README.md").unlink(missing_ok=True)
        config = json.loads((folder / "adapter_config.json").read_text())
        config["target_modules"].sort()  # a set in PEFT
        (folder / "adapter_config.json").write_text(json.dumps(config, indent=2) + "\n")
        (folder / "adapter_model.safetensors").chmod(0o644)
        model.eval()  # no dropout
        vocabulary = model.config.vocab_size
        ids = torch.randint(vocabulary, (2, 16), generator=generator)
        save({"input_ids": ids.int(), "logits": model(ids).logits}, folder / "golden.safetensors", {"base": form})
        print(name, len(factors), "factors")
    make_model(out)


if __name__ == "__main__":
    main()
