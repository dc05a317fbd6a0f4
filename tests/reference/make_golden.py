"""Makes the committed golden numbers in ../golden (see README.md beside this file).

The numbers come from other people's programs, run unchanged: LLM Foundry's MPTForCausalLM (`attn_impl: torch`) for form
(a), transformers' MptForCausalLM for form (b), Composer's DecoupledAdamW and CosineAnnealingWithWarmupScheduler.
Every parameter is exactly representable in bf16, so that the fp64, fp32 and bf16 runs start from the same weights
and the distance between them is arithmetic alone.

    python make_golden.py [--out ../golden]
"""

import argparse
import contextlib
import copy
import dataclasses
import json
import math
import pathlib
import random
import types
import warnings

import foundry_import

foundry_import.prepare()
warnings.filterwarnings("ignore")

import importlib.metadata

import torch
import transformers
from composer.core.time import Time, Timestamp, TimeUnit
from composer.optim.decoupled_weight_decay import DecoupledAdamW
from composer.optim.scheduler import CosineAnnealingWithWarmupScheduler
from llmfoundry.models.layers.attention import gen_slopes
from llmfoundry.models.mpt.configuration_mpt import MPTConfig
from llmfoundry.models.mpt.modeling_mpt import MPTForCausalLM
from safetensors.torch import load_file, save_file

transformers.logging.set_verbosity_error()
torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)

VERSIONS = {
    name: importlib.metadata.version(name)
    for name in ("torch", "transformers", "llm-foundry", "mosaicml", "safetensors", "numpy")
}
IGNORED = -100


@dataclasses.dataclass
class Case:
    """One tiny model: its config in LLM Foundry's names, the program that runs it, and its batch."""
    name: str
    source: str  # "foundry" or "transformers"
    config: dict
    seed: int
    batch: int = 2
    seq: int = 16
    ignore: bool = False  # some labels are -100, and not equally many per row
    generate: int = 0     # length of the prompt; 0: no generation


def mpt(d_model, n_heads, n_layers, vocab_size, max_seq_len, attn=None, **more):
    """A config in LLM Foundry's field names in which everything that matters is written out."""
    attn_config = {
        "attn_type": "multihead_attention", "attn_impl": "torch", "attn_pdrop": 0.0, "qk_ln": False, "clip_qkv": None,
        "softmax_scale": None, "alibi": False, "alibi_bias_max": 8,
    } | (attn or {})
    return {
        "model_type": "mpt", "d_model": d_model, "n_heads": n_heads, "n_layers": n_layers, "expansion_ratio": 4,
        "max_seq_len": max_seq_len, "vocab_size": vocab_size, "resid_pdrop": 0.0, "emb_pdrop": 0.0,
        "learned_pos_emb": not attn_config["alibi"], "attn_config": attn_config, "no_bias": False,
        "attention_bias": None, "embedding_fraction": 1.0, "norm_type": "low_precision_layernorm", "norm_eps": 1e-5,
        "logit_scale": None, "tie_word_embeddings": True, "use_cache": False,
    } | more


