"""Makes tests/golden/torch: one small MPT by transformers, saved in every way that pickles it.

    python make_torch_files.py        # torch, transformers, numpy; some seconds

model.safetensors          the weights, to compare with
bin/                       save_pretrained(safe_serialization=False): config.json, pytorch_model.bin
shards/                    the same in shards with pytorch_model.bin.index.json, in bfloat16
composer.pt                laid out as Composer lays out a checkpoint: state (model, optimizers, timestamp, the
                           configuration under integrations, ...) and the state of the random generators
legacy.bin                 one tensor, in the form that torch.save had before PyTorch 1.6
adapters.pt                a checkpoint of LoRA laid out as Composer's, which holds adapters alone
"""

import collections
import datetime
import pathlib
import random
import shutil

import numpy as np
import safetensors.torch
import torch
import transformers

OUT = pathlib.Path(__file__).resolve().parent.parent / "golden" / "torch"


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    torch.manual_seed(17)
    config = transformers.MptConfig(d_model=16, n_heads=2, n_layers=2, vocab_size=29, max_seq_len=12, no_bias=True,
                                    attn_config={"alibi": True, "clip_qkv": 2.0})
    model = transformers.MptForCausalLM(config)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn_like(p).bfloat16())
    state = collections.OrderedDict((k, v.clone()) for k, v in model.state_dict().items() if k != "lm_head.weight")
    safetensors.torch.save_file(state, OUT / "model.safetensors", {"format": "pt"})
    model.save_pretrained(OUT / "bin", safe_serialization=False)
    model.bfloat16().save_pretrained(OUT / "shards", safe_serialization=False, max_shard_size="4KB")

    foundry = {"model_type": "mpt", "architectures": ["MPTForCausalLM"], "d_model": 16, "n_heads": 2, "n_layers": 2,
               "vocab_size": 29, "max_seq_len": 12, "no_bias": True, "learned_pos_emb": False, "torch_dtype": "float32",
               "attn_config": {"alibi": True, "clip_qkv": 2.0, "attn_impl": "torch"}, "use_cache": False}
    generator = torch.Generator().manual_seed(3)
    adam = {"state": {k: {"step": torch.tensor(3.0), "exp_avg": torch.zeros_like(v)} for k, v in list(state.items())[:1]},
            "param_groups": [{"lr": 1e-4, "betas": (0.9, 0.95), "params": list(state)}]}
    torch.save({
        "state": {
            "model": collections.OrderedDict(("model." + k, v) for k, v in state.items()),
            "optimizers": {"DecoupledAdamW": adam},
            "schedulers": {"CosineAnnealingWithWarmupScheduler": {}},
            "algorithms": [("GradientClipping", {"repr": "GradientClipping()"})],
            "callbacks": [("SpeedMonitor", {"total_eval_wct": 0.0})],
            "timestamp": {"Timestamp": {"epoch": 0, "batch": 3, "total_wct": datetime.timedelta(seconds=5, microseconds=7)}},
            "rank_zero_seed": 17, "run_name": "golden", "dataset_state": {"train": None}, "train_metrics": set(),
            "integrations": {"huggingface": {"model": {"config": {"file_extension": ".json", "content": foundry},
                                                       "class": "transformers.models.mpt.MptForCausalLM"},
                                             "tokenizer": {}}},
            "metadata": {"composer_env_info": {"composer_version": "0.32.1"}, "device": "cpu"},
        },
        "rng": [{"python": random.Random(1).getstate(), "numpy": np.random.RandomState(1).get_state(),
                 "torch": generator.get_state()[:16].clone()}],
    }, OUT / "composer.pt")
    torch.save({"w": torch.zeros(1)}, OUT / "legacy.bin", _use_new_zipfile_serialization=False)
    layer = "model.base_model.model.transformer.blocks.0.attn.Wqkv"
    torch.save({"state": {
        "model": {layer + ".lora_A.default.weight": torch.zeros(1, 16), layer + ".lora_B.default.weight": torch.zeros(48, 1)},
        "integrations": {"huggingface": {"model": {
            "config": {"file_extension": ".json", "content": foundry},
            "peft_config": {"file_extension": ".json", "content": {"peft_type": "LORA", "r": 1}}}}},
    }}, OUT / "adapters.pt")
    for path in sorted(OUT.rglob("*")):
        if path.is_file():
            print(path.relative_to(OUT), path.stat().st_size)


if __name__ == "__main__":
    main()
