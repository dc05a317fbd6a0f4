"""Makes ../golden/rotary.json: what transformers takes from rotary settings that a config.json has twice, in part, or as null.

Each case is the family, the settings, and the frequencies of the pairs and the factor on queries and keys.

    python make_rotary_golden.py    (torch, transformers 5.24)
"""

import json
import pathlib

import transformers

SIZES = {"vocab_size": 29, "hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 24,
         "max_position_embeddings": 128}
YARN = {"rope_type": "yarn", "factor": 4.0}
LLAMA3 = {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
HEAD = {"rotary_pct": 1.0}
CASES = [
    ("gpt_neox", {}), ("gpt_neox", HEAD), ("gpt_neox", HEAD | {"partial_rotary_factor": 0.25}),
    ("gpt_neox", {"partial_rotary_factor": 0.5}), ("gpt_neox", {"rotary_emb_base": 500}), ("gpt_neox", {"rope_theta": 500}),
    ("gpt_neox", {"rotary_emb_base": 500, "rope_theta": 10000}),
    ("gpt_neox", {"rope_parameters": {"rope_type": "default", "rope_theta": 700.0, "partial_rotary_factor": 0.5}}),
    ("gpt_neox", HEAD | {"rope_theta": 500, "rope_scaling": {"type": "linear", "factor": 2.0}}),
    ("llama", {"rope_scaling": None, "rope_theta": 500.0}), ("llama", {"rope_scaling": {}, "rope_theta": 500.0}),
    ("llama", {"rope_scaling": {"rope_type": "default", "factor": 2.0}}),
    ("llama", {"rope_scaling": {"type": "linear", "rope_type": "linear", "factor": 2.0}}),
    ("llama", {"rope_theta": 500.0, "rope_scaling": {"rope_type": "linear", "factor": 4.0},
               "rope_parameters": {"rope_type": "default", "rope_theta": 700.0}}),
    ("llama", {"rope_scaling": YARN}), ("llama", {"rope_scaling": YARN, "original_max_position_embeddings": 64}),
    ("llama", {"rope_scaling": YARN | {"original_max_position_embeddings": 32}}),
    ("llama", {"rope_scaling": YARN | {"factor": None}, "original_max_position_embeddings": 32}),
    ("llama", {"rope_scaling": YARN | {"beta_fast": None, "attention_factor": None, "mscale": 1.0}}),
    ("llama", {"rope_scaling": YARN | {"mscale": 0.7, "mscale_all_dim": 1.0, "truncate": False}}),
    ("llama", {"rope_scaling": LLAMA3}), ("llama", {"rope_scaling": LLAMA3, "original_max_position_embeddings": 32}),
]


def case(family, settings):
    config = transformers.AutoConfig.for_model(family, **json.loads(json.dumps(SIZES | settings)))
    model = transformers.AutoModelForCausalLM.from_config(config)
    rotary = next(m for name, m in model.named_modules() if name.endswith("rotary_emb"))
    return {"family": family, "settings": settings, "frequencies": [round(f, 9) for f in rotary.inv_freq.tolist()],
            "factor": rotary.attention_scaling}


transformers.logging.set_verbosity_error()
out = {"versions": {"transformers": transformers.__version__}, "sizes": SIZES, "cases": [case(*c) for c in CASES]}
lines = ",\n".join("  " + json.dumps(c) for c in out.pop("cases"))
text = json.dumps(out)[:-1] + ', "cases": [\n' + lines + "\n]}\n"
(pathlib.Path(__file__).parent.parent / "golden" / "rotary.json").write_text(text)
