#!/usr/bin/env bash
# prepare --finetuning: the same set from every format, and nothing left behind by an error.
source "$(dirname "$0")/common.sh"

printf '%s\n' '{"prompt": "What is a region?\n", "response": "A part, of a model."}' \
  '{"prompt": "empty", "response": ""}' '{"prompt": "and a \"rank\"?", "response": "one process"}' > rows.jsonl
printf '[%s, %s,\n%s]\n' "$(sed -n 1p rows.jsonl)" "$(sed -n 2p rows.jsonl)" "$(sed -n 3p rows.jsonl)" > rows.json
printf 'question,answer,id\r\n"What is a region?\n","A part, of a model.",1\n' > rows.csv
printf 'empty,,2\n"and a ""rank""?",one process,3\n' >> rows.csv
gzip -k rows.csv
finetuning() { "$programs/prepare" --finetuning "$@"; }

finetuning --tokenizer tokenizer --out_root a --split train rows.jsonl > log
grep -q '^a/train: 2 rows, tokenised$' log || { cat log; fail "what was written"; }
grep -q '^dropped 1 rows' log || { cat log; fail "what was left out"; }
finetuning --tokenizer tokenizer --out_root b rows.json > /dev/null
finetuning --tokenizer tokenizer --out_root c --prompt_column question --response_column answer rows.csv.gz > /dev/null
for set in b c; do cmp a/train/shard.00000.mds $set/shard.00000.mds || fail "another set from another format"; done
finetuning --out_root text rows.jsonl | grep -q '^text: 3 rows, as text$' || fail "text"

finetuning --out_root d rows.csv 2> err && fail "wrong columns were accepted"
grep -q 'rows.csv:2: the row has "answer", "id", "question"; expected' err || { cat err; fail "unclear message"; }
finetuning --out_root a/train rows.jsonl 2> err && fail "a set was overwritten"
grep -q 'a/train: holds something already' err || { cat err; fail "unclear message"; }
finetuning --out_root d --preprocessor my.module:rows rows.jsonl 2> err && fail "Python was run"
grep -q 'from my.module import rows' err || { cat err; fail "no command that converts"; }
grep -qF 'or, to prepare, by --prompt_column COLUMN --response_column COLUMN' <(finetuning --out_root d rows.csv 2>&1) ||
  fail "no option that names columns"
for option in "--part rest" "--hold_out 10" "--process 0/2" "--concat_tokens 7" "--bos_text x" "--eos_text x" --no_wrap "--num_workers 2"; do
  # shellcheck disable=SC2086
  finetuning --out_root d $option rows.jsonl 2> err && fail "$option was passed over"
  grep -q "^error: ${option%% *} is for text to pretrain on and does nothing for the rows of --finetuning; leave it out: " err ||
    { cat err; fail "unclear message for $option"; }
done
[[ ! -e d && ! -e d.unfinished ]] || fail "an error left something behind"
"$programs/prepare" --out_root d rows.jsonl 2> err && fail "no tokenizer"
grep -q 'tokenizer is required' err || { cat err; fail "unclear message"; }
echo "finetuning rows of every format give one set"
