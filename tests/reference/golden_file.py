"""Golden numbers as safetensors files."""

import json

from safetensors.torch import load_file, save_file


def save(tensors, path, metadata):
    """save_file with a header in a fixed order, so that the same numbers make the same bytes."""
    save_file({k: tensors[k].detach().clone().contiguous() for k in sorted(tensors)}, path, metadata=metadata)
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + length :])
    path.chmod(0o644)
    load_file(path)
