#!/usr/bin/env bash
# Runs whose metrics go to trackers: to a stand-in for an MLflow server (mlflow_server.py), and where Python has the
# packages wandb, mlflow and tensorboard, to W&B's own client and a real MLflow server: every number is everywhere
# that of the metrics file, and trackers that are slow, dead or killed hold nothing up and lose nothing.
# usage: [TRACKERS_PYTHON=...] trackers.sh PROGRAMS WORK    the interpreter that has the packages
source "$(dirname "$0")/common.sh"
python=${TRACKERS_PYTHON:-python3}
here=$source_root/tests/programs
sed -i '/^autoresume/d' small.yaml
trap 'kill $(jobs -p) 2> /dev/null || true' EXIT

check() { "$python" "$here/trackers_check.py" "$@" || fail "trackers_check.py $*"; }
serve() { # file options...: sets server and port
  rm -f ready
  mkfifo ready
  python3 "$here/mlflow_server.py" "$@" > ready & server=$!
  read -r _ port < ready
  uri=http://127.0.0.1:$port
}
stop() { kill "$server" && wait "$server" 2> /dev/null || true; }
says() { grep -qE -- "$1" "${2:-log}" || { cat "${2:-log}" >&2; fail "does not say '$1'"; }; }
journals() { find "$1/trackers" -name '*.jsonl' | wc -l; }
mlflow() { echo "loggers={mlflow: {tracking_uri: '$uri', experiment_name: e, flush_interval: 1, tags: {team: x}}}"; }

# What is missing is named before the run begins.
status=0
"$programs/pretrain" small.yaml save_folder=none 'loggers={wandb: {python: /no/python3}}' > log 2>&1 || status=$?
[[ $status == 1 && ! -e none ]] || fail "a missing client: status $status, $(ls)"
says 'error: loggers.wandb: cannot start /no/python3: .*python3 -m pip install wandb'
if ! python3 -c 'import wandb' 2> /dev/null; then
  ! "$programs/pretrain" small.yaml save_folder=none 'loggers={wandb: {}}' > log 2>&1 || fail "wandb is not missing"
  says 'error: loggers.wandb: the Python package wandb is missing for .*; install it: python3 -m pip install wandb'
fi

serve plain.json --token s3cret-token
export MLFLOW_TRACKING_TOKEN=s3cret-token
if ! "$programs/pretrain" small.yaml max_duration=1ba save_folder=curl "$(mlflow)" > log 2>&1; then
  says 'error: loggers.mlflow: this program was built without libcurl; install it'
  echo "skipped: the programs were built without libcurl"
  exit 77
fi
stop
rm plain.json

# The same numbers everywhere, with a key that is nowhere.
serve plain.json --token s3cret-token
evaluated=("eval_loader={name: text, dataset: {local: data}}" eval_interval=10ba eval_subset_num_batches=2)
"$programs/pretrain" small.yaml save_folder=plain metrics_file=plain.jsonl "${evaluated[@]}" \
  "callbacks={optimizer_monitor: {batch_log_interval: 5}}" \
  "loggers={mlflow: {tracking_uri: '$uri', experiment_name: 'a b', flush_interval: 1}, csv: {filename: plain.csv}}" \
  > log 2>&1 || { cat log >&2; fail "a run with MLflow"; }
check plain.jsonl standin plain.json
check plain.jsonl csv plain.csv
[[ $(journals plain) == 0 ]] || fail "a journal stays though all was sent"
says 'mlflow: run run1 at http://127.0.0.1'
python3 - << 'PYTHON' || fail "parameters or request sizes"
import json
state = json.load(open("plain.json"))
(run,) = state["runs"].values()
assert run["params"]["model.d_model"] == "48" and run["params"]["train_loader.dataset.local"] == "data", run["params"]
assert run["tags"]["composer_run_name"] == "test" and 200 < state["largest"] <= 1000, state["largest"]
assert state["requests"] < 60, state["requests"]
PYTHON
! grep -rqs s3cret-token log plain/trackers plain.jsonl || fail "the token is written somewhere"
stop

# A wrong token is said once, and everything can be sent later.
serve token.json --token s3cret-token
MLFLOW_TRACKING_TOKEN=wrong "$programs/pretrain" small.yaml save_folder=token metrics_file=token.jsonl "$(mlflow)" \
  > log 2>&1 || { cat log >&2; fail "a run with a wrong token"; }
