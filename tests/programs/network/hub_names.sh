#!/usr/bin/env bash
# Names of the hub where programs take folders: models, tokenizers and finetuning sets come from a stand-in of the hub
# (hub_server.py) and give the results that folders give; what is cached is used offline, and nothing is downloaded twice.
# usage: hub_names.sh PROGRAMS WORK [PYTHON]
source "$(dirname "$0")/../common.sh"
python=${3-python3}

unset HF_TOKEN HUGGING_FACE_HUB_TOKEN HF_HUB_CACHE HUGGINGFACE_HUB_CACHE HF_HUB_OFFLINE TRANSFORMERS_OFFLINE HF_TOKEN_PATH
export HF_HOME=$work/home
mkdir -p state root/models/org root/datasets/org/rows/data
train save_folder=run max_duration=2ba
"$programs/convert" run root/models/org/tiny --tokenizer tokenizer > /dev/null
head -c 50000 /dev/zero > root/models/org/tiny/flax_model.msgpack
for i in {1..24}; do
  printf '{"prompt": "Say %d", "response": "It is %d times as much as %d."}\n' "$i" $((i * 7)) "$i"
done > root/datasets/org/rows/data/train-00000-of-00001.jsonl
head -n 6 root/datasets/org/rows/data/train-00000-of-00001.jsonl > root/datasets/org/rows/data/test-00000-of-00001.jsonl
head -c 50000 /dev/zero > root/datasets/org/rows/data/unlabelled-00000-of-00001.parquet
echo '# rows' > root/datasets/org/rows/README.md

"$python" "$source_root/tests/programs/network/hub_server.py" root state & server=$!
trap 'kill $server 2> /dev/null' EXIT
until [[ -e state/ports ]]; do sleep 0.05; kill -0 $server || fail "the server of the test does not start"; done
read -r port _ < state/ports
export HF_ENDPOINT=http://127.0.0.1:$port

requests() { grep -c "\"path\": \"[^\"]*$1" state/requests || true; }
same() { cmp "$1" "$2" || fail "$1 and $2 differ"; }
refused() { # sentence command...
  local sentence=$1 status=0
  shift
  "$@" > out 2> err || status=$?
  [[ $status == 1 ]] || { cat err >&2; fail "$*: status $status, expected 1"; }
  grep -qF -- "$sentence" err || { cat err >&2; fail "$*: does not say '$sentence'"; }
}

# A model by its name: the same text, the same checkpoint, the same figures.
"$programs/generate" root/models/org/tiny --prompt 'template' --max_new_tokens 12 > by-folder 2> /dev/null
"$programs/generate" org/tiny --prompt 'template' --max_new_tokens 12 > by-name 2> err || { cat err >&2; fail generate; }
grep -qF 'downloading org/tiny from the hub' err || fail "generate does not say that it downloads"
same by-folder by-name
(($(requests msgpack) == 0)) || fail "a form of the weights that is not read was downloaded"
(($(requests 'resolve/[^"]*safetensors') == 1)) || fail "the weights were not downloaded once"
HF_HUB_OFFLINE=1 "$programs/convert" root/models/org/tiny by-folder-run > /dev/null
HF_HUB_OFFLINE=1 "$programs/convert" org/tiny by-name-run > /dev/null
"$programs/checkpoint" diff by-folder-run by-name-run > log 2>&1 || true  # their tokenizers have other paths
grep -qF 'differ in 0 of' log || { cat log >&2; fail "convert of a name"; }
head -c 2000 "${text[0]}" > text.txt
"$programs/evaluate" root/models/org/tiny --data text.txt --json by-folder.json > /dev/null 2>&1
"$programs/evaluate" org/tiny --data text.txt --json by-name.json > /dev/null 2>&1
diff <(grep -v '"model"' by-folder.json) <(grep -v '"model"' by-name.json) || fail "evaluate of a name"
grep -qF '"model": "org/tiny"' by-name.json || fail "the report does not name the model as it was named"
"$programs/prepare" --tokenizer org/tiny --concat_tokens 32 --eos_text '<|endoftext|>' --out_root set-by-name \
  --compression zstd "${text[@]}" > /dev/null 2>&1
diff -r data set-by-name || fail "prepare by a name"

