#!/usr/bin/env python3
"""logits.py SOURCE EXAMPLE: the example that loads a Hugging Face folder gives the logits that transformers has for it, for a
Llama and for a model of another family; the folders are made from tests/golden/families."""
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

source, example = pathlib.Path(sys.argv[1]), sys.argv[2]


def read_golden(file):
    """The metadata of a safetensors file, and its tensors as (header, bytes)."""
    data = file.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    metadata = header.pop("__metadata__")
    return metadata, {name: (entry, data[8 + size + entry["data_offsets"][0]:8 + size + entry["data_offsets"][1]])
                      for name, entry in header.items()}


def write_folder(folder, config, tensors):
    (folder / "config.json").write_text(config)
    header, body = {}, b""
    for name, (entry, data) in tensors.items():
        if name.startswith("param/"):
            header[name.removeprefix("param/")] = entry | {"data_offsets": [len(body), len(body) + len(data)]}
            body += data
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + body)


def values(tensor, form):
    return [value[0] for value in struct.iter_unpack(form, tensor[1])]


for family in ("llama_grouped", "qwen3_plain"):
    metadata, tensors = read_golden(source / f"tests/golden/families/{family}.safetensors")
    length, vocabulary = tensors["logits64"][0]["shape"][1:]
    ids = values(tensors["input_ids"], "<q")[:length]  # of the first sequence
    expected = values(tensors["logits64"], "<d")[(length - 1) * vocabulary:length * vocabulary]
    with tempfile.TemporaryDirectory() as name:
        write_folder(pathlib.Path(name), metadata["config"], tensors)
        result = subprocess.run([example, name, *map(str, ids)], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    found = [float(line) for line in result.stdout.split()]
    error = max(abs(a - b) for a, b in zip(found, expected, strict=True)) / max(map(abs, expected))
    assert error < 4e-6, f"{family}: logits differ by {error} of the largest"
    print(f"{family}: {len(found)} logits are those of transformers, to {error:.1e} of the largest")

refused = subprocess.run([example, "nowhere", "1"], capture_output=True, text=True)
assert refused.returncode == 1 and "nowhere" in refused.stderr, refused.stderr