CASES = [
    # Form (a), the pretraining YAMLs' form. wpe has more rows than the batch uses.
    Case("a1", "foundry", mpt(32, 4, 2, 96, 20, norm_type="layernorm"), seed=1001),
    # Everything that scales or clips. Order in the code: Wqkv, clip, q_ln/k_ln, scale.
    Case("a2", "foundry",
         mpt(32, 4, 2, 96, 16, {"qk_ln": True, "clip_qkv": 0.5, "softmax_scale": 0.3},
             logit_scale="inv_sqrt_d_model"), seed=1002),
    # ALiBi in LLM Foundry's own code, heads not a power of two, no bias, labels partly ignored, other expansion.
    Case("a3", "foundry", mpt(48, 6, 1, 96, 20, {"alibi": True}, no_bias=True, attention_bias=False,
                              expansion_ratio=2), seed=1003, ignore=True),
    # The two halves of no_bias/attention_bias apart, a learned-position model, odd sizes, logit_scale as a number.
    Case("a4", "foundry", mpt(24, 3, 1, 61, 11, {"clip_qkv": 1.0}, attention_bias=False, logit_scale=0.5), seed=1004,
         batch=3, seq=11, ignore=True),
    Case("a5", "foundry", mpt(24, 3, 1, 61, 11, {"qk_ln": True}, no_bias=True, attention_bias=True,
                              norm_eps=1e-3, embedding_fraction=0.25), seed=1005, batch=1, seq=7),
    # Form (b), the hub's form: transformers' own implementation.
    Case("b1", "transformers", mpt(32, 4, 2, 96, 32, {"alibi": True}, no_bias=True), seed=2001, generate=5),
    Case("b2", "transformers",
         mpt(48, 6, 1, 96, 40, {"alibi": True, "clip_qkv": 0.75, "softmax_scale": 0.25}, no_bias=True), seed=2002,
         seq=24, ignore=True, generate=9),
]


def build_foundry(config):
    # MPTConfig takes its dictionaries by reference and fills them in.
    return MPTForCausalLM(MPTConfig(**{k: copy.deepcopy(v) for k, v in config.items() if k != "model_type"}))


def build_transformers(config):
    attn = config["attn_config"]
    fixed = {"expansion_ratio": 4, "no_bias": True, "logit_scale": None, "tie_word_embeddings": True}
    wrong = [k for k, v in fixed.items() if config[k] != v]
    assert not wrong and attn["alibi"] and attn["alibi_bias_max"] == 8 and not attn["qk_ln"], wrong
    return transformers.MptForCausalLM(transformers.MptConfig(
        d_model=config["d_model"], n_heads=config["n_heads"], n_layers=config["n_layers"],
        max_seq_len=config["max_seq_len"], vocab_size=config["vocab_size"], layer_norm_epsilon=config["norm_eps"],
        attn_config={"alibi": True, "alibi_bias_max": 8, "clip_qkv": attn["clip_qkv"], "qk_ln": False,
                     "softmax_scale": attn["softmax_scale"], "attn_pdrop": 0.0},
        attn_implementation="eager", no_bias=True, use_cache=True, tie_word_embeddings=True))


BUILD = {"foundry": build_foundry, "transformers": build_transformers}


def fill(model, seed):
    """Non-trivial parameters, biases and norms too, each exactly representable in bf16."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in sorted(model.named_parameters()):
            z = torch.randn(p.shape, generator=generator)
            if name.endswith("bias"):
                z *= 0.2
            elif "norm" in name or "_ln" in name:
                z = 1 + 0.2 * z
            elif "wte" in name:
                z *= 0.25
            elif "wpe" in name:
                z *= 0.3
            else:
                z *= 1.5 / math.sqrt(p.shape[-1])
            p.copy_(z.bfloat16())


def batch(case):
    generator = torch.Generator().manual_seed(case.seed + 7)
    shape = (case.batch, case.seq)
    ids = torch.randint(0, case.config["vocab_size"], shape, generator=generator)
    labels = ids.clone()
    if case.ignore:
        labels[torch.rand(shape, generator=generator) < 0.3] = IGNORED
        labels[0, : case.seq // 2] = IGNORED
    targets = torch.full_like(labels, IGNORED)
    targets[:, :-1] = labels[:, 1:]
    return ids, labels, targets


@contextlib.contextmanager
def keep_float64():
    """For fp64 runs of transformers, which writes `.float()` (softmax, loss) to raise bf16 to fp32: that must not lower
    fp64. It also makes its causal mask in the default type, where fp64's most negative number has to fit."""
    original = torch.Tensor.float
    torch.Tensor.float = lambda self, *a, **k: self if self.dtype == torch.float64 else original(self, *a, **k)
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.Tensor.float = original
        torch.set_default_dtype(torch.float32)