# Finetuning by names, on two ranks and as two processes: the losses of folders; a file is downloaded once.
cat > tune.yaml <<'YAML'
max_seq_len: 32
model: {name: hf_causal_lm, pretrained_model_name_or_path: org/tiny}
tokenizer: {name: org/tiny}
train_loader: {name: finetuning, dataset: {hf_name: org/rows, split: train, max_seq_len: 32}}
eval_loader: {name: finetuning, dataset: {hf_name: org/rows, split: test, max_seq_len: 32}}
scheduler: {name: constant_with_warmup, t_warmup: 1ba}
optimizer: {name: decoupled_adamw, lr: 1.0e-3}
max_duration: 2ba
eval_interval: 2ba
global_train_batch_size: 8
device_train_microbatch_size: 4
device_eval_batch_size: 4
precision: fp32
ranks: 2
YAML
rm -rf home state/requests
"$programs/finetune" tune.yaml dry_run=true > log 2>&1 || { cat log >&2; fail "dry run"; }
(($(requests 'resolve/[^"]*safetensors') == 0)) || fail "a dry run downloads weights"
rm -f state/requests
"$programs/finetune" tune.yaml dry_run=true device_memory=1MB > log 2>&1 && fail "a plan fits no memory"
grep -q 'does not fit' log || { cat log >&2; fail "a plan that does not fit"; }
(($(requests 'api/models/org/tiny') <= 4)) || fail "a plan asks the hub for each setting that it tries: $(requests 'api/models/org/tiny')"
folders=(model.pretrained_model_name_or_path=root/models/org/tiny tokenizer.name=root/models/org/tiny
  train_loader.dataset.hf_name=root/datasets/org/rows eval_loader.dataset.hf_name=root/datasets/org/rows)
HF_HUB_OFFLINE=1 "$programs/finetune" tune.yaml "${folders[@]}" metrics_file=folders.jsonl > log 2>&1 ||
  { cat log >&2; fail "finetune by folders"; }
rm -rf home state/requests
if [[ -x $programs/launch ]]; then
  "$programs/launch" -n 2 "$programs/finetune" tune.yaml metrics_file=names.jsonl > log 2>&1 || { cat log >&2; fail "launch"; }
else
  "$programs/finetune" tune.yaml metrics_file=names.jsonl > log 2>&1 || { cat log >&2; fail "finetune by names"; }
fi
grep -qF 'downloading org/rows from the hub' log || fail "finetune does not say that it downloads"
loss() { grep -oE '"(loss/train/total|metrics/eval/LanguageCrossEntropy)":[^,}]*' "$1"; }
[[ -n $(loss names.jsonl) ]] || fail "no loss was written"
diff <(loss folders.jsonl) <(loss names.jsonl) || fail "finetuning by names has other losses"
for file in safetensors train-00000 test-00000; do
  (($(requests "resolve/[^\"]*$file") == 1)) || fail "$file was downloaded $(requests "resolve/[^\"]*$file") times"
done
(($(requests unlabelled) == 0)) || fail "a file of no split was downloaded"
HF_HUB_OFFLINE=1 "$programs/finetune" tune.yaml metrics_file=offline.jsonl > log 2>&1 || { cat log >&2; fail offline; }
diff <(loss folders.jsonl) <(loss offline.jsonl) || fail "finetuning offline has other losses"

# An adapter names the model as it was named, and its folder alone finds the model in the cache.
HF_HUB_OFFLINE=1 "$programs/finetune" tune.yaml "model.peft_config={r: 2}" save_folder=lora > log 2>&1 || { cat log >&2; fail LoRA; }
"$programs/convert" lora adapter > /dev/null
grep -qF '"base_model_name_or_path": "org/tiny"' adapter/adapter_config.json || fail "the adapter does not name org/tiny"
HF_HUB_OFFLINE=1 "$programs/generate" adapter --prompt 'template' --max_new_tokens 12 > by-adapter 2> err || { cat err >&2; fail "an adapter of a name"; }
"$programs/generate" lora --prompt 'template' --max_new_tokens 12 > by-checkpoint 2> /dev/null
same by-checkpoint by-adapter
"$programs/evaluate" adapter --data text.txt --json adapter.json > /dev/null 2>&1

# The models and adapters in an evaluation's YAML, and the model that an adapter names, are got too.
cp -r adapter root/models/org/adapter
cat > eval.yaml <<'YAML'
max_seq_len: 32
device_eval_batch_size: 4
precision: fp32
icl_tasks:
- {label: rows, dataset_uri: rows.jsonl, icl_task_type: language_modeling, num_fewshot: [0]}
models:
- {model_name: base, load_path: root/models/org/tiny, model: {name: hf_causal_lm, pretrained_model_name_or_path: root/models/org/tiny, pretrained_lora_id_or_path: adapter}}
- {model_name: alone, model: {name: hf_causal_lm, pretrained_model_name_or_path: adapter}}
- {model: {name: hf_causal_lm, pretrained_model_name_or_path: org/tiny, pretrained_lora_id_or_path: org/adapter}}
YAML
for i in {1..8}; do echo "{\"context\": \"Say $i\", \"continuation\": \" template $i\"}"; done > rows.jsonl
rm -rf home
"$programs/evaluate" eval.yaml --rows scores.jsonl --markdown scores.md > log 2>&1 || { cat log >&2; fail "an evaluation of adapters"; }
grep -qF 'org/tiny + org/adapter' scores.md || { cat scores.md >&2; fail "the tables do not name the adapter as the YAML does"; }
for name in alone 'org/tiny + org/adapter'; do
  diff <(grep -F '"base"' scores.jsonl | sed 's/"model":"[^"]*"//') <(grep -F "\"$name\"" scores.jsonl | sed 's/"model":"[^"]*"//') ||
    fail "$name has other scores"
