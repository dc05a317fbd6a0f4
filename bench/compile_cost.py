#!/usr/bin/env python3
"""What compiling costs, file by file: a compiler launcher that writes it down, and a table of it.

  cmake -DCMAKE_CXX_COMPILER_LAUNCHER="$PWD/bench/compile_cost.py;LOG" ...
  bench/compile_cost.py --table LOG...
  bench/compile_cost.py --check LOG...

Each line of a LOG is "processor seconds, peak MiB, file". The table has the twenty slowest; --check prints it too,
fails, and names the files, when one is above SECONDS or MEBIBYTES. The seconds are those of a quiet core that takes
UNIT[1] for the file UNIT[0]: of one that took longer for it, as many times more are allowed (twice as many where that
file is in no log). What a compiler cache answers costs next to nothing and is left out: build with CCACHE_RECACHE=1 or
an empty cache to see every file.
"""
import resource
import subprocess
import sys

SECONDS, MEBIBYTES = 90, 2304  # half again of what a file may take
UNIT = "tests/main.cpp", 1.2


def compile_and_note(log, command):
    status = subprocess.run(command, check=False).returncode
    if "-c" in command and status == 0:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        if used.ru_utime + used.ru_stime < 0.5:
            return status
        source = command[command.index("-c") + 1]
        with open(log, "a", encoding="utf-8") as out:
            out.write(f"{used.ru_utime + used.ru_stime:.1f} {used.ru_maxrss // 1024} {source}\n")
    return status


def slowness(rows):
    """How many times as long as a quiet core this machine took, by what a file of known cost took."""
    took = [row[1] for row in rows if row[0].endswith(UNIT[0])]
    return max(1, max(took) / UNIT[1]) if took else 2


def table(logs, check):
    rows = {}
    for log in logs:
        with open(log, encoding="utf-8") as lines:
            for line in lines:
                seconds, mebibytes, source = line.rstrip("\n").split(" ", 2)
                rows[log, source] = (float(seconds), int(mebibytes))  # a file's last build counts
    ordered = sorted(((source, *cost) for (_, source), cost in rows.items()), key=lambda row: -row[1])
    print(f"{len(ordered)} files, {sum(row[1] for row in ordered):.0f} processor seconds\n")
    print("| seconds | MiB | file |\n|--:|--:|---|")
    for source, seconds, mebibytes in ordered[:20]:
        print(f"| {seconds:.1f} | {mebibytes} | {'/'.join(source.split('/')[-3:])} |")
    if not check:
        return 0
    most = SECONDS * slowness(ordered)
    over = [source for source, seconds, mebibytes in ordered
            if seconds > most or mebibytes > MEBIBYTES]
    for source in over:
        print(f"error: {source} takes more than {most:.0f} s ({SECONDS} of a quiet core) or {MEBIBYTES} MiB to "
              "compile; split it, or have what is heavy in it compiled once (src/instances)")
    return 1 if over else 0


if __name__ == "__main__":
    arguments = sys.argv[1:]
    if arguments[:1] in (["--table"], ["--check"]):
        if len(arguments) > 1:
            sys.exit(table(arguments[1:], arguments[0] == "--check"))
    elif len(arguments) > 1:
        sys.exit(compile_and_note(arguments[0], arguments[1:]))
    sys.exit(__doc__)