def run(case, model, dtype, ids, labels, targets):
    """Logits, loss and gradients of the mean loss with all parameters and activations in `dtype`."""
    model = copy.deepcopy(model).to(dtype).train()  # train: all dropouts are 0, so nothing is random
    with keep_float64() if dtype == torch.float64 else contextlib.nullcontext():
        out = model(input_ids=ids, labels=labels)
        loss = out.loss
        if dtype == torch.bfloat16 and case.source == "foundry":
            # Its MPTForCausalLM takes the cross entropy of bf16 logits in bf16; training uses flash-attention's fused
            # cross entropy, which reads bf16 logits and computes in fp32, as transformers does. So do we here.
            loss = torch.nn.functional.cross_entropy(out.logits.float().flatten(0, 1), targets.flatten(),
                                                     ignore_index=IGNORED)
        loss.backward()
    grads = {name: p.grad for name, p in model.named_parameters()}
    assert all(g is not None and torch.isfinite(g).all() for g in grads.values())
    return out.logits.detach(), loss.detach(), grads


def greedy(model, vocab_size, length, count, seed):
    """A prompt, its greedy continuation by transformers in fp32 with its KV cache, and the smallest margin between the
    first and the second choice (fp64, without the cache). The first prompt is taken that has no near ties, so that any
    sound implementation must give these ids, and that does not fall into repeating a few."""
    model = copy.deepcopy(model).eval()
    double = copy.deepcopy(model).double()
    generator = torch.Generator().manual_seed(seed)
    for _ in range(1000):
        prompt = torch.randint(0, vocab_size, (length,), generator=generator)
        ids = model.generate(prompt[None], attention_mask=torch.ones_like(prompt[None]), max_new_tokens=count,
                             min_new_tokens=count, do_sample=False, use_cache=True, pad_token_id=0,
                             eos_token_id=None)[0]
        with torch.no_grad(), keep_float64():
            logits = double(input_ids=ids[None], use_cache=False).logits[0, length - 1 : -1]
        new, top = ids[length:], logits.topk(2).values
        margin = (top[:, 0] - top[:, 1]).min().item()
        if margin > 1e-2 and len(set(new.tolist())) >= count // 2:
            assert torch.equal(logits.argmax(-1), new), "fp32 with cache and fp64 without it differ"
            return prompt, new, margin
    raise AssertionError("no such prompt")


def error(grads, truth, norm):
    """The distance between two sets of gradients, over the size of the truth, in a norm of all of them together."""
    flat = lambda g: torch.cat([g[n].double().flatten() for n in sorted(g)])  # noqa: E731
    return (norm(flat(grads) - flat(truth)) / norm(flat(truth))).item()


def distance(a, b):
    """max |a - b| over max |b|."""
    return ((a.double() - b.double()).abs().max() / b.double().abs().max()).item()


def save(tensors, path, metadata):
    """save_file with a header in a fixed order, so that the same numbers make the same bytes."""
    save_file({k: tensors[k].detach().clone().contiguous() for k in sorted(tensors)}, path, metadata=metadata)
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + length :])
    path.chmod(0o644)
    load_file(path)


