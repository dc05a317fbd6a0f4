#!/usr/bin/env python3
"""Reads an epoch of an MDS set, shuffled, with mosaicml-streaming in this process (no workers).

That spares it the copies between processes; samples are the arrays as streaming decodes them.
"""
import argparse

from follow import follow


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--batch", type=int, default=32)
    args = parser.parse_args()
    import streaming

    dataset = streaming.StreamingDataset(local=args.folder, shuffle=True, batch_size=args.batch,
                                         num_canonical_nodes=1)
    samples = len(dataset) // args.batch * args.batch

    def read():
        total = 0
        for sample in dataset:
            total += int(sample["tokens"][0])
        assert total >= 0

    read()
    size = dataset[0]["tokens"].size
    follow({"samples": samples, "bytes": samples * size * 4, "version": streaming.__version__},
           read)


if __name__ == "__main__":
    main()
