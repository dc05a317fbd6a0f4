#!/usr/bin/env python3
"""What compiling costs, file by file: a compiler launcher that writes it down, and a table of it.

  cmake -DCMAKE_CXX_COMPILER_LAUNCHER="$PWD/bench/compile_cost.py;LOG" ...
  bench/compile_cost.py --table LOG [SECONDS MEBIBYTES]

Each line of LOG is "processor seconds, peak MiB, file". The table has the twenty slowest; with limits
it fails, and names the files, when one is above them. What a compiler cache answers costs next to
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


def table(log, limits):
    rows = {}
    with open(log, encoding="utf-8") as lines:
        for line in lines:
            seconds, mebibytes, source = line.rstrip("\n").split(" ", 2)
            rows[source] = (float(seconds), int(mebibytes))  # the last build of a file counts
    ordered = sorted(rows.items(), key=lambda row: -row[1][0])
    print(f"{len(rows)} files, {sum(row[0] for row in rows.values()):.0f} processor seconds\n")
    print("| seconds | MiB | file |\n|--:|--:|---|")
    for source, (seconds, mebibytes) in ordered[:20]:
        print(f"| {seconds:.1f} | {mebibytes} | {'/'.join(source.split('/')[-3:])} |")
    if not limits:
        return 0
    most_seconds, most_mebibytes = float(limits[0]), int(limits[1])
    over = [source for source, (seconds, mebibytes) in ordered
            if seconds > most_seconds or mebibytes > most_mebibytes]
    for source in over:
        print(f"error: {source} takes more than {most_seconds:g} s or {most_mebibytes} MiB to "
              "compile; split it, or have what is heavy in it compiled once (apps/instances)")
    return 1 if over else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--table"] and len(sys.argv) in (3, 5):
        sys.exit(table(sys.argv[2], sys.argv[3:]))
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(compile_and_note(sys.argv[1], sys.argv[2:]))