def make_model(case, out):
    model = BUILD[case.source](case.config)
    fill(model, case.seed)
    ids, labels, targets = batch(case)
    tensors = {"input_ids": ids, "labels": labels, "targets": targets,
               "loss_tokens": (targets != IGNORED).sum()}
    tensors |= {f"param/{n}": p.detach().float() for n, p in model.named_parameters()}
    runs = {}
    for dtype, suffix in ((torch.float32, ""), (torch.float64, "64"), (torch.bfloat16, "_bf16")):
        logits, loss, grads = run(case, model, dtype, ids, labels, targets)
        runs[suffix] = (logits, loss, grads)
        store = torch.float64 if dtype == torch.float64 else torch.float32
        tensors[f"logits{suffix}"], tensors[f"loss{suffix}"] = logits.to(store), loss.to(store)
        tensors |= {f"grad{suffix}/{n}": g.to(store) for n, g in grads.items()}

    summary = {"source": case.source, "loss": runs["64"][1].item(), "loss_tokens": tensors["loss_tokens"].item(),
               "parameters": sum(p.numel() for p in model.parameters())}
    summary["largest_gradient"] = max(g.abs().max().item() for g in runs["64"][2].values())
    for suffix, name in (("", "fp32"), ("_bf16", "bf16")):
        logits, loss, grads = runs[suffix]
        summary[name] = {
            "logits_error_over_largest_logit": distance(logits, runs["64"][0]),
            "loss_error": abs(loss.double() - runs["64"][1]).item(),
            "gradient_error_over_largest_gradient": error(grads, runs["64"][2], lambda x: x.abs().max()),
            "gradient_error_norm_over_norm": error(grads, runs["64"][2], torch.linalg.vector_norm),
            "worst_tensor_error_norm_over_norm": max(  # but for gradients that are 0, like that of k_ln.bias
                error({n: g}, {n: runs["64"][2][n]}, torch.linalg.vector_norm) for n, g in grads.items()
                if runs["64"][2][n].abs().max() > 1e-12),
        }
    if case.generate:
        prompt, ids, margin = greedy(model, case.config["vocab_size"], case.generate, 20, case.seed + 8)
        tensors["generate/prompt"], tensors["generate/ids"], summary["greedy_margin"] = prompt, ids, margin

    metadata = {"config": json.dumps(case.config), "source": case.source, "versions": json.dumps(VERSIONS)}
    save(tensors, out / f"mpt_{case.name}.safetensors", metadata)
    return summary


def compare_programs():
    """The two programs must agree with each other where both can run a config (ALiBi, no bias): fp64, 1e-12."""
    case = next(c for c in CASES if c.name == "b2")
    ids, labels, targets = batch(case)
    results = []
    for source in ("foundry", "transformers"):
        model = BUILD[source](case.config)
        fill(model, case.seed)
        results.append(run(case, model, torch.float64, ids, labels, targets))
    (la, a, ga), (lb, b, gb) = results
    assert ga.keys() == gb.keys()
    worst = max([distance(la, lb), abs(a - b).item()] + [distance(ga[n], gb[n]) for n in ga])
    assert worst < 1e-12, worst
    return worst


def make_adamw(out):
    """Five steps of DecoupledAdamW with given gradients. The first learning rate is 0, as in every warm-up."""
    initial_lr, betas, eps, decay, size = 1e-2, (0.9, 0.95), 1e-8, 1e-3, 37
    multipliers = [0.0, 0.5, 1.0, 0.775, 0.1]
    generator = torch.Generator().manual_seed(3001)
    param = torch.randn(size, generator=generator)
    grads = torch.randn(5, size, generator=generator) * torch.logspace(-6, 1, size)
    grads[:, 3] = 0       # never touched by a gradient: only the decay moves it
    grads[1:, 4] = 0
    # The learning rates are Python doubles in the reference: keep all their bits.
    lr = torch.tensor([initial_lr * m for m in multipliers], dtype=torch.float64)
    tensors = {"param": param, "grads": grads, "lr": lr}
    for dtype, suffix in ((torch.float32, ""), (torch.float64, "64")):
        p = torch.nn.Parameter(param.to(dtype).clone())
        optimizer = DecoupledAdamW([p], lr=initial_lr, betas=betas, eps=eps, weight_decay=decay)
        params, first, second = [], [], []
        for m, g in zip(multipliers, grads):
            optimizer.param_groups[0]["lr"] = initial_lr * m
            p.grad = g.to(dtype).clone()
            optimizer.step()
            params.append(p.detach().clone())
            first.append(optimizer.state[p]["exp_avg"].clone())
            second.append(optimizer.state[p]["exp_avg_sq"].clone())
        tensors |= {f"params{suffix}": torch.stack(params), f"exp_avg{suffix}": torch.stack(first),
                    f"exp_avg_sq{suffix}": torch.stack(second)}
    settings = {"name": "decoupled_adamw", "initial_lr": initial_lr, "betas": betas, "eps": eps, "weight_decay": decay}
    save(tensors, out / "adamw.safetensors", {"config": json.dumps(settings), "versions": json.dumps(VERSIONS)})


