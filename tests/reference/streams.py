#!/usr/bin/env python3
"""Numbers of NumPy and sample counts of mosaicml-streaming that the tests of mpt/data hold.

  streams.py            prints the C++ lines of numpy_random_test.cpp
  streams.py WEIGHTS    writes the sample counts (tests/golden/stream_weights.json)
"""
import json
import pathlib
import random
import sys

import numpy as np
from streaming.base.stream import Stream


def numbers():
    for seed in (0, 1, 9176, 2**32 - 1, 2**32, 12345678901234567890):
        words = np.random.PCG64(seed).random_raw(2)
        print("  {")
        print(f"    mpt::data::numpy_random r({seed}U);")
        for word in words:
            print(f"    CHECK(r.next64() == {word}U);")
        print("  }")
    for seed, size, count in ((9176, 3, 1), (9176, 5, 4), (17, 40, 11), (5, 1, 1), (0, 9, 9)):
        chosen = sorted(np.random.default_rng(seed).choice(size, count, False).tolist())
        print("  {\n"
              f"    auto chosen = mpt::data::numpy_random({seed}).choose({size}, {count});\n"
              "    std::sort(chosen.begin(), chosen.end());\n"
              f"    CHECK(chosen == std::vector<std::size_t>{{{', '.join(map(str, chosen))}}});\n"
              "  }")


def weights():
    draw = random.Random(1)
    for kind in ("proportion", "none", "absolute") * 6:
        count = draw.choice((1, 2, 3, 5, 9, 17, 150))
        sizes = [draw.randint(1, 10**draw.randint(1, 6)) for _ in range(count)]
        seed = draw.randint(0, 2**40)
        epoch_size = draw.choice((None, draw.randint(1, 10**6)))
        items = []
        for _ in range(count):
            key = {"proportion": "proportion", "none": None,
                   "absolute": draw.choice(("repeat", "choose", None))}[kind]
            value = {"proportion": round(draw.random(), 3), "repeat": round(3 * draw.random(), 3),
                     "choose": draw.randint(0, 1000), None: None}[key]
            items.append({key: value} if key else {})
        if any("repeat" in item or "choose" in item for item in items):
            epoch_size = None
        streams = [Stream(local="x", **item) for item in items]
        Stream.apply_weights(streams, np.array(sizes, np.int64), epoch_size, seed)
        yield {"weights": items, "sizes": sizes, "epoch_size": epoch_size, "seed": seed,
               "chosen": [int(s.choose) for s in streams]}


def text_of_weights():
    """One line a list: a line of the file is what a reader compares."""
    cases = ("{" + ",\n ".join(f'"{key}": {json.dumps(value)}' for key, value in case.items()) + "}"
             for case in weights())
    return "[\n" + ",\n".join(cases) + "\n]\n"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        pathlib.Path(sys.argv[1]).write_text(text_of_weights())
    else:
        numbers()
