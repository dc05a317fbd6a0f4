"""Makes the golden trainings in ../golden (see README.md next to this file): whole runs of tiny MPTs by PyTorch.

What trains is PyTorch: its autograd, its AdamW, its clipping by norm and by value. What is written here is what PyTorch
has not: the model, its masks, Lion, clipping by rows, the schedules. Before anything is written these are held against
what LLM Foundry, transformers and Composer themselves gave (the other golden files). Nothing of the library is asked:
its documentation alone says which elements dropout drops.

    python make_training.py [--out ../golden]
"""

import argparse
import importlib.metadata
import json
import math
import pathlib
import re

import numpy as np
import torch
import torch.nn.functional as F
from safetensors import safe_open

from golden_file import save

torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden"
VERSIONS = {name: importlib.metadata.version(name) for name in ("torch", "safetensors", "numpy")}
VOCABULARY, BATCH, LENGTH, BATCHES_PER_EPOCH, STEPS = 62, 16, 24, 6, 24


# --- random numbers ------------------------------------------------------------------------------

def philox(counters, key):
    """Philox4x32-10 (Salmon et al., SC'11): uint32 [n, 4] for counters [n, 4] under a key of two words."""
    c0, c1, c2, c3 = (counters[:, i].astype(np.uint64) for i in range(4))
    k0, k1 = (np.uint64(k) for k in key)
    low, shift = np.uint64(0xFFFFFFFF), np.uint64(32)
    for _ in range(10):
        p0, p1 = np.uint64(0xD2511F53) * c0, np.uint64(0xCD9E8D57) * c2
        c0, c1, c2, c3 = (p1 >> shift) ^ c1 ^ k0, p1 & low, (p0 >> shift) ^ c3 ^ k1, p0 & low
        k0, k1 = (k0 + np.uint64(0x9E3779B9)) & low, (k1 + np.uint64(0xBB67AE85)) & low
    return np.stack([c0, c1, c2, c3], axis=1).astype(np.uint32)