def make_schedules(out):
    """Multipliers of cosine_with_warmup at chosen batches, from Composer's scheduler and its own Time and Timestamp."""
    settings = [  # t_warmup, t_max, alpha_f, max_duration, batches per epoch, sequences per batch, tokens per sequence
        ("100ba", "1dur", 0.1, "4800ba", None, 256, 2048),
        ("100ba", "1dur", 0.1, "24800ba", None, 512, 2048),
        ("0ba", "1dur", 0.0, "20ba", None, 8, 16),
        ("0.1dur", "1dur", 0.0, "50ba", None, 8, 16),
        ("0.3dur", "1dur", 0.25, "7ba", None, 8, 16),
        ("20480tok", "1dur", 0.1, "409600tok", None, 8, 128),
        ("3e3tok", "1dur", 0.1, "1e5tok", None, 8, 128),
        ("10ba", "1dur", 0.1, "2ep", 30, 8, 128),
        ("0.1dur", "1dur", 0.1, "2ep", 33, 8, 128),
        ("1ep", "1dur", 0.1, "3ep", 30, 8, 128),
        ("100sp", "1dur", 0.0, "1000sp", None, 8, 128),
        ("5ba", "60ba", 0.1, "40ba", None, 8, 128),
        ("40ba", "1dur", 0.1, "40ba", None, 8, 128),
    ]
    rows = []
    for t_warmup, t_max, alpha_f, max_duration, epoch, sequences, length in settings:
        duration = Time.from_timestring(max_duration)
        per_batch = {TimeUnit.BATCH: 1, TimeUnit.TOKEN: sequences * length, TimeUnit.SAMPLE: sequences}
        total = duration.value * epoch if duration.unit == TimeUnit.EPOCH else \
            math.ceil(duration.value / per_batch[duration.unit])
        scheduler = CosineAnnealingWithWarmupScheduler(t_warmup=t_warmup, t_max=t_max, alpha_f=alpha_f)
        chosen = sorted(set(range(total + 1)) if total <= 100 else
                        {0, 1, 2, 50, 99, 100, 101, 102, total // 3, total // 2, total - 2, total - 1, total} |
                        set(random.Random(4001).sample(range(total), 25)))
        points = []
        for b in chosen:
            timestamp = Timestamp(epoch=b // epoch if epoch else 0, batch=b, sample=b * sequences,
                                  token=b * sequences * length)
            state = types.SimpleNamespace(max_duration=duration, timestamp=timestamp, dataloader_len=epoch)
            points.append([b, scheduler(state)])
        rows.append({"t_warmup": t_warmup, "t_max": t_max, "alpha_f": alpha_f, "max_duration": max_duration,
                     "batches_per_epoch": epoch, "samples_per_batch": sequences, "tokens_per_sample": length,
                     "batch_and_multiplier": points})
    refused = []
    for t_warmup, t_max, max_duration in (("10ba", "30ba", "40ba"), ("10ba", "1dur", "4096tok"),
                                          ("10tok", "1dur", "40ba")):
        scheduler = CosineAnnealingWithWarmupScheduler(t_warmup=t_warmup, t_max=t_max)
        state = types.SimpleNamespace(max_duration=Time.from_timestring(max_duration), timestamp=Timestamp(),
                                      dataloader_len=None)
        try:
            scheduler(state)
        except ValueError as error:
            refused.append({"t_warmup": t_warmup, "t_max": t_max, "max_duration": max_duration, "why": str(error)})
        else:
            raise AssertionError(f"not refused: {t_warmup} {t_max} {max_duration}")
    write_json(out / "cosine_with_warmup.json", {"versions": VERSIONS, "accepted": rows, "refused": refused})


def make_slopes(out, expected):
    slopes = {str(h): gen_slopes(h, 8, return_1d=True).double().tolist() for h in range(1, 65)}
    if expected:
        for key, values in json.loads(pathlib.Path(expected).read_text()).items():
            heads, most = (int(part.split("=")[1]) for part in key.split(","))
            mine = gen_slopes(heads, most, return_1d=True).double().tolist()
            assert len(mine) == len(values) and all(abs(a / b - 1) < 2e-7 for a, b in zip(mine, values)), key
        print(f"alibi slopes agree with {pathlib.Path(expected).name}")
    write_json(out / "alibi_slopes.json", {"versions": VERSIONS, "alibi_bias_max": 8, "slopes": slopes})


def make_init(out):
    """Statistics of LLM Foundry's default initialisation: per tensor the standard deviation over 8 seeds."""
    config = mpt(256, 4, 3, 512, 128)
    squares, numbers, largest = {}, {}, {}
    for seed in range(8):
        torch.manual_seed(seed)
        for name, p in build_foundry(config).named_parameters():
            squares[name] = squares.get(name, 0.0) + p.detach().double().square().sum().item()
            numbers[name] = numbers.get(name, 0) + p.numel()
            largest[name] = max(largest.get(name, 0.0), p.detach().abs().max().item())
    write_json(out / "init.json", {
        "versions": VERSIONS, "config": config, "seeds": 8,
        "tensors": {n: {"rms": math.sqrt(squares[n] / numbers[n]), "largest": largest[n], "values": numbers[n]}
                    for n in sorted(squares)}})


def make_counts(out):
    """Parameter counts of the sizes, counted on LLM Foundry's own model on the meta device, in both forms."""
    sizes = {"125m": (768, 12, 12), "350m": (1024, 16, 24), "760m": (1536, 12, 24), "1b": (2048, 16, 24),
             "3b": (2560, 20, 32), "7b": (4096, 32, 32), "13b": (5120, 40, 40), "30b": (7168, 56, 48),
             "70b": (8192, 64, 80)}
    rows = {}
    for name, (d, heads, layers) in sizes.items():
        count = lambda vocab, attn, **more: sum(p.numel() for p in build_foundry(  # noqa: E731
            mpt(d, heads, layers, vocab, 2048, attn, init_device="meta", **more)).parameters())
        rows[name] = {"d_model": d, "n_heads": heads, "n_layers": layers, "max_seq_len": 2048,
                      "form_a_vocab_50368": count(50368, {}),
                      "form_b_vocab_50432": count(50432, {"alibi": True}, no_bias=True)}
    write_json(out / "parameter_counts.json", {"versions": VERSIONS, "sizes": rows})


def write_json(path, value):
    path.write_text(json.dumps(value, separators=(",", ":")).replace('},"', '},\n"').replace("},{", "},\n{") + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent / "golden")
    parser.add_argument("--expected-slopes", help="a JSON file {'n_heads=H,alibi_bias_max=M': [...]} to compare with")
    parser.add_argument("--only", help="make only this model, e.g. b1")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    summary = {"versions": VERSIONS, "foundry_and_transformers_differ_by": compare_programs(), "models": {}}
    print(f"LLM Foundry and transformers agree on b2 in fp64: {summary['foundry_and_transformers_differ_by']:.1e}")
    for case in CASES:
        if args.only in (None, case.name):
            summary["models"][case.name] = make_model(case, args.out)
            print(case.name, json.dumps(summary["models"][case.name]))
    if args.only is None:
        write_json(args.out / "summary.json", summary)
        make_adamw(args.out)
        make_schedules(args.out)
        make_slopes(args.out, args.expected_slopes)
        make_init(args.out)
        make_counts(args.out)


if __name__ == "__main__":
    main()
