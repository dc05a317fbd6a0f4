"""Trains an exported folder with transformers' Trainer: its first loss and gradient norm do not depend on how a batch is
divided into microbatches.

    python check_trainer.py FOLDER [--tolerance 1e-4]

And: the folder's dropouts and embedding_fraction act in training, what would change a result is refused.
"""

import argparse
import json
import pathlib
import tempfile

import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments


def load(folder, **settings):
    remote = json.loads((folder / "config.json").read_text())["model_type"] != "mpt"
    return AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=remote, local_files_only=True,
                                                dtype=torch.float32, **settings)


def first_step(folder, rows, microbatch):
    with tempfile.TemporaryDirectory() as out:
        how = TrainingArguments(out, per_device_train_batch_size=microbatch, max_steps=1, logging_steps=1, report_to=[],
                                gradient_accumulation_steps=len(rows) // microbatch, optim="sgd", learning_rate=0.5,
                                max_grad_norm=1e9, use_cpu=True, save_strategy="no", disable_tqdm=True, seed=1)
        trainer = Trainer(load(folder), how, train_dataset=rows)
        trainer.train()
        log = next(entry for entry in trainer.state.log_history if "loss" in entry)
        return torch.tensor([log["loss"], float(log["grad_norm"])])


def check_training_settings(folder, ids):
    """Of a folder with its own code."""
    calm = load(folder, emb_pdrop=0.0, resid_pdrop=0.0, embedding_fraction=1.0).train()
    gradients = []
    for fraction in (1.0, 0.25):
        calm.config.embedding_fraction = fraction
        calm.zero_grad()
        calm(ids, labels=ids).loss.backward()
        first = calm.transformer.wpe if hasattr(calm.transformer, "wpe") else None
        gradients.append(None if first is None else first.weight.grad.norm().item())
    if gradients[0] is not None:
        assert abs(gradients[1] / gradients[0] - 0.25) < 1e-3, gradients
    torch.manual_seed(1)
    for place in ("emb_pdrop", "resid_pdrop"):
        noisy = load(folder, **{place: 0.5}).train()
        assert not torch.equal(noisy(ids).logits, noisy(ids).logits), f"{place} does nothing"
        assert torch.equal(noisy.eval()(ids).logits, calm.eval()(ids).logits), f"{place} acts outside training"
    for wrong in ({"position_ids": torch.arange(ids.shape[1])[None]}, {"output_hidden_states": True}):
        try:
            calm(ids, **wrong)
        except ValueError as problem:
            print(f"refused: {problem}")
        else:
            raise SystemExit(f"{list(wrong)} is accepted, and does nothing")


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folder", type=pathlib.Path)
    options.add_argument("--tolerance", type=float, default=1e-4)
    given = options.parse_args()
    config = json.loads((given.folder / "config.json").read_text())
    torch.manual_seed(0)
    length = min(24, config["max_seq_len"])
    rows = []
    for _ in range(8):
        ids = torch.randint(0, config["vocab_size"], (length,))
        labels = ids.clone()
        labels[: torch.randint(0, length // 2, ()).item()] = -100  # microbatches of unequal numbers of labels
        rows.append({"input_ids": ids, "labels": labels})
    whole = first_step(given.folder, rows, 8)
    for microbatch in (4, 2, 1):
        found = first_step(given.folder, rows, microbatch)
        print(f"microbatches of {microbatch}: loss, norm {found.tolist()}, of 8 {whole.tolist()}")
        if not torch.allclose(found, whole, rtol=given.tolerance):
            raise SystemExit("the step depends on how its batch is divided")
    if config["model_type"] != "mpt":
        check_training_settings(given.folder, rows[0]["input_ids"][None])


main()
