#!/usr/bin/env bash
# The command lines of all programs: exit codes and examples at the end of --help, whose options exist, the version, and
# completion by bash and zsh from the same options.
# usage: terminal.sh PROGRAMS
set -euo pipefail
programs=$1
fail() { echo "FAILED: $*" >&2; exit 1; }

version=$(sed -n 's/.*library_version{\([0-9]*\), \([0-9]*\), \([0-9]*\)};$/ParallelLM \1.\2.\3/p' \
  "$(dirname "${BASH_SOURCE[0]}")/../../include/parallel/core/version.hpp")
count=0
for file in "$programs"/*; do
  [[ -f $file && -x $file ]] || continue
  program=${file##*/} count=$((count + 1))
  help=$("$file" --help) || fail "$program --help"
  examples=$(sed -n '/^Examples:$/,$p' <<< "$help" | tail -n +2)
  [[ -n $examples ]] || fail "$program --help ends without examples"
  [[ $help == *"Exit codes (docs/errors.md "*$'\n'"  75  stopped by a signal"* ]] || fail "$program --help does not name its exit codes"
  [[ $("$file" --version) == "$version" ]] || fail "$program --version does not print '$version'"
  # of a line for another program, such as launch, each program's own options
  all_help=$help
  for command in $(sed -n '/^Subcommands:$/,/^$/s/^  \([a-z]*\) .*/\1/p' <<< "$help"); do
    all_help+=$'\n'$("$file" "$command" --help)
  done
  for option in $(grep -oE -- ' --?[a-z][a-z_-]*' <<< "$examples"); do
    grep -qE -- "(^|[ ,])$option([ ,]|$)" <<< "$all_help" || fail "$program: an example uses $option, which it does not have"
  done

  script=$("$file" --completion bash) || fail "$program --completion bash"
  completed=$(bash -c '
    source /dev/stdin <<< "$1"
    COMP_WORDS=("$2" --he) COMP_CWORD=1
    "$(complete -p "$2" | sed "s/.*-F \([^ ]*\).*/\1/")"
    echo "${COMPREPLY[@]}"' - "$script" "$program")
  [[ $completed == --help ]] || fail "$program: bash completes --he to '$completed'"
  if command -v zsh > /dev/null; then
    zsh -n <("$file" --completion zsh) || fail "$program: zsh does not read its script"
  fi
done
((count > 8)) || fail "only $count programs were seen"

values=$(bash -c '
  source /dev/stdin <<< "$1"
  COMP_WORDS=(evaluate model --device cp) COMP_CWORD=3
  "$(complete -p evaluate | sed "s/.*-F \([^ ]*\).*/\1/")"
  echo "${COMPREPLY[@]}"' - "$("$programs/evaluate" --completion bash)")
[[ $values == cpu ]] || fail "the values of --device complete to '$values'"
commands=$(bash -c '
  source /dev/stdin <<< "$1"
  COMP_WORDS=(checkpoint ve) COMP_CWORD=1
  "$(complete -p checkpoint | sed "s/.*-F \([^ ]*\).*/\1/")"
  echo "${COMPREPLY[@]}"' - "$("$programs/checkpoint" --completion bash)")
[[ $commands == verify ]] || fail "the commands of checkpoint complete to '$commands'"
flags=$(bash -c '
  source /dev/stdin <<< "$1"
  COMP_WORDS=(checkpoint verify ckpt --js) COMP_CWORD=3
  "$(complete -p checkpoint | sed "s/.*-F \([^ ]*\).*/\1/")"
  echo "${COMPREPLY[@]}"' - "$("$programs/checkpoint" --completion bash)")
[[ $flags == --json ]] || fail "the options of a command complete to '$flags'"
said=$("$programs/checkpoint" verify nowhere --json 2>&1) && fail "a folder that is not there is verified"
[[ $said == *nowhere* && $said != *"--json is not an option"* ]] || fail "not the folder is refused: $said"
said=$("$programs/convert" --completion fish 2>&1) && fail "an unknown shell is accepted"
[[ $said == *"expected bash or zsh, found 'fish'"* ]] || fail "an unknown shell is not named: $said"

# colours, on a terminal that is made for it: quickstart has them in its first line, whatever follows fails
if command -v script > /dev/null && [[ -x $programs/quickstart ]]; then
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  echo 'hello world' > "$folder/book.txt"
  configuration=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/apps/configs/small.yaml
  coloured() { # 1 line for each that has colours; setting of the environment
    rm -rf "$folder/out"
    env -u NO_COLOR "$@" timeout 60 script -qec \
      "'$programs/quickstart' --config '$configuration' --out '$folder/out' --only_train '$folder/book.txt'" /dev/null \
      < /dev/null 2> /dev/null | grep -c $'\e\\[[0-9;]*m' || true
  }
  (($(coloured) > 0)) || fail "no colours on a terminal"
  (($(coloured NO_COLOR=) > 0)) || fail "an empty NO_COLOR counts"
  (($(coloured NO_COLOR=1) == 0)) || fail "colours with NO_COLOR"
  "$programs/quickstart" --config "$configuration" --out "$folder/piped" --only_train "$folder/book.txt" \
    > "$folder/said" 2>&1 < /dev/null || true
  grep -q $'\e' "$folder/said" && fail "escapes without a terminal"
fi
echo "$count programs: examples, and completion by bash$(command -v zsh > /dev/null && echo ' and zsh')"
