"""The protocol of bench/parts/follow.hpp in Python."""
import json
import sys
import time


def follow(result, work):
    print(json.dumps(result), flush=True)
    for _ in sys.stdin:
        begin = time.process_time()
        work()
        print(json.dumps({"seconds": time.process_time() - begin}), flush=True)
