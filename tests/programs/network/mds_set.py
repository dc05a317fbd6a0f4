"""mds_set: writes MDS sets, by the description of Streaming's format, for tests of what reads them."""
import gzip
import hashlib
import json
import random
import struct


def write_set(folder, shards, samples_per_shard, seed, compression=None, hashes=("sha1",), length=16, vocabulary=64):
    """Writes an MDS set of random ids. Returns the bytes of its largest shard, compressed and decompressed together."""
    folder.mkdir(parents=True)
    draw = random.Random(seed)
    columns = {"column_encodings": ["ndarray:int32"], "column_names": ["tokens"], "column_sizes": [None],
               "compression": compression, "format": "mds", "hashes": list(hashes), "size_limit": None, "version": 2}
    header = json.dumps(columns, sort_keys=True).encode()
    index = []
    for number in range(shards):
        samples = []
        for _ in range(samples_per_shard):
            value = bytes([4, length]) + struct.pack(f"<{length}i", *(draw.randrange(vocabulary) for _ in range(length)))
            samples.append(struct.pack("<I", len(value)) + value)
        begin = 4 + 4 * (len(samples) + 1) + len(header)
        offsets = [begin + sum(map(len, samples[:i])) for i in range(len(samples) + 1)]
        raw = struct.pack(f"<{len(samples) + 2}I", len(samples), *offsets) + header + b"".join(samples)

        def described(name, data):
            (folder / name).write_bytes(data)
            return {"basename": name, "bytes": len(data), "hashes": {h: hashlib.new(h, data).hexdigest() for h in hashes}}

        name = f"shard.{number:05}.mds"
        entry = dict(columns, samples=len(samples), raw_data=described(name, raw), zip_data=None)
        if compression:
            (folder / name).unlink()
            entry["zip_data"] = described(name + ".gz", gzip.compress(raw, mtime=0))
        index.append(entry)
    (folder / "index.json").write_text(json.dumps({"version": 2, "shards": index}, sort_keys=True))
    return max(e["raw_data"]["bytes"] + (e["zip_data"] or {"bytes": 0})["bytes"] for e in index)