def check_philox():
    """The authors' known answers (Random123, kat_vectors)."""
    for counter, key, answer in (
            ([0] * 4, [0] * 2, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
            ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
            ([0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344], [0xA4093822, 0x299F31D0],
             "d16cfe09 94fdcceb 5001e420 24126ea1")):
        got = philox(np.array([counter], dtype=np.uint64), key)[0]
        assert " ".join(f"{word:08x}" for word in got) == answer


def stream_id(name):
    """FNV-1a of the operation's name."""
    value = 2166136261
    for byte in name.encode():
        value = (value ^ byte) * 16777619 & 0xFFFFFFFF
    return value


def dropout_factors(shape, probability, seed, operation, step, dtype):
    """What dropout multiplies elements 0, 1, ... by: 1 / (1 - p) where uniform(element) >= p, else 0.

    Key: the seed's two words. Counter: element / 4 (two words), the operation's id, the number of finished steps;
    element i takes word i % 4. uniform = (bits / 2^9 + 0.5) / 2^23; p is an fp32 number."""
    count = math.prod(shape)
    blocks = np.arange((count + 3) // 4, dtype=np.uint64)
    counters = np.zeros((len(blocks), 4), dtype=np.uint64)
    counters[:, 0], counters[:, 1] = blocks & np.uint64(0xFFFFFFFF), blocks >> np.uint64(32)
    counters[:, 2], counters[:, 3] = stream_id(operation), step
    bits = philox(counters, (seed & 0xFFFFFFFF, seed >> 32)).reshape(-1)[:count]
    uniform = ((bits >> 9).astype(np.float64) + 0.5) / 2.0**23
    p = float(np.float32(probability))
    return torch.from_numpy((uniform >= p).reshape(shape)).to(dtype) / (1 - p)


class Masks:
    """The masks of one step. Elements are counted over the whole global batch: rows of [B, S, D] one after another, and
    of attention [B, H, S, S]."""

    def __init__(self, seed, step):
        self.seed, self.step = seed, step

    def __call__(self, x, probability, operation):
        if probability == 0:
            return x
        wide = torch.float64 if x.dtype == torch.float64 else torch.float32
        return (x.to(wide) * dropout_factors(x.shape, probability, self.seed, operation, self.step, wide)).to(x.dtype)


# --- the model -----------------------------------------------------------------------------------

def logits_of(config, p, ids, drop):
    """MPT's logits in the type of its parameters `p`; `drop`: see Masks."""
    attn = config["attn_config"]
    heads, d = config["n_heads"], config["d_model"]
    batch, length = ids.shape
    x = F.embedding(ids, p["transformer.wte.weight"])
    if config["learned_pos_emb"]:
        x = x + p["transformer.wpe.weight"][:length]
    x = drop(x, config["emb_pdrop"], "transformer.emb_drop")
    distance = torch.arange(length)[:, None] - torch.arange(length)[None]
    bias = torch.zeros(heads, length, length, dtype=x.dtype)
    if attn["alibi"]:
        assert heads & (heads - 1) == 0
        slopes = torch.tensor([2.0 ** (-attn["alibi_bias_max"] * (h + 1) / heads) for h in range(heads)], dtype=x.dtype)
        bias = -slopes[:, None, None] * distance.to(x.dtype)
    bias = bias.masked_fill(distance < 0, -math.inf)

    def norm(x, name):
        return F.layer_norm(x, (d,), p[name + ".weight"], p.get(name + ".bias"), config["norm_eps"])

    def linear(x, name):
        return F.linear(x, p[name + ".weight"], p.get(name + ".bias"))

    for i in range(config["n_layers"]):
        block = f"transformer.blocks.{i}."
        qkv = linear(norm(x, block + "norm_1"), block + "attn.Wqkv")
        q, k, v = (part.view(batch, length, heads, d // heads).transpose(1, 2) for part in qkv.chunk(3, dim=-1))
        scores = q @ k.transpose(2, 3) / math.sqrt(d // heads) + bias
        seen = drop(torch.softmax(scores, dim=-1), attn["attn_pdrop"], block + "attn.dropout")
        h = linear((seen @ v).transpose(1, 2).reshape(batch, length, d), block + "attn.out_proj")
        x = x + drop(h, config["resid_pdrop"], block + "resid_attn_dropout")
        h = linear(F.gelu(linear(norm(x, block + "norm_2"), block + "ffn.up_proj")), block + "ffn.down_proj")
        x = x + drop(h, config["resid_pdrop"], block + "resid_ffn_dropout")
    return F.linear(norm(x, "transformer.norm_f"), p["transformer.wte.weight"])


def read(name):
    """Tensors and metadata of a golden file."""
    with safe_open(GOLDEN / f"{name}.safetensors", "pt") as file:
        return {key: file.get_tensor(key) for key in file.keys()}, file.metadata()


def distance(a, b):
    return ((a - b).abs().max() / b.abs().max()).item()


def check_model():
    """Logits and gradients are LLM Foundry's (a1) and transformers' (b1)."""
    for form in ("mpt/a1", "mpt/b1"):
        tensors, metadata = read(form)
        p = {k[6:]: v.double().requires_grad_() for k, v in tensors.items() if k.startswith("param/")}
        logits = logits_of(json.loads(metadata["config"]), p, tensors["input_ids"], Masks(0, 0))
        assert distance(logits, tensors["logits64"]) < 1e-13
        F.cross_entropy(logits.flatten(0, 1), tensors["targets"].flatten()).backward()
        assert all(distance(v.grad, tensors["grad64/" + k]) < 1e-10 or v.grad.abs().max() < 1e-15
                   for k, v in p.items() if "Wqkv.bias" not in k)  # of keys' bias there is rounding alone


# --- optimizers, clipping, schedules -------------------------------------------------------------

class Lion(torch.optim.Optimizer):
    """Chen et al., 2023, algorithm 2; weight_decay as AdamW's."""

    def __init__(self, groups):
        super().__init__(groups, {})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                p *= 1 - group["lr"] * group["weight_decay"]
                p -= group["lr"] * torch.sign(beta1 * m + (1 - beta1) * p.grad)
                m.copy_(beta2 * m + (1 - beta2) * p.grad)


def make_optimizer(name, groups):
    """Groups of settings in LLM Foundry's names. Its decay is weight_decay * lr / initial lr a step, where PyTorch's is
    weight_decay * lr: so PyTorch is told weight_decay / initial lr."""
    told = [group | {"weight_decay": group["weight_decay"] / group["lr"]} for group in groups]
    return torch.optim.AdamW(told) if name == "decoupled_adamw" else Lion(told)


def check_optimizers():
    """Steps are Composer's DecoupledAdamW's and LLM Foundry's DecoupledLionW's."""
    for name in ("adamw", "lion"):
        tensors, metadata = read(name)
        config = json.loads(metadata["config"])
        p = tensors["param"].double().requires_grad_()
        settings = {k: v for k, v in config.items() if k in ("betas", "eps", "weight_decay")}
        optimizer = make_optimizer(config["name"], [settings | {"params": [p], "lr": config["initial_lr"]}])
        for lr, gradient, expected in zip(tensors["lr"], tensors["grads"], tensors["params64"]):
            optimizer.param_groups[0]["lr"] = lr.item()
            p.grad = gradient.double()
            optimizer.step()
            assert distance(p.detach(), expected) < 1e-14


def clip_rows(weight, gradient, threshold):
    """Brock et al., 2021, equation 3, without a lower bound of the weights' norm; a vector is one row."""
    across = tuple(range(1, weight.ndim)) if weight.ndim > 1 else (0,)
    norm = lambda x: x.square().sum(across, keepdim=True).sqrt()  # noqa: E731
    factor = threshold * norm(weight) / norm(gradient)
    gradient *= torch.where(factor.isnan(), 1.0, factor.clamp(max=1.0))


def check_clipping():
    """Rows are clipped as Composer does."""
    tensors, metadata = read("adaptive_clipping")
    for name in ("matrix", "vector", "cube"):
        gradient = tensors[name + "/gradient"].clone()
        clip_rows(tensors[name + "/weight"], gradient, json.loads(metadata["config"])["clipping_threshold"])
        assert distance(gradient, tensors[name + "/clipped"]) < 1e-14


def multiplier(scheduler, step):
    """Of the learning rate after `step` finished batches; times are in batches."""
    batches = lambda text: int(text.removesuffix("ba"))  # noqa: E731
    warmup, end = batches(scheduler["t_warmup"]), batches(scheduler["t_max"])
    cosine = scheduler["name"] == "cosine_with_warmup"
    first, last = 1.0 if cosine else scheduler["alpha_i"], scheduler["alpha_f"]
    if step < warmup:
        return step / warmup * first
    tau = (step - warmup) / (end - warmup)
    return last + (1 - last) * (1 + math.cos(math.pi * tau)) / 2 if cosine else first + tau * (last - first)


def check_schedules():
    """Multipliers are Composer's: of its runs those whose times are all in batches."""
    in_batches = lambda row: all(str(row[key]).endswith("ba") for key in ("t_warmup", "t_max"))  # noqa: E731
    compared = 0
    for row in json.loads((GOLDEN / "cosine_with_warmup.json").read_text())["accepted"]:
        if in_batches(row):
            for step, expected in row["batch_and_multiplier"]:
                compared += 1
                end = int(row["t_max"].removesuffix("ba"))
                assert abs(multiplier(row | {"name": "cosine_with_warmup"}, min(step, end)) - expected) < 1e-15
    for row in json.loads((GOLDEN / "schedules.json").read_text())["accepted"]:
        settings = {"alpha_i": 1.0, "alpha_f": 0.0, "t_max": row["max_duration"]} | row["scheduler"]
        if settings["name"] == "linear_decay_with_warmup" and in_batches(settings) and \
                settings["t_warmup"] != settings["t_max"]:
            for step, expected in enumerate(row["multipliers"]):
                compared += 1
                assert abs(multiplier(settings, step) - expected) < 1e-15
    assert compared > 40


# --- the runs ------------------------------------------------------------------------------------

def model_config(form, **more):
    attn = {"attn_pdrop": 0.0, "alibi": form == "b", "alibi_bias_max": 8}
    config = {"name": "mpt_causal_lm", "d_model": 16, "n_heads": 2, "n_layers": 2, "expansion_ratio": 4,
              "max_seq_len": LENGTH + 2, "vocab_size": VOCABULARY, "resid_pdrop": 0.0, "emb_pdrop": 0.0,
              "learned_pos_emb": form == "a", "no_bias": form == "b", "norm_eps": 1e-5, "attn_config": attn}
    attn |= more.pop("attn_config", {})
    return config | more


def adamw(lr, **more):
    return {"name": "decoupled_adamw", "lr": lr, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 1e-3} | more


def lion(lr, **more):
    return {"name": "decoupled_lionw", "lr": lr, "betas": [0.9, 0.99], "weight_decay": 2e-3} | more


def group(match, **settings):
    return {"param_str_match": match} | settings


def clip(kind, threshold):
    return {"gradient_clipping": {"clipping_type": kind, "clipping_threshold": threshold}}


COSINE = {"name": "cosine_with_warmup", "t_warmup": "5ba", "t_max": "24ba", "alpha_f": 0.1}
LINEAR = {"name": "linear_decay_with_warmup", "t_warmup": "3ba", "t_max": "30ba", "alpha_i": 0.9, "alpha_f": 0.2}
ALL_DROPOUTS = {"resid_pdrop": 0.1, "emb_pdrop": 0.15, "attn_config": {"attn_pdrop": 0.2}}

# The loss does not depend on the keys' bias: its gradient is rounding, of which AdamW with a small eps and Lion would
# make whole steps. So biases have their own eps, and under Lion that one is frozen.
BIASES = group("bias$", lr=4e-3, eps=1e-3, weight_decay=0.0)

# form -> run -> (options of the model, optimizer, clipping, schedule); see run_config
RUNS = {
    "a": {
        "adamw_norm": (ALL_DROPOUTS, adamw(1e-2, disable_grad=["blocks.1.attn.out_proj"], param_groups=[BIASES]),
                       clip("norm", 0.5), COSINE),
        "lion_value": ({"resid_pdrop": 0.1}, lion(2e-3, disable_grad=["Wqkv.bias", "norm_f"], param_groups=[
            group("wte|wpe", lr=5e-4, weight_decay=0.0), group("bias$", lr=1e-3)]), clip("value", 2**-9), LINEAR),
        "adamw_adaptive": ({}, adamw(5e-3, param_groups=[BIASES, group("ffn", betas=[0.8, 0.9])]),
                           clip("adaptive", 0.02), COSINE),
    },
    "b": {
        "lion_norm": ({"attn_config": {"attn_pdrop": 0.1}}, lion(1e-3, disable_grad="blocks.0.ffn.up_proj"),
                      clip("norm", 0.9), COSINE),
        "adamw_value": (ALL_DROPOUTS, adamw(1e-2, param_groups=[group("norm", lr=2e-2, weight_decay=0.0)]),
                        clip("value", 2**-8), LINEAR),
        "lion_adaptive": ({"emb_pdrop": 0.1}, lion(2e-3, param_groups=[group("Wqkv", lr=1e-3, betas=[0.95, 0.98])]),
                          clip("adaptive", 0.01), LINEAR),
    },
}


def run_config(form, run, seed):
    """The run as LLM Foundry's YAML says it; microbatches do not divide the batch."""
    model, optimizer, clipping, scheduler = RUNS[form][run]
    return {"max_seq_len": LENGTH, "run_name": run, "model": model_config(form, **model), "tokenizer": {"name": "none"},
            "optimizer": optimizer, "algorithms": clipping, "scheduler": scheduler,
            "train_loader": {"name": "text", "dataset": {"local": "", "shuffle": False}},
            "global_train_batch_size": BATCH, "device_train_microbatch_size": 6, "max_duration": f"{STEPS}ba",
            "save_interval": f"{STEPS}ba", "log_to_console": False, "seed": seed}


def initial_parameters(form, generator):
    """Non-trivial ones, biases and norms too, each exactly representable in bf16: all runs begin with the same."""
    config = model_config(form)
    d, vocabulary = config["d_model"], config["vocab_size"]
    shapes = {"transformer.wte.weight": (vocabulary, d)}
    if form == "a":
        shapes["transformer.wpe.weight"] = (config["max_seq_len"], d)
    layers = {}
    for i in range(config["n_layers"]):
        block = f"transformer.blocks.{i}."
        layers |= {block + "norm_1": (d,), block + "attn.Wqkv": (3 * d, d), block + "attn.out_proj": (d, d),
                   block + "norm_2": (d,), block + "ffn.up_proj": (4 * d, d), block + "ffn.down_proj": (d, 4 * d)}
    layers["transformer.norm_f"] = (d,)
    for name, shape in layers.items():
        shapes[name + ".weight"] = shape
        if form == "a":
            shapes[name + ".bias"] = shape[:1]

    def draw(name, shape):
        z = torch.randn(shape, generator=generator)
        if name.endswith("bias"):
            return 0.2 * z
        return 1 + 0.2 * z if len(shape) == 1 else z * (0.3 if "transformer.w" in name else shape[-1] ** -0.5)

    return {name: draw(name, shape).bfloat16() for name, shape in shapes.items()}


def train(config, initial, ids, dtype):
    """Losses, norms of the whole gradient before clipping, and final parameters. Activations and their gradients are of
    `dtype`; master weights, states and sums fp64, or for bf16 fp32. The batch goes through the model at once."""
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    master = {name: value.to(wide) for name, value in initial.items()}
    settings = config["optimizer"]
    frozen = settings.get("disable_grad", [])
    frozen = [frozen] if isinstance(frozen, str) else frozen
    own = [{k: v for k, v in settings.items() if k in ("lr", "betas", "eps", "weight_decay")} | {"params": []}]
    own += [own[0] | {k: v for k, v in g.items() if k != "param_str_match"} | {"params": []}
            for g in settings.get("param_groups", [])]
    matches = [g["param_str_match"] for g in settings.get("param_groups", [])]
    for name, value in master.items():  # patterns are searched in LLM Foundry's names
        if any(re.search(pattern, "model." + name) for pattern in frozen):
            continue
        value.requires_grad_()
        which = next((i + 1 for i, match in enumerate(matches) if re.search(match, "model." + name)), 0)
        own[which]["params"].append(value)
    assert all(g["params"] for g in own)
    trained = [value for g in own for value in g["params"]]
    optimizer = make_optimizer(settings["name"], own)
    first_rates = [g["lr"] for g in own]
    clipping = config["algorithms"]["gradient_clipping"]
    kind, threshold = clipping["clipping_type"], clipping["clipping_threshold"]
    losses, norms, clipped = [], [], 0
    for step in range(STEPS):
        begin = step % BATCHES_PER_EPOCH * BATCH
        batch = ids[begin : begin + BATCH].long()
        optimizer.zero_grad()
        logits = logits_of(config["model"], {name: value.to(dtype) for name, value in master.items()}, batch,
                           Masks(config["seed"], step))
        loss = F.cross_entropy(logits[:, :-1].to(wide).flatten(0, 1), batch[:, 1:].flatten())
        loss.backward()
        losses.append(loss.item())
        before = [p.grad.clone() for p in trained]
        norms.append(torch.cat([g.flatten() for g in before]).norm().item())
        if kind == "norm":
            torch.nn.utils.clip_grad_norm_(trained, threshold)
        elif kind == "value":
            torch.nn.utils.clip_grad_value_(trained, threshold)
        else:
            for p in trained:
                clip_rows(p.detach(), p.grad, threshold)
        clipped += sum((p.grad != g).sum().item() for p, g in zip(trained, before)) / sum(g.numel() for g in before)
        for g, rate in zip(optimizer.param_groups, first_rates):
            g["lr"] = rate * multiplier(config["scheduler"], step)
        optimizer.step()
    flat = torch.cat([value.detach().double().flatten() for value in master.values()])
    loss, norm = (torch.tensor(values, dtype=torch.float64) for values in (losses, norms))
    return {"loss": loss, "gradient_norm": norm, "clipped": clipped / STEPS,
            "params": {k: v.detach() for k, v in master.items()}, "flat": flat}


def make_form(form, out):
    generator = torch.Generator().manual_seed({"a": 6001, "b": 6002}[form])
    initial = initial_parameters(form, generator)
    # sequences that count by their own step, with noise: something to learn
    starts, steps = (torch.randint(low, high, (BATCHES_PER_EPOCH * BATCH, 1), generator=generator)
                     for low, high in ((0, VOCABULARY), (1, 4)))
    ids = (starts + steps * torch.arange(LENGTH)) % VOCABULARY
    noise = torch.rand(ids.shape, generator=generator) < 0.1
    ids = torch.where(noise, torch.randint(0, VOCABULARY, ids.shape, generator=generator), ids).int()
    tensors = {"ids": ids} | {f"param/{name}": value for name, value in initial.items()}
    metadata = {"versions": json.dumps(VERSIONS)}
    for number, run in enumerate(RUNS[form]):
        config = run_config(form, run, seed=(number + 1) * (2**33 + 7))  # both words of the key count
        truth, theirs = (train(config, initial, ids, dtype) for dtype in (torch.float64, torch.bfloat16))
        apart = [(theirs[key] - truth[key]).norm().item() for key in ("loss", "gradient_norm", "flat")]
        metadata[f"run/{run}"] = json.dumps(config)
        tensors |= {f"{run}/loss": truth["loss"], f"{run}/gradient_norm": truth["gradient_norm"],
                    f"{run}/bf16_apart": torch.tensor(apart, dtype=torch.float64)}
        tensors |= {f"{run}/param/{name}": value for name, value in truth["params"].items()}
        loss, norm = truth["loss"], truth["gradient_norm"]
        print(f"{form} {run}: loss {loss[0]:.3f} to {loss[-1]:.3f}, norm {norm[0]:.3f} to {norm[-1]:.3f},"
              f" {truth['clipped']:.0%} of elements clipped; bf16 is {apart[0]:.1e} {apart[1]:.1e} {apart[2]:.1e} apart")
    save(tensors, out / f"training_{form}.safetensors", metadata)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=GOLDEN)
    args = parser.parse_args()
    check_philox()
    check_model()
    check_optimizers()
    check_clipping()
    check_schedules()
    for form in RUNS:
        make_form(form, args.out)


if __name__ == "__main__":
    main()
