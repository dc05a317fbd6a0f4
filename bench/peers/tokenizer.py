#!/usr/bin/env python3
"""Encodes the documents of a JSON-lines file in one thread with Hugging Face tokenizers or tiktoken.

tiktoken gets the same merges: every token of tokenizer.json with its id as rank (ids grow in the
order of the merges). It knows neither normalisation nor added tokens, so ids agree for tokenizers
without them (GPT-2); for others they may not, and the driver says so.
"""
import argparse
import array
import hashlib
import json
import os
import pathlib

os.environ["TOKENIZERS_PARALLELISM"] = "false"
from follow import follow  # noqa: E402

GPT2_PATTERN = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"


def byte_of_character():
    """GPT-2's spelling of bytes as printable characters, inverted."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    spelt = {chr(b): b for b in kept}
    spelt.update({chr(256 + i): b for i, b in enumerate(b for b in range(256) if b not in kept)})
    return spelt


def tiktoken_encoding(path):
    import tiktoken

    parts = json.loads(path.read_text())
    added = {token["content"] for token in parts["added_tokens"]}
    spelt = byte_of_character()
    ranks = {bytes(spelt[c] for c in token): rank
             for token, rank in parts["model"]["vocab"].items() if token not in added}
    return tiktoken.Encoding("same-merges", pat_str=GPT2_PATTERN, mergeable_ranks=ranks,
                             special_tokens={})


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("peer", choices=["tokenizers", "tiktoken"])
    parser.add_argument("tokenizer", type=pathlib.Path)
    parser.add_argument("file", type=pathlib.Path)
    args = parser.parse_args()
    path = args.tokenizer / "tokenizer.json" if args.tokenizer.is_dir() else args.tokenizer
    with open(args.file, "rb") as rows:
        texts = [json.loads(row)["text"] for row in rows]

    if args.peer == "tokenizers":
        import tokenizers

        version = tokenizers.__version__
        tokenizer = tokenizers.Tokenizer.from_file(str(path))
        encode_batch = getattr(tokenizer, "encode_batch_fast", tokenizer.encode_batch)

        def encode():
            return [e.ids for e in encode_batch(texts, add_special_tokens=False)]
    else:
        import tiktoken

        version = tiktoken.__version__
        encoding = tiktoken_encoding(path)

        def encode():
            return [encoding.encode_ordinary(text) for text in texts]

    ids = array.array("i", [i for document in encode() for i in document])
    follow({"bytes": sum(len(t.encode()) for t in texts), "documents": len(texts),
            "ids": len(ids), "digest": hashlib.sha256(ids.tobytes()).hexdigest(),
            "version": version}, encode)


if __name__ == "__main__":
    main()