[[ $(grep -c 'refuses the credentials (status 401).*the run goes on' log) == 1 ]] || { cat log >&2; fail "said once"; }
says 'records wait in token/trackers/mlflow-[a-z0-9]*\.jsonl; send them: track token/trackers/mlflow'
"$programs/track" token/trackers/*.jsonl > out 2>&1 || { cat out >&2; fail "track"; }
check token.jsonl standin token.json
[[ $(journals token) == 0 ]] || fail "a journal stays though all was sent"
echo "a wrong token: nothing lost"

# A server that is away, and comes back in the middle of the run.
kill "$server"
wait "$server" 2> /dev/null || true
rm -f away.json
"$programs/pretrain" small.yaml save_folder=away metrics_file=away.jsonl max_duration=400ba "$(mlflow)" > log 2>&1 & run=$!
until grep -q 'does not answer' log; do sleep 0.05; kill -0 $run || { cat log >&2; fail "the run ended"; }; done
serve away.json --port "$port" --token s3cret-token --fail-first 3
wait $run || { cat log >&2; fail "a run whose server is away"; }
stop
[[ $(grep -c 'does not answer (.*metrics are sent later, and until then kept in away/trackers' log) == 1 ]] ||
  { cat log >&2; fail "a server that is away is not told of once"; }
if (($(journals away))); then  # it came back too late for the run
  serve away.json --port "$port" --token s3cret-token
  "$programs/track" away/trackers/*.jsonl || fail "track"
  stop
fi
check away.jsonl standin away.json

# A slow one.
serve slow.json --token s3cret-token --delay 4
begin=$SECONDS
"$programs/pretrain" small.yaml save_folder=slow metrics_file=slow.jsonl "$(mlflow)" > log 2>&1 ||
  { cat log >&2; fail "a run with a slow server"; }
python3 - slow.jsonl << 'PYTHON' || fail "a slow server slowed training down"
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
assert len(lines) == 40 and lines[-1]["time/train_seconds"] < 20, lines[-1]
PYTHON
((SECONDS - begin < 90)) || fail "a slow server held the end up for $((SECONDS - begin)) s"
stop
serve slow.json --token s3cret-token
if (($(journals slow))); then "$programs/track" slow/trackers/*.jsonl || fail "track"; fi
check slow.jsonl standin slow.json
stop
echo "a server that is away or slow: nothing held up, nothing lost"

# A run that is killed, and goes on: in the same MLflow run, with what had not been sent.
serve killed.json --token s3cret-token
longer=(small.yaml save_folder=killed metrics_file=killed.jsonl max_duration=300ba save_interval=20ba autoresume=true)
"$programs/pretrain" "${longer[@]}" "$(mlflow)" > log 2>&1 & run=$!
until [[ -e killed/latest ]]; do sleep 0.02; kill -0 $run || { cat log >&2; fail "the run ended"; }; done
kill -9 $run
wait $run 2> /dev/null || true
"$programs/pretrain" "${longer[@]}" "$(mlflow)" > log 2>&1 || { cat log >&2; fail "going on"; }
check killed.jsonl standin killed.json
[[ $(python3 -c 'import json; print(len(json.load(open("killed.json"))["runs"]))') == 1 ]] || fail "two MLflow runs of one"
stop
echo "killed and resumed: one MLflow run with every number"

if ! "$python" -c 'import wandb, mlflow, tensorboard' 2> /dev/null; then
  echo "not tried: W&B's client, MLflow's server and TensorBoard's reader, as $python lacks their packages"
  exit 0
fi

# The real ones, all in one run, whose W&B client is killed in the middle.
unset MLFLOW_TRACKING_TOKEN
port=$((20000 + RANDOM % 20000))
"$python" -m mlflow server --backend-store-uri "sqlite:///$work/mlflow.db" --artifacts-destination "$work/artifacts" \
  --host 127.0.0.1 --port $port --workers 1 > mlflow.log 2>&1 & server=$!
until "$python" -c "import urllib.request; urllib.request.urlopen('http://127.0.0.1:$port/health')" 2> /dev/null; do
  sleep 1
  kill -0 $server || { cat mlflow.log >&2; fail "mlflow server"; }
done
all="loggers={mlflow: {tracking_uri: 'http://127.0.0.1:$port', flush_interval: 1},
  wandb: {project: p, python: '$python', tags: [a], init_kwargs: {mode: offline, dir: w}},
  tensorboard: {log_dir: events}, csv: {filename: real.csv}}"
for fault in calm dead; do
  rm -rf w events real.csv log
  "$programs/pretrain" small.yaml run_name=$fault save_folder=real-$fault metrics_file=$fault.jsonl max_duration=200ba \
    "${evaluated[@]}" "$all" > log 2>&1 & run=$!
  if [[ $fault == dead ]]; then
    until compgen -G 'w/wandb/offline-run-*/*.wandb' > /dev/null; do
      sleep 0.1
      kill -0 $run || { cat log >&2; fail "the run ended before its client began"; }
    done
    pkill -9 -P $run -f 'def serve' || echo "note: the client was over before it was killed"
    first=$(ls -d w/wandb/offline-run-*)
  fi
  wait $run || { cat log >&2; fail "a run with real trackers ($fault)"; }
  [[ $(journals real-$fault) == 0 ]] || { cat log >&2; fail "a journal stays though all was sent"; }
  check $fault.jsonl mlflow "http://127.0.0.1:$port@$fault"
  check $fault.jsonl tensorboard events/$fault
  check $fault.jsonl csv real.csv
  if [[ $fault == dead ]] && (($(ls -d w/wandb/offline-run-* | wc -l) > 1)); then
    rm -rf "$first"  # what the client wrote before it was killed is in the other one too
    says "wandb: its client's process .*; it is started again"
  fi
  check $fault.jsonl wandb 'w/wandb/offline-run-*/*.wandb'
done
echo "W&B's client, MLflow's server and TensorBoard: the same numbers, also when the client is killed"
