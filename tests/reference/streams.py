#!/usr/bin/env python3
"""Numbers of NumPy and sample counts of mosaicml-streaming that the tests of mpt/data hold.

  streams.py            prints the C++ lines of numpy_random_test.cpp and stream_weights_test.cpp
"""
import random

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
        streams, cells = [], []
        for _ in range(count):
            key = {"proportion": "proportion", "none": None,
                   "absolute": draw.choice(("repeat", "choose", None))}[kind]
            value = {"proportion": round(draw.random(), 3), "repeat": round(3 * draw.random(), 3),
                     "choose": draw.randint(0, 1000), None: None}[key]
            streams.append(Stream(local="x", **({key: value} if key else {})))
            cells.append(f".{key} = {value}" if key else "")
        if any("repeat" in c or "choose" in c for c in cells):
            epoch_size = None
        Stream.apply_weights(streams, np.array(sizes, np.int64), epoch_size, seed)
        chosen = [int(s.choose) for s in streams]
        items = ", ".join(f"{{{c}}}" for c in cells)
        print(f"      {{{{{items}}},\n       {{{', '.join(map(str, sizes))}}},\n"
              f"       {epoch_size if epoch_size is not None else 'std::nullopt'}, {seed}U,\n"
              f"       {{{', '.join(map(str, chosen))}}}}},")


if __name__ == "__main__":
    numbers()
    print()
    weights()
