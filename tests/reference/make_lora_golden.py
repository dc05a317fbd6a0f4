"""Makes ../golden/lora: adapters that PEFT wrote beside transformers' MptForCausalLM, with its logits, loss and gradients.

The models are those of ../golden/mpt_b1 and mpt_b2; both factors of every adapter are random, exactly representable in
bf16. Each folder has adapter_config.json and adapter_model.safetensors as PEFT's save_pretrained writes them, and
golden.safetensors: input_ids; logits and loss (all tokens but the first of a row); gradient/NAME of every factor.

    python make_lora_golden.py [--out ../golden]      # needs torch, transformers, peft, safetensors
"""

import argparse
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
}


def base_model(form, folder):
    with safe_open(folder / f"mpt_{form}.safetensors", "pt") as file:
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
        for parameter in factors.values():
            values = torch.randn(parameter.shape, generator=generator) * 0.1
            parameter.data.copy_(values.to(torch.bfloat16))
        model.save_pretrained(folder)
        (folder / "README.md").unlink(missing_ok=True)
        config = json.loads((folder / "adapter_config.json").read_text())
        config["target_modules"].sort()  # a set in PEFT
        (folder / "adapter_config.json").write_text(json.dumps(config, indent=2) + "\n")
        (folder / "adapter_model.safetensors").chmod(0o644)
        model.eval()  # no dropout
        vocabulary = model.config.vocab_size
        ids = torch.randint(vocabulary, (2, 16), generator=generator)
        logits = model(ids).logits
        loss = torch.nn.functional.cross_entropy(logits[:, :-1].reshape(-1, vocabulary), ids[:, 1:].reshape(-1))
        loss.backward()
        tensors = {"input_ids": ids.int(), "logits": logits, "loss": loss.reshape(1)}
        for parameter_name, parameter in factors.items():
            tensors["gradient/" + parameter_name.replace(".default", "")] = parameter.grad
        save(tensors, folder / "golden.safetensors", {"base": form, "seed": str(41 + number)})
        print(name, f"loss {loss.item():.6f}", len(factors), "factors")


if __name__ == "__main__":
    main()
