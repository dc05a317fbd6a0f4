#!/usr/bin/env bash
# Random kills (SIGKILL, SIGSEGV), stops (SIGSTOP) and requests to end (SIGTERM) of single ranks at any
# moment of a run, its start and its saves included, over MPI, where this script starts the run again, and
# over gloo, where `launch --restarts` does. Every time the run reaches its end, its parameters and states
# must be those of an undisturbed one. Prints, by launcher and signal, what was said, the status, the seconds
# until the first error was printed and until all ranks had ended.
# usage: kills.sh PROGRAMS WORK MPIEXEC [N [SEED [mpi|gloo|both [SECONDS]]]]   no event after SECONDS
source "$(dirname "$0")/../common.sh"
mpiexec=$3
wanted=${4:-200}
seed=${5:-17}
kinds=${6:-both}
limit=${7:-3400}
[[ $kinds != both ]] || kinds="mpi gloo"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
ranks=3
sed -i '/^ranks:/d' small.yaml
program=(pretrain small.yaml max_duration=150ba save_interval=7ba save_folder=wild)
mpi=("$mpiexec" --oversubscribe -n "$ranks" "$programs/${program[0]}" "${program[@]:1}" deadlines.setup=15)
# who is stalled is named by the rank that watches it, or before that is so missed at the deadline
gloo=("$programs/launch" -n "$ranks" --restarts 1000000 "${program[@]}" dist_timeout=10)
trap 'kill -KILL $(jobs -p) 2> /dev/null || true' EXIT

"$programs/pretrain" small.yaml max_duration=150ba save_interval=7ba save_folder=calm ranks=$ranks > log 2>&1 ||
  { cat log >&2; fail "the undisturbed run"; }
name=$(basename "$(readlink calm/latest)")
now() { date +%s%N; }

same_end() { # the run has come to its end
  ends=$((ends + 1))
  [[ $(readlink wild/latest) == "$name" ]] || fail "latest is $(readlink wild/latest), not $name"
  for file in "calm/$name"/*.safetensors; do
    cmp "$file" "wild/$name/$(basename "$file")" || fail "$(basename "$file") differs"
  done
  [[ -z $(find wild -name '*.tmp-*') ]] || fail "temporary folders were left"
  rm -rf wild
}

errors='^error: |is stalled|ranks came to|exited on signal|rank [0-9]+ (ended with code|was killed)|stopped by a signal|non-zero status'
said_of() { # file: the first that says a cause
  grep -aoE "rank [0-9]+ \(process [0-9]+ on [^)]*\) is stalled|waited [0-9]+ s for ranks? [0-9, ]+|not all of the [0-9]+ ranks came to [a-zA-Z_ ]+ within|exited on signal [0-9]+|rank [0-9]+ (ended with code [0-9]+|was killed by signal [0-9]+)|stopped by a signal|non-zero status" "$1" |
    head -1 | sed -E 's/process [0-9]+ on [^)]*/process … on …/; s/ranks? [0-9, ]+/rank N /; s/ +$//' || true
}

# Any moment of a run whose launcher is the process: from its start on, or in the middle of a save.
strike() { # launcher
  local deadline=$((SECONDS + 60))
  until (($(pgrep -c -P "$1" pretrain || true) == ranks || SECONDS > deadline)) || ! kill -0 "$1" 2> /dev/null; do sleep 0.02; done
  if ((RANDOM % 3 == 0)); then
    deadline=$((SECONDS + 5))
    until compgen -G 'wild/*.tmp-*' > /dev/null || ((SECONDS > deadline)) || ! kill -0 "$1" 2> /dev/null; do sleep 0.002; done
  else
    sleep "$((RANDOM % 4)).$((RANDOM % 1000 + 1000))"
  fi
  mapfile -t processes < <(pgrep -P "$1" pretrain || true)
  event=none
  ((${#processes[@]} == ranks)) || return 0
  case $((RANDOM % 8)) in 0) event=STOP ;; 1) event=SEGV ;; 2) event=TERM ;; *) event=KILL ;; esac
  victim=$((RANDOM % ranks))
  kill -s $event "${processes[$victim]}" 2> /dev/null || event=none
}

note() { # kind event status begin spoken said
  echo "$1 $2 $3 $((($(now) - $4) / 1000000)) $((($5 - $4) / 1000000)) ${6:-nothing}" >> events
  done=$((done + 1))
}

