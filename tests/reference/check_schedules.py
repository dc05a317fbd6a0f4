"""Has PyTorch's own pipelining accept schedules in CSV form: complete, and free of deadlock with sends and receives.

    ref/bin/python tests/reference/check_schedules.py SCHEDULE.csv...     (written by pipeline::csv_of)
"""

import csv
import sys

from torch.distributed.pipelining import schedules

for path in sys.argv[1:]:
    with open(path) as lines:
        order = {
            rank: [schedules._Action.from_str(text) for text in row]
            for rank, row in enumerate(csv.reader(lines))
        }
    rank_of = {action.stage_index: rank for rank, row in order.items() for action in row}
    stages = 1 + max(rank_of)
    microbatches = 1 + max(action.microbatch_index for row in order.values() for action in row)
    ranks = len(order)
    schedules._validate_schedule(order, ranks, stages, microbatches)
    lowered = schedules._add_send_recv(order, lambda stage: rank_of[stage], stages)
    print(f"{path}: {ranks} ranks, {stages} stages, {microbatches} microbatches accepted; "
          f"{sum(map(len, lowered.values()))} actions with sends and receives")
