"""Makes ../golden/muon.safetensors: torch.optim.Muon over matrices that are wide, tall and square.

Each case runs twice, with weights in fp32 and the Newton-Schulz steps in bf16, as PyTorch does, and
with all of it in fp64: the same code of PyTorch, told that fp64 is its bfloat16. How far apart the
two are is what rounding to bf16 may cost.
"""

import importlib.metadata
import pathlib

import torch
from torch.optim import _muon

from golden_file import save

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden"
VERSIONS = {name: importlib.metadata.version(name) for name in ("torch", "safetensors")}
SHAPES = {"wide": (12, 20), "tall": (24, 8), "square": (16, 16)}
STEPS = 5
CASES = {
    "original": dict(lr=0.02),
    "match_rms_adamw": dict(lr=0.01, adjust_lr_fn="match_rms_adamw", weight_decay=0.5),
    "spectral_unclamped": dict(
        lr=0.02, adjust_lr_fn="spectral_unclamped", nesterov=False, momentum=0.8
    ),
}


class InDouble:
    """PyTorch with another bfloat16."""

    bfloat16 = torch.float64

    def __getattr__(self, name):
        return getattr(torch, name)


def run(start, gradients, dtype, options):
    """Weights and momentum after the first and the last step."""
    weights = {name: torch.nn.Parameter(value.to(dtype, copy=True)) for name, value in start.items()}
    _muon.torch = InDouble() if dtype == torch.float64 else torch
    muon = torch.optim.Muon(list(weights.values()), **options)
    out = {}
    for step in range(STEPS):
        for name, weight in weights.items():
            weight.grad = gradients[name][step].to(dtype)
        muon.step()
        if step in (0, STEPS - 1):
            for name, weight in weights.items():
                key = f"{name}/{'fp64' if dtype == torch.float64 else 'bf16'}/{step + 1}"
                out[key] = weight.detach().clone()
                out[key + "/momentum"] = muon.state[weight]["momentum_buffer"].clone()
    _muon.torch = torch
    return out


def main():
    torch.set_num_threads(1)
    torch.manual_seed(13)
    start = {name: torch.randn(shape) * 0.1 for name, shape in SHAPES.items()}
    gradients = {name: torch.randn((STEPS, *shape)) for name, shape in SHAPES.items()}
    tensors = {f"{name}/weight": value for name, value in start.items()}
    tensors |= {f"{name}/gradients": value for name, value in gradients.items()}
    for case, options in CASES.items():
        for dtype in (torch.float32, torch.float64):
            for name, value in run(start, gradients, dtype, options).items():
                tensors[f"{case}/{name}"] = value
    save(tensors, GOLDEN / "muon.safetensors", VERSIONS)


if __name__ == "__main__":
    main()
