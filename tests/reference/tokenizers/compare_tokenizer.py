"""Encodes a text file with Hugging Face tokenizers and prints document count and id digest (one JSON line).

    python compare_tokenizer.py TOKENIZER_JSON FILE [--field text] [--special] [--ids OUT.npy]

FILE: .jsonl, .jsonl.zst, .json.gz (one JSON object a line, its `--field`), or plain text (the whole file, one document).
`sha256` is over all ids in order as little-endian int32, with nothing between documents; `sha256_lengths` over the
documents' numbers of ids likewise. No special tokens are added unless `--special`; added tokens in the text are recognised.
"""

import argparse
import gzip
import hashlib
import io
import json
import pathlib

import numpy as np
import tokenizers


def documents(path, field):
    name = path.name
    if name.endswith(".zst"):
        import zstandard
        stream = io.TextIOWrapper(zstandard.ZstdDecompressor().stream_reader(path.open("rb")), encoding="utf-8",
                                  newline="\n")
    elif name.endswith(".gz"):
        stream = io.TextIOWrapper(gzip.open(path, "rb"), encoding="utf-8", newline="\n")
    elif name.endswith((".json", ".jsonl")):
        stream = path.open(encoding="utf-8", newline="\n")
    else:
        yield path.read_bytes().decode("utf-8")
        return
    for line in stream:
        if line.strip():
            yield json.loads(line)[field]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tokenizer", type=pathlib.Path)
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--field", default="text")
    parser.add_argument("--special", action="store_true")
    parser.add_argument("--ids", type=pathlib.Path, help="write all ids here, int32")
    args = parser.parse_args()
    tokenizer = tokenizers.Tokenizer.from_file(str(args.tokenizer))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    parts = [np.asarray(tokenizer.encode(text, add_special_tokens=args.special).ids, dtype="<i4")
             for text in documents(args.file, args.field)]
    ids = np.concatenate(parts) if parts else np.zeros(0, "<i4")
    lengths = np.asarray([len(p) for p in parts], dtype="<i4")
    if args.ids:
        np.save(args.ids, ids)
    print(json.dumps({"documents": len(parts), "ids": int(ids.size), "first": ids[:16].tolist(),
                      "sha256": hashlib.sha256(ids.tobytes()).hexdigest(),
                      "sha256_lengths": hashlib.sha256(lengths.tobytes()).hexdigest(),
                      "tokenizers": tokenizers.__version__}))


if __name__ == "__main__":
    main()
