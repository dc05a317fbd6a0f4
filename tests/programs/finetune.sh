#!/usr/bin/env bash
# From a pretrained model to a finetuned one: a Hugging Face folder goes in, the loss of held-out
# responses falls, padded and packed rows give the same loss, any layout the same, and a run that is
# killed in mid-epoch goes on as if it had not been, on other ranks too. The same with adapters
# alone.
source "$(dirname "$0")/common.sh"

train max_duration=20ba save_folder=base model.resid_pdrop=0
"$programs/convert" base hf > /dev/null

words=(red green blue white black brown pink gold)
rows() { # from to: questions whose answers follow from them
  local i a b
  for ((i = $1; i < $2; ++i)); do
    a=${words[i % 8]} b=${words[i / 8 % 8]}
    printf '{"prompt": "What is %s and %s?", "response": " %s %s"}\n' "$a" "$b" "$b" "$a"
  done
}
mkdir -p answers
rows 0 56 > answers/train.jsonl
rows 56 64 > answers/test.jsonl

cat > tune.yaml <<'YAML'
run_name: tune
max_seq_len: 32
model:
  name: hf_causal_lm
  pretrained_model_name_or_path: mosaicml/mpt-small
  config_overrides: {attn_config: {attn_impl: flash}}
mirrors: {mosaicml/mpt-small: hf}
tokenizer: {name: mosaicml/mpt-small}
train_loader:
  name: finetuning
  dataset: {hf_name: answers, split: train, decoder_only_format: true, shuffle: true}
eval_loader:
  name: finetuning
  dataset: {hf_name: answers, split: test, decoder_only_format: true}
scheduler: {name: linear_decay_with_warmup, t_warmup: 2ba, alpha_f: 0}
optimizer: {name: decoupled_adamw, lr: 2.0e-3}
algorithms: {gradient_clipping: {clipping_type: norm, clipping_threshold: 1.0}}
# as in small.yaml
callbacks: {speed_monitor: {gpu_flops_available: 1.0e+11}}
max_duration: 6ep
eval_interval: 1ep
eval_first: true
global_train_batch_size: 8
device_train_microbatch_size: 2
device_eval_batch_size: 3
precision: fp32
log_to_console: false
YAML
tune() { "$programs/finetune" tune.yaml "$@" > log 2>&1 || { cat log >&2; fail "finetune $*"; }; }
steps() { grep loss/train "$1" > steps.jsonl && losses steps.jsonl; }
evaluations() { sed -nE 's/.*"metrics\/eval\/LanguageCrossEntropy":([^,]*),.*/\1/p' "$1"; }
near() { # a file of numbers, another, tolerance
  paste "$1" "$2" | awk -v most="$3" '
    NF % 2 || NF == 0 { bad = 1 }
    { for (i = 1; i <= NF / 2; ++i) { d = $i - $(i + NF / 2); if (d < 0) d = -d; if (d > most) bad = 1 } }
    END { exit bad || NR == 0 }'
}

tune ranks=1 metrics_file=one.jsonl save_folder=one save_interval=1ep
grep -q 'train_loader: 56 examples' log || fail "the number of examples is not said"
evaluations one.jsonl > one.eval
[[ $(wc -l < one.eval) == 7 ]] || fail "not evaluated before the first step and every epoch"
awk 'NR == 1 { first = $1 } { last = $1 } END { exit !(last < 0.7 * first) }' one.eval ||
  fail "the loss of held-out responses did not fall: $(tr '\n' ' ' < one.eval)"
best=$(awk 'NR == 1 { next } NR == 2 || $1 < least { least = $1; at = NR - 1 } END { print at }' one.eval)
[[ $(readlink one/best) == "ep$best-ba$((7 * best))" ]] || fail "best is $(readlink one/best), not of epoch $best"
steps one.jsonl > one.losses
[[ $(wc -l < one.losses) == 42 ]] || fail "not 7 batches an epoch"
grep -q '"metrics/train/TokenAccuracy"' one.jsonl || fail "no accuracy"
grep -q '"throughput/trained_tokens_per_sec"' one.jsonl || fail "no speed of trained tokens"

