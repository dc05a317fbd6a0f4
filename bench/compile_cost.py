#!/usr/bin/env python3
"""What compiling costs, file by file: a compiler launcher that writes it down, and a table of it.

  cmake -DCMAKE_CXX_COMPILER_LAUNCHER="$PWD/bench/compile_cost.py;LOG" ...
  bench/compile_cost.py --table LOG... [--limits SECONDS MEBIBYTES --unit FILE SECONDS]

Each line of a LOG is "processor seconds, peak MiB, file". The table has the twenty slowest; with limits
it fails, and names the files, when one is above them. The seconds are those of a quiet core that takes so many for
FILE: of one that took longer for it, as many times more are allowed (twice as many where FILE is in no
log). What a compiler cache answers costs next to
nothing and is left out: build with CCACHE_RECACHE=1 or an empty cache to see every file.
"""
import resource
import subprocess
import sys


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


def slowness(rows, unit):
    """How many times as long as a quiet core this machine took, by what a file of known cost took."""
    took = [row[1] for row in rows if row[0].endswith(unit[0])]
    return max(1, max(took) / float(unit[1])) if took else 2


def table(logs, limits, unit):
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
    if not limits:
        return 0
    most = limits[0] * slowness(ordered, unit)
    over = [source for source, seconds, mebibytes in ordered
            if seconds > most or mebibytes > limits[1]]
    for source in over:
        print(f"error: {source} takes more than {most:.0f} s ({limits[0]:g} of a quiet core) or {limits[1]:g} MiB to "
              "compile; split it, or have what is heavy in it compiled once (apps/instances)")
    return 1 if over else 0


if __name__ == "__main__":
    arguments = sys.argv[1:]
    if arguments[:1] == ["--table"]:
        limits = unit = None
        if arguments[-6:-5] == ["--limits"] and arguments[-3:-2] == ["--unit"]:
            limits, unit = [float(limit) for limit in arguments[-5:-3]], arguments[-2:]
            arguments = arguments[:-6]
        if len(arguments) > 1:
            sys.exit(table(arguments[1:], limits, unit))
    elif len(arguments) > 1:
        sys.exit(compile_and_note(arguments[0], arguments[1:]))
    sys.exit(__doc__)