over_mpi() {
  while ((done < wanted && SECONDS < limit || ends == 0)); do
    "${mpi[@]}" > log 2>&1 & launcher=$!
    event=none
    ((done >= wanted || SECONDS >= limit)) || strike "$launcher"
    begin=$(now) spoken=0 alone=0
    while kill -0 "$launcher" 2> /dev/null; do
      ((spoken > 0)) || ! grep -qaE "$errors" log || spoken=$(now)
      # its ranks are gone, and it waits for ever: a fault of mpiexec's own (bench/results)
      if ps --ppid "$launcher" -o stat=,comm= | grep -q '^[^Z].*pretrain'; then alone=0; else alone=$((alone + 1)); fi
      if ((alone > 200)); then
        kill -KILL "$launcher" 2> /dev/null || true
        echo "mpiexec was stalled after $event" >> alone
      fi
      sleep 0.05
    done
    status=0
    wait "$launcher" 2> /dev/null || status=$?
    ((spoken > 0)) || spoken=$(now)
    if ((status == 0)); then same_end; continue; fi
    [[ $event != none ]] || { cat log >&2; fail "a run nobody disturbed ended with $status"; }
    if [[ $event == STOP ]]; then # the culprit is named, and no other is; before its calls are kept, by the deadline
      grep -qa "rank [0-9]* (process ${processes[$victim]} on .*) is stalled" log ||
        grep -qa "waited 15 s for rank $victim" log ||
        { grep -qa 'ranks came to' log && ! grep -qa "rank $victim: not all" log; } || { cat log >&2; fail "another rank is named than $victim"; }
    fi
    note mpi $event $status "$begin" "$spoken" "$(said_of log)"
  done
}

over_gloo() {
  while ((done < wanted && SECONDS < limit || ends == 0)); do
    rm -rf launch-logs
    : > log # here, for the lines of the last launch must not be counted
    "${gloo[@]}" >> log 2>&1 & launcher=$!
    while ((done < wanted && SECONDS < limit)) && kill -0 "$launcher" 2> /dev/null; do
      lines=$(wc -l < log)
      starts=$(grep -ac 'launch: starting again' log || true)
      strike "$launcher"
      [[ $event != none ]] || continue
      begin=$(now) spoken=0
      while kill -0 "$launcher" 2> /dev/null && (($(grep -ac 'launch: starting again' log || true) == starts)); do
        ((spoken > 0)) || ! tail -n +$((lines + 1)) log | grep -qaE "$errors" || spoken=$(now)
        sleep 0.05
      done
      ((spoken > 0)) || spoken=$(now)
      tail -n +$((lines + 1)) log > of_this
      # it had ended before it was met, and its end is looked at below
      kill -0 "$launcher" 2> /dev/null || break
      if [[ $event == STOP ]]; then
        grep -qaE "waited (10 s )?for ranks? [0-9, ]*$victim|rank $victim (closed its connection|has not come|\(process ${processes[$victim]} on .*\) is stalled)" of_this || { cat of_this >&2; fail "another rank is named than $victim"; }
      fi
      note gloo $event "$(grep -aoE 'rank [0-9]+ (ended with code|was killed by signal) [0-9]+' of_this | head -1 | sed -E 's/rank [0-9]+ ended with code //; s/rank [0-9]+ was killed by signal /signal_/')" \
        "$begin" "$spoken" "$(said_of of_this)"
    done
    status=0
    wait "$launcher" || status=$?
    ((status == 0)) || { cat log >&2; fail "launch ended with $status"; }
    same_end
  done
}

: > events
: > alone
for kind in $kinds; do
  RANDOM=$seed SECONDS=0 done=0 ends=0
  rm -rf wild
  "over_$kind"
  echo "over $kind: $done events on single ranks of $ranks; the run came to its end $ends times, each time with the bytes of the undisturbed one"
done
[[ ! -s alone ]] || sort alone | uniq -c
echo
echo "| over | signal | events | status | seconds until an error is printed: median | longest | until all have ended: median | longest | said first |"
echo "|---|---|---|---|---|---|---|---|---|"
for kind in $kinds; do
  for event in KILL SEGV STOP TERM; do
    grep "^$kind $event " events > these || continue
    count=$(wc -l < these)
    second() { cut -d' ' -f"$1" these | sort -n | sed -n "$2p" | awk '{printf "%.1f", $1 / 1000}'; }
    middle=$(((count + 1) / 2))
    echo "| $kind | SIG$event | $count | $(cut -d' ' -f3 these | sort -u | paste -sd, | sed 's/,/, /g; s/signal_/signal /g') |" \
      "$(second 5 $middle) | $(second 5 "$count") | $(second 4 $middle) | $(second 4 "$count") |" \
      "$(cut -d' ' -f6- these | sort | uniq -c | sort -rn | sed -E 's/ *([0-9]+) (.*)/\2 (\1)/' | paste -sd';' | sed 's/;/; /g') |"
  done
done
