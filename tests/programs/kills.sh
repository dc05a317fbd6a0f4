#!/usr/bin/env bash
# N random kills (SIGKILL, SIGSEGV) and stops (SIGSTOP) of single MPI ranks at any moment of a run,
# saves included, each followed by a restart; every time the run reaches its end, its parameters and
# states must be those of an undisturbed one. Prints, by signal, what was said, the status and the
# seconds until all ranks had ended.
# usage: kills.sh PROGRAMS WORK MPIEXEC [N [SEED]]
source "$(dirname "$0")/common.sh"
mpiexec=$3
wanted=${4:-200}
RANDOM=${5:-17}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
ranks=3
run=("$mpiexec" --oversubscribe -n "$ranks" "$programs/pretrain" small.yaml "ranks=$ranks" max_duration=400ba
  save_interval=7ba deadlines.setup=15)

"${run[@]}" save_folder=calm > log 2>&1 || { cat log >&2; fail "the undisturbed run"; }
name=$(basename "$(readlink calm/latest)")
now() { date +%s%N; }

: > events
done=0 ends=0
while ((done < wanted || ends == 0)); do
  "${run[@]}" save_folder=wild > log 2>&1 & launcher=$!
  # any moment from the first save or the load on, some before
  sleep "$((RANDOM % 3)).$((RANDOM % 1000 + 1000))"
  mapfile -t processes < <(pgrep -P "$launcher" pretrain || true)
  event=end
  if ((done < wanted && ${#processes[@]} == ranks)); then
    case $((RANDOM % 8)) in 0) event=STOP ;; 1) event=SEGV ;; *) event=KILL ;; esac
    victim=$((RANDOM % ranks))
    kill -s $event "${processes[$victim]}" 2> /dev/null || event=end
  fi
  begin=$(now)
  status=0
  wait "$launcher" 2> /dev/null || status=$?
  if ((status == 0)); then
    ends=$((ends + 1))
    [[ $(readlink wild/latest) == "$name" ]] || fail "latest is $(readlink wild/latest), not $name"
    for file in "calm/$name"/*.safetensors; do
      cmp "$file" "wild/$name/$(basename "$file")" || fail "$(basename "$file") differs"
    done
    rm -rf wild
    continue
  fi
  [[ $event != end ]] || { cat log >&2; fail "a run nobody disturbed ended with $status"; }
  done=$((done + 1))
  said=$(grep -oE "rank [0-9]+ \(process [0-9]+ on .*\) stands still|waited 15 s for ranks? [0-9, ]+|not all of the [0-9]+ ranks came to [a-zA-Z_ ]+ within|exited on signal [0-9]+" log |
    head -1 | sed -E 's/process [0-9]+ on [^)]*/process … on …/; s/rank [0-9]+/rank N/') || true
  if [[ $event == STOP ]]; then # the culprit is named, and no other is; before its calls are kept, by the deadline
    grep -q "rank [0-9]* (process ${processes[$victim]} on .*) stands still" log ||
      grep -q "waited 15 s for rank $victim" log ||
      { grep -q 'ranks came to' log && ! grep -q "rank $victim: not all" log; } || { cat log >&2; fail "another rank is named than $victim"; }
  fi
  echo "$event $status $((($(now) - begin) / 1000000)) ${said:-nothing}" >> events
done
[[ -z $(find wild -name '*.tmp-*' 2> /dev/null) ]] || fail "temporary folders were left"

echo "$done kills and stops of single ranks of $ranks; the run came to its end $ends times, each time with the bytes of the undisturbed one"
echo
echo "| signal | events | status | seconds until all had ended: median | longest | said |"
echo "|---|---|---|---|---|---|"
for event in KILL SEGV STOP; do
  grep "^$event " events | cut -d' ' -f3 | sort -n > times || continue
  count=$(wc -l < times)
  second() { sed -n "$1p" times | awk '{printf "%.1f", $1 / 1000}'; }
  echo "| SIG$event | $count | $(grep "^$event " events | cut -d' ' -f2 | sort -u | paste -sd, | sed 's/,/, /g') |" \
    "$(second $(((count + 1) / 2))) | $(second "$count") | $(grep "^$event " events | cut -d' ' -f4- | sort | uniq -c | sort -rn | sed -E 's/ *([0-9]+) (.*)/\2 (\1)/' | paste -sd';') |"
done
