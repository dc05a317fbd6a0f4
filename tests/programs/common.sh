# Shared by the tests of the programs: small data from the sources themselves, a small model.
# usage: source common.sh PROGRAMS WORK   (WORK is emptied)
set -euo pipefail
programs=$1
work=$2
source_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
rm -rf "$work"
mkdir -p "$work"
cd "$work"

fail() { echo "FAILED: $*" >&2; exit 1; }

mapfile -t text < <(find "$source_root/include" -name '*.hpp' | sort)
"$programs/train_tokenizer" --vocab_size 512 --out tokenizer "${text[@]}" > /dev/null
"$programs/prepare" --tokenizer tokenizer --concat_tokens 32 --eos_text '<|endoftext|>' \
  --out_root data --compression zstd "${text[@]}" > /dev/null 2>&1

cat > small.yaml <<'YAML'
run_name: test
max_seq_len: 32
model: {name: mpt_causal_lm, d_model: 48, n_heads: 4, n_layers: 3, max_seq_len: 32, vocab_size: 512,
        resid_pdrop: 0.1}
tokenizer: {name: tokenizer}
train_loader: {name: text, dataset: {local: data, shuffle: true}}
scheduler: {name: cosine_with_warmup, t_warmup: 3ba, alpha_f: 0.1}
optimizer: {name: decoupled_adamw, lr: 1.0e-3, weight_decay: 1.0e-5}
algorithms: {gradient_clipping: {clipping_type: norm, clipping_threshold: 1.0}}
# A stated speed, as a run without one measures the speed of matrix products for half a second.
callbacks: {speed_monitor: {gpu_flops_available: 1.0e+11}}
max_duration: 40ba
eval_interval: 0ba
global_train_batch_size: 24
device_train_microbatch_size: 5
device_eval_batch_size: 4
precision: fp32
ranks: 2
zero_stage: 1
log_to_console: false
autoresume: true
save_interval: 4ba
save_num_checkpoints_to_keep: 3
YAML

train() { "$programs/pretrain" small.yaml "$@" > log 2>&1 || { cat log >&2; fail "pretrain $*"; }; }
losses() { sed -E 's/.*"time\/batch":([0-9]+).*"loss\/train\/total":([^,]*),.*"l2_norm\/grad\/global":([^,]*),.*/\1 \2 \3/' "$1" | sort -n; }

# The newest checkpoint of a save folder; nothing if there is none yet.
last_checkpoint() { # folder
  { find "$1" -maxdepth 1 -name 'ep*-ba*' 2> /dev/null || true; } | sort -V | tail -n 1
}