# any layout: the same losses to rounding
for layout in "ranks=2" "ranks=2 zero_stage=3" "ranks=4 parallelism.tensor=2 parallelism.pipeline=2" \
  "ranks=4 zero_stage=3 parallelism.tensor=2" "ranks=2 parallelism.context=2"; do
  # shellcheck disable=SC2086
  tune $layout metrics_file=layout.jsonl
  steps layout.jsonl > layout.losses
  near one.losses layout.losses 2e-3 || fail "$layout: other losses: $(paste one.losses layout.losses | tail -1)"
  rm layout.jsonl
done

# packed and padded: the same loss of the same examples, steps that follow from the rows
tune ranks=2 metrics_file=packed.jsonl train_loader.dataset.packing_ratio=2 \
  eval_loader.dataset.packing_ratio=2
grep -q warning log && fail "a warning where nothing is to warn of"
near <(head -1 one.eval) <(evaluations packed.jsonl | head -1) 1e-5 || fail "packed, another loss"
[[ $(steps packed.jsonl | wc -l) == 18 ]] || fail "not 3 packed batches an epoch"
# the ratio that auto stands for is said before a run and in it, whatever its length is given in
for how in dry_run=true save_folder=auto; do
  tune ranks=2 max_duration=2ba $how train_loader.dataset.packing_ratio=auto
  grep -qE '^train_loader: packing_ratio auto is [0-9.]+, [0-9]+ examples for 8 rows$' log ||
    { cat log >&2; fail "the packing ratio is not said ($how)"; }
done
grep -q "\"packing_ratio\": $(sed -n 's/^train_loader: packing_ratio auto is \([0-9]*\).*/\1/p' log)" auto/summary.json ||
  fail "the summary has another packing ratio"
tune ranks=1 max_duration=1ba train_loader.dataset.packing_ratio=2 \
  model.config_overrides.attn_config.attn_uses_sequence_id=false
grep -q 'attend to those before them' log || fail "no word that packed examples see each other"

# killed in mid-epoch, and resumed on as many ranks and on others: the same bytes
for packing in "" "train_loader.dataset.packing_ratio=1.7"; do
  same=(reduction_order=canonical save_interval=1ba save_num_checkpoints_to_keep=2 eval_interval=0ba
    eval_first=false autoresume=true $packing)
  rm -rf calm wild
  tune "${same[@]}" ranks=1 save_folder=calm
  kills=0
  for delay in 0 0.02 0.01 0.03 0.005; do  # after the first checkpoint that this start has saved
    saved=$(last_checkpoint wild)
    "$programs/finetune" tune.yaml "${same[@]}" ranks=$((1 + kills % 2)) save_folder=wild > log 2>&1 &
    while [[ $(last_checkpoint wild) == "$saved" ]] && kill -0 $! 2> /dev/null; do sleep 0.01; done
    sleep "$delay"
    if kill -KILL $! 2> /dev/null; then kills=$((kills + 1)); fi
    wait $! 2> /dev/null || true
  done
  tune "${same[@]}" ranks=2 zero_stage=1 save_folder=wild
  ((kills > 2)) || fail "only $kills runs were killed: the test shows nothing"
  "$programs/convert" --replace calm calm-hf > /dev/null
  "$programs/convert" --replace wild wild-hf > /dev/null
  cmp calm-hf/model.safetensors wild-hf/model.safetensors || fail "resumed, other weights ($packing)"
done

# weights alone, from a checkpoint of ours and from a Hugging Face folder of the same model
for from in base hf; do
  "$programs/finetune" small.yaml model.resid_pdrop=0 autoresume=false load_path=$from \
    load_weights_only=true train_loader.name=finetuning train_loader.dataset.local= \
    train_loader.dataset.hf_name=answers/train.jsonl global_train_batch_size=8 max_duration=2ba metrics_file=$from.jsonl > log 2>&1 ||
    { cat log >&2; fail "load_path=$from"; }
  steps $from.jsonl > $from.losses
done
near base.losses hf.losses 1e-6 || fail "a Hugging Face folder's weights are not the checkpoint's"

# LoRA: adapters alone are trained, in any layout alike, and go on where they were
lora=("model.peft_config={r: 4, lora_alpha: 8, lora_dropout: 0.1, target_modules: all-linear}" optimizer.lr=1.0e-2)
tune ranks=1 "${lora[@]}" metrics_file=lora.jsonl save_folder=lora save_interval=1ep
evaluations lora.jsonl > lora.eval
near <(head -1 one.eval) <(head -1 lora.eval) 1e-6 || fail "new adapters change the model"
awk 'NR == 1 { first = $1 } { last = $1 } END { exit !(last < 0.8 * first) }' lora.eval ||
  fail "the loss of held-out responses did not fall: $(tr '\n' ' ' < lora.eval)"
