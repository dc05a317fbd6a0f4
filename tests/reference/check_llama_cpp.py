"""What llama.cpp computes with GGUF files of `convert --gguf`, compared with transformers with the same models.

    python check_llama_cpp.py CONVERT [--dtype float32] [--most KL] MODEL...

Each MODEL, anything that CONVERT (build/apps/convert) reads, is written as a Hugging Face folder, unless it is one,
and as a GGUF file. A fixed text is encoded by both; its ids must be equal. Then the distribution over the whole
vocabulary is compared after prefixes of it: mean and largest Kullback-Leibler divergence KL(transformers | llama.cpp)
in nats, and the largest difference of log-probabilities. KV cache in float32, attention without flash kernels. Fails
where a mean exceeds KL (default 1e-4). Needs xllamacpp (llama.cpp's code in a wheel), torch, tokenizers and transformers; ends
with 77 where they are missing.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import urllib.request

try:
    import tokenizers
    import torch
    import transformers
    import xllamacpp
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
TEXT = ("The rank's buffers hold 1234567 gradients,\n\n  which it's about to reduce: naïve Ünïcode, 東京 и Москва 🙂!\n"
        "\tfor (int i = 0; i < n; ++i) sum += x[i];   // WE'LL see")
PREFIXES = (1, 2, 3, 5, 8, 13, 21, 30, 40, 50, 57, 58, 59, 60)


def ask(server, path, **fields):
    request = urllib.request.Request(server.listening_address + path, json.dumps(fields).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def serve(file, context):
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(file)
    parameters.n_ctx = context
    parameters.n_parallel = 1
    parameters.port = 0
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
    parameters.warmup = False
    parameters.cache_prompt = False
    parameters.n_gpu_layers = 0
    parameters.verbosity = -1
    parameters.cache_type_k = parameters.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    parameters.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    return xllamacpp.Server(parameters)


def log_probabilities(server, ids, size, chosen):
    """Of all tokens after `ids`. `chosen`, a token of whole characters, is drawn: others would give no answer."""
    answer = ask(server, "/completion", prompt=ids, n_predict=1, n_probs=size, temperature=0.0, cache_prompt=False,
                 post_sampling_probs=False, ignore_eos=False, logit_bias=[[chosen, 1e6]])
    out = torch.full((size,), float("nan"), dtype=torch.float64)
    for entry in answer["completion_probabilities"][0]["top_logprobs"]:
        out[entry["id"]] = entry["logprob"]
    return out


def compare(program, source, dtype, work):
    folder = pathlib.Path(source)
    if not (folder / "config.json").exists():
        folder = work / "folder"
        subprocess.run([program, source, folder, "--dtype", dtype], check=True, stdout=subprocess.DEVNULL)
    file = work / "model.gguf"
    subprocess.run([program, source, file, "--gguf", "--dtype", dtype], check=True, stdout=subprocess.DEVNULL)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype),
                                                              trust_remote_code=True, local_files_only=True)
    model = model.to(torch.float32).eval()
    server = serve(file, 128)
    ids = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json")).encode(TEXT).ids
    theirs = ask(server, "/tokenize", content=TEXT, add_special=True)["tokens"]
    assert ids == theirs, f"ids differ\n{ids}\n{theirs}"
    size = model.config.vocab_size
    chosen = ask(server, "/tokenize", content="a", add_special=False)["tokens"][-1]
    divergences, largest = [], 0.0
    for length in PREFIXES:
        with torch.no_grad():
            exact = model(input_ids=torch.tensor([ids[:length]]), use_cache=False).logits[0, -1, :size].double()
        exact = exact.log_softmax(-1)
        ours = log_probabilities(server, ids[:length], size, chosen)
        known = ~ours.isnan()
        assert known.sum() >= size - 1, f"{int(known.sum())} of {size} probabilities were given"
        divergences.append(float((exact.exp() * (exact - ours))[known].sum()))
        largest = max(largest, float((exact - ours)[known].abs().max()))
    return ids, sum(divergences) / len(divergences), max(divergences), largest


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("models", nargs="+")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--most", type=float, default=1e-4)
    arguments = parser.parse_args()
    failed = False
    for model in arguments.models:
        with tempfile.TemporaryDirectory() as temporary:
            try:
                ids, mean, most, largest = compare(arguments.program, model, arguments.dtype, pathlib.Path(temporary))
            except (AssertionError, subprocess.CalledProcessError, RuntimeError) as problem:
                print(f"{model}: FAILED: {problem}", flush=True)
                failed = True
                continue
        bad = not mean <= arguments.most
        failed = failed or bad
        print(f"{model}: {len(ids)} ids equal; KL mean {mean:.2e}, largest {most:.2e}; log-probabilities differ by at "
              f"most {largest:.2e}{' FAILED' if bad else ''}", flush=True)
    sys.stdout.flush()
    os._exit(1 if failed else 0)  # the servers' threads are not waited for