done

# An adapter names the commit of its model if main is not there, and is used with that revision.
cp -r root/models/org/tiny root/models/org/tiny@v1
old=home/hub/models--org--tiny/snapshots/$(cat home/hub/models--org--tiny/refs/main)
train save_folder=longer max_duration=3ba
"$programs/convert" longer root/models/org/tiny --tokenizer tokenizer --replace > /dev/null
"$programs/fetch" org/tiny > /dev/null 2>&1
"$programs/finetune" tune.yaml "model.pretrained_model_name_or_path=$old" "model.peft_config={r: 2}" \
  save_folder=of-old > log 2>&1 || { cat log >&2; fail "LoRA of a commit"; }
"$programs/convert" of-old old-adapter > /dev/null
grep -qF "\"revision\": \"$(basename "$old")\"" old-adapter/adapter_config.json || fail "the adapter does not name the commit"
"$programs/generate" of-old --prompt 'template' --max_new_tokens 12 > by-checkpoint 2> /dev/null
sed -i 's/"revision": "[^"]*"/"revision": "v1"/' old-adapter/adapter_config.json
rm -rf home
HF_HUB_OFFLINE=1 refused '(fetch org/tiny --revision v1)' "$programs/convert" old-adapter merged --merge
"$programs/generate" old-adapter --prompt 'template' --max_new_tokens 12 > by-adapter 2> err || { cat err >&2; fail "an adapter of a revision"; }
same by-checkpoint by-adapter
sed -i 's/"revision": "[^"]*"/"revision": 1/' old-adapter/adapter_config.json
refused 'old-adapter/adapter_config.json: revision: expected a branch' "$programs/generate" old-adapter --prompt x
rm -r root/models/org/tiny home
mv root/models/org/tiny@v1 root/models/org/tiny
"$programs/fetch" org/tiny > /dev/null 2>&1

# A cache that another program filled in part has no listing: what is missing is named, nothing is taken for whole.
commit=$(cat home/hub/models--org--tiny/refs/main)
mkdir -p partial/hub/models--org--tiny/{refs,snapshots/"$commit"} partial/hub/datasets--org--parts/{refs,snapshots/"$commit"}
printf '%s' "$commit" | tee partial/hub/models--org--tiny/refs/main > partial/hub/datasets--org--parts/refs/main
snapshot=partial/hub/models--org--tiny/snapshots/$commit
cp root/models/org/tiny/tokenizer*.json "$snapshot"
partial() { # missing program...
  HF_HUB_OFFLINE=1 HF_HOME=$work/partial refused "the cache has only a part of it, as another program left it: $1 is missing" "${@:2}"
}
partial config.json "$programs/generate" org/tiny --prompt x
cp root/models/org/tiny/*config.json "$snapshot"
partial model.safetensors "$programs/generate" org/tiny --prompt x
cp root/models/org/tiny/model.safetensors "$snapshot"
HF_HUB_OFFLINE=1 HF_HOME=$work/partial "$programs/generate" org/tiny --prompt 'template' --max_new_tokens 12 > by-part 2> /dev/null
same by-folder by-part
rm "$snapshot/tokenizer.json"
partial tokenizer.json "$programs/prepare" --tokenizer org/tiny --out_root part "${text[0]}"
cp root/models/org/tiny/tokenizer.json "$snapshot"
cp root/datasets/org/rows/data/train-00000-of-00001.jsonl partial/hub/datasets--org--parts/snapshots/"$commit"/train-00001-of-00002.jsonl
partial train-00000-of-00002.jsonl "$programs/finetune" tune.yaml train_loader.dataset.hf_name=org/parts eval_interval=0 eval_loader=

# Names that lead nowhere, and none that leads to the hub by mistake.
refused "there is no folder 'org/absent' here; as a name of the hub: $HF_ENDPOINT/org/absent: the hub has no such model" \
  "$programs/generate" org/absent --prompt x
refused "mosaicml's repositories are gone from the hub" "$programs/convert" mosaicml/mpt-7b out
refused 'org/rows/none.jsonl: not a file; data_files names it' "$programs/finetune" tune.yaml train_loader.dataset.hf_kwargs.data_files=none.jsonl
refused 'org/rows: ' "$programs/finetune" tune.yaml train_loader.dataset.split=validation
refused 'neither here nor a name of the hub' "$programs/generate" ckpt/none.pt --prompt x
HF_HUB_OFFLINE=1 refused 'is not in the cache' "$programs/generate" org/other --prompt x
rm -f state/requests
"$programs/pretrain" small.yaml autoresume=false max_duration=1ba tokenizer.name=org/tiny-unknown > log 2>&1 || { cat log >&2; fail pretrain; }
[[ ! -e state/requests ]] || fail "pretraining on tokens asks the hub for a tokenizer that it does not need"
echo "names of the hub stand for folders in every program; each file is downloaded once, and offline the cache serves"