steps lora.jsonl > lora.losses
for layout in "ranks=2 zero_stage=3" "ranks=4 parallelism.tensor=2 parallelism.pipeline=2" \
  "ranks=3 parallelism.tensor=3 parallelism.sequence_parallel=false" "ranks=2 parallelism.context=2"; do
  # shellcheck disable=SC2086
  tune "${lora[@]}" $layout metrics_file=layout.jsonl
  steps layout.jsonl > layout.losses
  near lora.losses layout.losses 2e-3 || fail "LoRA, $layout: other losses: $(paste lora.losses layout.losses | tail -1)"
  rm layout.jsonl
done
tune ranks=1 "${lora[@]}" load_path=lora/ep2-ba14 load_weights_only=false save_folder=resumed
"$programs/convert" lora adapter > log
"$programs/convert" resumed adapter2 > log
cmp adapter/adapter_model.safetensors adapter2/adapter_model.safetensors || fail "resumed, other adapters"
grep -qF "\"base_model_name_or_path\": \"$PWD/hf\"" adapter2/adapter_config.json || fail "the adapter names no model"
# a run whose model's folder has lost its weights goes on from its checkpoint, and keeps the checksums of that model
mkdir without
cp -r lora/ep2-ba14 without
mv hf/model.safetensors lost.safetensors
tune ranks=1 "${lora[@]}" save_folder=without autoresume=true \
  "callbacks.hf_checkpointer={save_folder: exported, save_interval: 9ep, precision: float32}"
