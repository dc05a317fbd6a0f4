"""Lets Composer's own Trainer write a checkpoint of a small MPT, converts it, and compares every weight.

    python check_composer.py CONVERT        # mosaicml (Composer), torchmetrics, transformers, torch; some seconds

What Composer imports and this run does not use (torchvision, PIL, loggers' clients) may be missing: stubs stand in.
"""

import importlib.machinery
import pathlib
import subprocess
import sys
import tempfile
import types

UNUSED = {"torchvision", "PIL", "wandb", "mlflow", "deepspeed", "mcli", "libcloud", "boto3", "databricks", "google",
          "neptune", "comet_ml"}


class Stub(types.ModuleType):
    """A module in which every name is an empty class."""

    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


class Stubs:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in UNUSED:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return Stub(spec.name)

    def exec_module(self, module):
        pass


sys.meta_path.insert(0, Stubs())

import composer  # noqa: E402
import safetensors.torch  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from composer.models import HuggingFaceModel  # noqa: E402
from composer.optim import DecoupledAdamW  # noqa: E402


def rows():
    ids = torch.randint(0, 29, (8, 12), generator=torch.Generator().manual_seed(1))
    return [{"input_ids": row, "labels": row, "attention_mask": torch.ones(12, dtype=torch.long)} for row in ids]


def main():
    torch.manual_seed(17)
    config = transformers.MptConfig(d_model=16, n_heads=2, n_layers=2, vocab_size=29, max_seq_len=12, no_bias=True,
                                    attn_config={"alibi": True})
    model = HuggingFaceModel(transformers.MptForCausalLM(config), tokenizer=None, use_logits=True)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        composer.Trainer(model=model, train_dataloader=torch.utils.data.DataLoader(rows(), batch_size=4),
                         optimizers=DecoupledAdamW(model.parameters(), lr=1e-3), max_duration="2ba", run_name="check",
                         save_folder=str(folder), save_interval="2ba", progress_bar=False, device="cpu",
                         precision="fp32").fit()
        subprocess.run([sys.argv[1], folder / "ep0-ba2-rank0.pt", folder / "hf"], check=True)
        ours = safetensors.torch.load_file(folder / "hf" / "model.safetensors")
    theirs = model.model.state_dict()
    theirs.pop("lm_head.weight")  # is the embedding
    assert ours.keys() == theirs.keys(), ours.keys() ^ theirs.keys()
    assert all(torch.equal(ours[key], theirs[key]) for key in theirs)
    print(f"{len(ours)} tensors of a checkpoint of Composer {composer.__version__} are equal")


if __name__ == "__main__":
    main()
