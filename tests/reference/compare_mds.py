"""Reads an MDS folder with mosaicml-streaming, in file order, and prints sample count and id digest (one JSON line).

    python compare_mds.py DIR [--column tokens]     digests of a column of ids
    python compare_mds.py DIR --print N             the first N samples, every column, one JSON line each

`sha256` is over the samples' ids in order, each as little-endian int32, with nothing between them; `sha256_bytes` is over
the same ids in the type they are stored in (for `bytes` columns: int64, LLM Foundry's old encoding).
"""

import argparse
import hashlib
import json
import pathlib
import shutil
import tempfile

import numpy as np
import streaming


def plain(value):
    """A sample's value as JSON can hold it: arrays with their type, bytes in hex."""
    if isinstance(value, np.ndarray):
        return {"dtype": str(value.dtype), "shape": list(value.shape), "values": value.tolist()}
    return value.hex() if isinstance(value, bytes) else value.item() if isinstance(value, np.generic) else value


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--column", default="tokens")
    parser.add_argument("--print", type=int, metavar="N", dest="samples")
    args = parser.parse_args()
    index = json.loads((args.folder / "index.json").read_text())
    encodings = {n: e for s in index["shards"] for n, e in zip(s["column_names"], s["column_encodings"])}
    if args.samples is None and args.column not in encodings:
        raise SystemExit(f"no column {args.column!r}; there are {encodings}")
    ids32, stored, count, total, lengths, dtype = hashlib.sha256(), hashlib.sha256(), 0, 0, set(), None
    # A copy, for streaming decompresses into the folder it reads and leaves its own files there.
    with tempfile.TemporaryDirectory() as copy:
        local = pathlib.Path(copy) / "mds"
        shutil.copytree(args.folder, local)
        dataset = streaming.StreamingDataset(local=str(local), shuffle=False, batch_size=1)
        if args.samples is not None:
            for i in range(min(args.samples, dataset.num_samples)):
                print(json.dumps({n: plain(v) for n, v in dataset[i].items()}))
            return
        for i in range(dataset.num_samples):
            value = dataset[i][args.column]
            value = np.frombuffer(value, dtype=np.int64) if isinstance(value, bytes) else np.asarray(value)
            ids32.update(value.astype("<i4").tobytes())
            stored.update(np.ascontiguousarray(value).tobytes())
            count, total, dtype = count + 1, total + value.size, str(value.dtype)
            lengths.add(value.size)
        del dataset
    print(json.dumps({"samples": count, "ids": total, "lengths": sorted(lengths)[:10], "dtype": dtype,
                      "encodings": encodings, "sha256": ids32.hexdigest(), "sha256_bytes": stored.hexdigest(),
                      "streaming": streaming.__version__}))


if __name__ == "__main__":
    main()