mv lost.safetensors hf/model.safetensors
"$programs/convert" without adapter4 > log
cmp adapter/adapter_model.safetensors adapter4/adapter_model.safetensors || fail "the checksums of the model were forgotten"
cmp adapter/adapter_model.safetensors exported/*/adapter_model.safetensors || fail "the export forgot the model's checksums"

# its model and adapter, the model with both merged, and the checkpoint are one model
"$programs/convert" --merge lora merged > log
mv hf moved
"$programs/convert" --merge --base moved adapter again > log || fail "an adapter whose model has moved is not merged"
mv moved hf
cmp merged/model.safetensors again/model.safetensors || fail "merged from its folder, another model"
head -c 2000 "$source_root/README.md" > some.txt
loss_of() {
  "$programs/evaluate" "$@" --data some.txt --tokenizer hf 2> log | sed -nE 's/^cross entropy +([^ ]*) nats/\1/p'
}
loss_of lora > tuned.loss
for model in "adapter" "hf --adapter adapter" "merged"; do
  # shellcheck disable=SC2086
  loss_of $model > model.loss
  near tuned.loss model.loss 1e-4 || fail "$model: not the model that was trained"
done
near tuned.loss <(loss_of hf) 0.01 && fail "the adapters change nothing"
tune ranks=2 model.pretrained_lora_id_or_path=adapter max_duration=1ba metrics_file=onward.jsonl
near <(tail -1 lora.eval) <(evaluations onward.jsonl | head -1) 1e-5 || fail "the adapter's run does not go on"

# a chat template with the time: a run that goes on later trains on the texts of its first start
cp -r hf timed
printf '%s' "{{ strftime_now('%S') }}{% for m in messages %}{{ m.content }}{% endfor %}" > timed/chat_template.jinja
for ((i = 0; i < 16; ++i)); do
  printf '{"messages": [{"role": "user", "content": "Is it %s?"}, {"role": "assistant", "content": "Yes"}]}\n' "${words[i % 8]}"
done > chats.jsonl
for duration in 1ba 2ba; do
  tune ranks=1 tokenizer.name=timed train_loader.dataset.hf_name=chats.jsonl save_folder=later save_interval=1ba \
    autoresume=true max_duration=$duration eval_interval=0ba eval_first=false
  sleep 1.1
done
grep -q 'resumed later/ep0-ba1 at batch 1' log || fail "a run with the time in its chat template did not go on"
# two processes that begin in other seconds train on the texts of rank 0's, and so does one that goes on from there
if [[ -x $programs/launch ]]; then
  timed=(tokenizer.name=timed train_loader.dataset.hf_name=chats.jsonl save_folder=both save_interval=1ba autoresume=true
    eval_interval=0ba eval_first=false)
  for rank in 0 1; do
    RANK=$rank WORLD_SIZE=2 LOCAL_RANK=$rank LOCAL_WORLD_SIZE=2 PARALLELLM_INTERFACE=lo PARALLELLM_MEETING=$work/meeting \
      timeout 100 "$programs/finetune" tune.yaml "${timed[@]}" max_duration=1ba > both$rank 2>&1 & ids[rank]=$!
    sleep 1.1
  done
  for rank in 0 1; do wait "${ids[rank]}" || { cat both? >&2; fail "ranks with other times in their chat template"; }; done
  tune ranks=1 "${timed[@]}" max_duration=2ba
  grep -q 'resumed both/ep0-ba1 at batch 1' log || fail "a run that two processes began did not go on"
fi

refused() { # message arguments...
  local message=$1
  shift
  if "$programs/finetune" tune.yaml "$@" > log 2>&1; then fail "accepted: $*"; fi
  grep -qF "$message" log || { cat log >&2; fail "another message: $*"; }
}
# adapters belong to the weights for which they were trained: with others in the model's folder they are refused, and a
# checkpoint, which has its own copy, says so; copies of the same weights in other files will do
"$programs/convert" base hf16 --dtype bfloat16 > /dev/null
near tuned.loss <(loss_of hf16 --adapter adapter) 0.01 || fail "a copy of the model in bf16 is refused: $(cat log)"
"$programs/generate" lora --prompt 'What is' --max_new_tokens 4 --tokenizer hf > text 2> log
grep -q note log && { cat log >&2; fail "a note about the model as it was"; }
tune ranks=1 max_duration=3ba save_folder=more
"$programs/convert" more more-hf > /dev/null
mv hf was
mv more-hf hf
others="its adapters were trained for other weights than those in"
refused "$others" ranks=1 "${lora[@]}" load_path=lora/ep2-ba14 load_weights_only=false
refused "$others" ranks=1 model.pretrained_lora_id_or_path=adapter
for command in "convert lora adapter3" "convert --base hf lora adapter3" "convert --merge --base hf adapter again2" \
  "generate hf --adapter adapter --prompt a" "generate adapter --prompt a --tokenizer was" "evaluate adapter --data some.txt --tokenizer was"; do
  # shellcheck disable=SC2086
  "$programs/"$command > log 2>&1 && fail "$command: other weights are taken"
  grep -q "$others" log || { cat log >&2; fail "$command: another message"; }
done
"$programs/generate" lora --prompt 'What is' --max_new_tokens 4 --tokenizer was > text2 2> log || { cat log >&2; fail "generate lora"; }
cmp text text2 || fail "the checkpoint's own weights are not used"
grep -q "$others.*the checkpoint has its own copy" log || { cat log >&2; fail "not said that the model's folder has changed"; }
"$programs/convert" --merge lora merged2 2> log > /dev/null
cmp merged/model.safetensors merged2/model.safetensors || fail "the checkpoint's own weights are not merged"
"$programs/convert" --base was lora adapter3 > /dev/null || fail "the model as it was, in another folder, is refused"
rm -r hf
mv was hf

refused "is an MDS set" train_loader.dataset.hf_name=data
refused "'gpt2' is no folder on this machine" model.pretrained_model_name_or_path=gpt2
refused "mosaicml's files are no longer on the hub" model.pretrained_model_name_or_path=mosaicml/mpt-7b
refused "train_loader.dataset.hf_name: 'mosaicml/dolly_hhrlhf' is no folder or file" \
  train_loader.dataset.hf_name=mosaicml/dolly_hhrlhf
HF_HUB_OFFLINE=1 refused "is not in the cache" tokenizer.name=EleutherAI/gpt-neox-20b
refused "use_dora" "model.peft_config={r: 4, use_dora: true}"
refused "'q_proj' is no linear layer" "model.peft_config={target_modules: [q_proj]}"
refused "has adapters, but this run has none" load_path=lora
refused "fewer than one batch" global_train_batch_size=64
echo "finetuned from a Hugging Face folder: held-out loss $(head -1 one.eval) to $(tail -1 one.eval)"
