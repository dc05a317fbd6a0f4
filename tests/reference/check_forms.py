"""Loads exported folders with transformers and compares their logits with ours (one line a form).

    PARALLELLM_FORMS=FOLDER TEST_PROGRAM -ts='*' -tc='every golden form*,the nine published*'   # makes FOLDER
    python check_forms.py FOLDER [--tolerance 1e-4]

FOLDER holds, for each form, the export FORM/ and FORM.safetensors: input_ids, our logits, and sequence_id where texts
are packed. A folder with model_type mpt must load without remote code and is what transformers' own class computes; any
other loads its own code. No parameter may be missing, unexpected or of another shape. Checked besides: greedy
generation with cached keys equals that without, left padding changes nothing, and what save_pretrained writes loads
again as the same model.
"""

import argparse
import json
import pathlib
import tempfile

import safetensors.torch
import torch
import transformers

transformers.logging.set_verbosity_error()


def load(folder):
    remote = json.loads((folder / "config.json").read_text())["model_type"] != "mpt"
    model, info = transformers.AutoModelForCausalLM.from_pretrained(
        folder, trust_remote_code=remote, output_loading_info=True, local_files_only=True, dtype=torch.float32)
    problems = {k: sorted(map(str, v)) for k, v in info.items() if v}
    if problems:
        raise SystemExit(f"{folder}: the weights do not fit the model: {json.dumps(problems)}")
    assert model.config.model_type == ("parallel_mpt" if remote else "mpt")
    return model.eval(), remote


def logits_of(model, ids, sequence_id=None, **more):
    if sequence_id is not None and model.config.model_type != "mpt":
        more["sequence_id"] = sequence_id
    with torch.no_grad():
        return model(input_ids=ids, use_cache=False, **more).logits


def distance(a, b):
    return (a - b).abs().max().item()


def check_generation(model, prompt, new):
    """Greedy ids and the logits that chose them, with cached keys and without."""
    cached = model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=new, min_new_tokens=new,
                            do_sample=False, use_cache=True, pad_token_id=0, eos_token_id=None,
                            return_dict_in_generate=True, output_logits=True)
    plain = logits_of(model, cached.sequences)[:, prompt.shape[1] - 1 : -1]
    return distance(torch.stack(cached.logits, dim=1), plain)


def check_padding(model, ids):
    pad = torch.zeros(ids.shape[0], 3, dtype=ids.dtype)
    mask = torch.cat([torch.zeros_like(pad), torch.ones_like(ids)], dim=1)
    padded = logits_of(model, torch.cat([pad, ids], dim=1), attention_mask=mask)[:, 3:]
    return distance(padded, logits_of(model, ids))


def check_saved(model, ids):
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        again, _ = load(pathlib.Path(folder))
        return distance(logits_of(again, ids), logits_of(model, ids))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--tolerance", type=float, default=1e-4)
    args = parser.parse_args()
    forms = sorted(args.folder.glob("*.safetensors"))
    if not forms:
        raise SystemExit(f"{args.folder}: no FORM.safetensors; see this script's first lines")
    worst = 0.0
    for path in forms:
        kept = safetensors.torch.load_file(path)
        ids = kept["input_ids"].long()
        model, remote = load(path.with_suffix(""))
        found = {"logits": distance(logits_of(model, ids, kept.get("sequence_id")), kept["logits"])}
        # with a capacity or a uniform assignment, a token's experts depend on the tokens of its pass
        ffn = getattr(model.config, "ffn_config", None) or {}
        if remote and not (ffn.get("moe_capacity_factor") or ffn.get("uniform_expert_assignment")):
            new = min(6, model.config.max_seq_len - 4)
            if path.stem != "phi3_long":  # refuses cached keys of a text that outgrows the positions trained on
                found["cached"] = check_generation(model, ids[:, :4], new)
            found["padded"] = check_padding(model, ids)
        found["saved"] = check_saved(model, ids)
        worst = max(worst, *found.values())
        print(path.stem, "remote code" if remote else "transformers' own", *(f"{k} {v:.1e}" for k, v in found.items()),
              f"largest logit {kept['logits'].abs().max():.1f}")
    verdict = "equal" if worst <= args.tolerance else "NOT equal"
    print(f"{len(forms)} forms: {verdict} to {args.tolerance} (worst {worst:.1e}), transformers {transformers.__version__}")
    raise SystemExit(worst > args.tolerance)


if __name__ == "__main__":
    main()
