#!/usr/bin/env bash
# Runs whose metrics go to trackers: to a stand-in for an MLflow server (mlflow_server.py), and where Python has the
# packages wandb, mlflow and tensorboard, to W&B's own client and a real MLflow server: every number is everywhere
# that of the metrics file, and trackers that are slow, dead or killed hold nothing up and lose nothing. What W&B's
# client wrote is sent on to a stand-in for its server (wandb_server.py); trackio is tried where it is there too.
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
  python3 "$here/network/${standin:-mlflow_server.py}" "$@" > ready & server=$!
  read -r _ port < ready
  uri=http://127.0.0.1:$port
}
stop() { kill "$server" && wait "$server" 2> /dev/null || true; }
says() { grep -qE -- "$1" "${2:-log}" || { cat "${2:-log}" >&2; fail "does not say '$1'"; }; }
runs() { python3 -c 'import json, sys; print(*(r["status"] for r in json.load(open(sys.argv[1]))["runs"].values()))' "$1"; }
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
timeout 100 "$programs/track" token/trackers/*.jsonl > out 2>&1 || { cat out >&2; fail "track"; }
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
  timeout 100 "$programs/track" away/trackers/*.jsonl || fail "track"
  stop
fi
check away.jsonl standin away.json

# A slow one.
serve slow.json --token s3cret-token --delay 0.8
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
serve slow.json --port "$port" --token s3cret-token
if (($(journals slow))); then timeout 100 "$programs/track" slow/trackers/*.jsonl || fail "track"; fi
check slow.jsonl standin slow.json
stop
echo "a server that is away or slow: nothing held up, nothing lost"

# A server that makes the run, but whose answer is lost: the run is found, and there is no second one.
serve lost.json --token s3cret-token --lose-creations 1
"$programs/pretrain" small.yaml save_folder=lost metrics_file=lost.jsonl "$(mlflow)" > log 2>&1 ||
  { cat log >&2; fail "a run whose creation is not answered"; }
check lost.jsonl standin lost.json
[[ $(runs lost.json) == FINISHED ]] || fail "MLflow runs whose creation was not answered: $(runs lost.json)"
stop

# A run that fails while the server is away says what waits, once, and how to send it: its checkpoints find no room.
status=0
(ulimit -f 100; exec "$programs/pretrain" small.yaml save_folder=failed "$(mlflow)") > log 2>&1 || status=$?
[[ $status != 0 ]] || { cat log >&2; fail "a run without room for checkpoints did not fail"; }
[[ $(grep -c 'records wait in failed/trackers/mlflow-.*\.jsonl; send them: track failed/trackers/mlflow-' log) == 1 ]] ||
  { cat log >&2; fail "a failed run does not say what waits, or not once"; }
serve failed.json --port "$port" --token s3cret-token
timeout 100 "$programs/track" failed/trackers/*.jsonl > out 2>&1 || { cat out >&2; fail "track"; }
[[ $(runs failed.json) == FAILED ]] || fail "an MLflow run of a failed run is $(runs failed.json)"

# A journal that finds no room: the run goes on and says it once, and what is there arrives with the end.
(ulimit -f 20; exec "$programs/pretrain" small.yaml run_name=full "$(mlflow)") > log 2>&1 ||
  { cat log >&2; fail "a run whose journal finds no room"; }
[[ $(grep -c 'mlflow: metrics are lost: full/trackers/mlflow-.* cannot be written, as on a full disk; the run goes' log) == 1 ]] ||
  { cat log >&2; fail "a journal without room is not told of once"; }
[[ $(runs failed.json) == "FAILED FINISHED" ]] || fail "a run whose journal finds no room: $(runs failed.json)"
stop
echo "an answer that is lost, a run that fails, a full disk: said once"

# A run that is killed, and goes on: in the same MLflow run, with what had not been sent. While it runs, `track` leaves
# it alone; when it has been killed, `track` ends it at the server.
serve killed.json --token s3cret-token
longer=(small.yaml save_folder=killed metrics_file=killed.jsonl max_duration=300ba save_interval=20ba autoresume=true)
"$programs/pretrain" "${longer[@]}" "$(mlflow)" > log 2>&1 & run=$!
until [[ -e killed/latest && -e killed.json && $(runs killed.json) == RUNNING ]]; do sleep 0.02; kill -0 $run || { cat log >&2; fail "the run ended"; }; done
kill -STOP $run
! timeout 100 "$programs/track" killed/trackers/*.jsonl > out 2>&1 || fail "track sends the journal of a run that goes on"
says 'another program sends these metrics; wait for it' out
[[ $(runs killed.json) == RUNNING ]] || fail "the MLflow run of a run that goes on is $(runs killed.json)"
kill -9 $run
wait $run 2> /dev/null || true
timeout 100 "$programs/track" killed/trackers/*.jsonl > out 2>&1 || { cat out >&2; fail "track"; }
[[ $(runs killed.json) == KILLED ]] || fail "the MLflow run of a killed run is $(runs killed.json)"
"$programs/pretrain" "${longer[@]}" "$(mlflow)" > log 2>&1 || { cat log >&2; fail "going on"; }
check killed.jsonl standin killed.json
[[ $(runs killed.json) == FINISHED ]] || fail "two MLflow runs of one, or one that goes on: $(runs killed.json)"

# A run that was deleted at the server in the middle: it begins again there, with all that the journal holds.
"$programs/pretrain" small.yaml save_folder=gone metrics_file=gone.jsonl max_duration=400ba "$(mlflow)" > log 2>&1 & run=$!
until [[ $(runs killed.json) == "FINISHED RUNNING" ]]; do sleep 0.02; kill -0 $run || { cat log >&2; fail "the run ended"; }; done
kill -STOP $run
stop
echo '{"experiments": {}, "runs": {}, "requests": 0, "largest": 0}' > gone.json
serve gone.json --port "$port" --token s3cret-token
kill -CONT $run
wait $run || { cat log >&2; fail "a run that was deleted at the server"; }
says 'mlflow: http://127.0.0.1:[0-9]* has no run run2; it is started again, with the metrics kept in gone/trackers'
check gone.jsonl standin gone.json
stop
echo "killed and resumed: one MLflow run with every number"

if ! "$python" -c 'import wandb, mlflow, tensorboard' 2> /dev/null; then
  echo "not tried: W&B's client, MLflow's server and TensorBoard's reader, as $python lacks their packages"
  exit 0
fi

# The real ones, all in one run, whose W&B client is killed in the middle.
unset MLFLOW_TRACKING_TOKEN
port=$((20000 + RANDOM % 12000))
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
kill $server

# What W&B's client wrote is synced to a stand-in for its server, after a try with a wrong key.
standin=wandb_server.py serve synced.json --key 0123456789012345678901234567890123456789
sync() {
  WANDB_BASE_URL=$uri WANDB_API_KEY=$1 timeout 120 "$python" -m wandb sync w/wandb/offline-run-* > sync.log 2>&1
}
sync 9876543210987654321098765432109876543210 || true
[[ $(python3 -c 'import json; print(len(json.load(open("synced.json"))["runs"]))') == 0 ]] || fail "a wrong key is taken"
sync 0123456789012345678901234567890123456789 || { cat sync.log >&2; fail "wandb sync"; }
check $fault.jsonl synced synced.json
stop
echo "wandb sync: the same numbers at the server"

# Two runs of one id: the second says that it goes to another one, and both are whole.
ids="loggers={wandb: {project: p, python: '$python', init_kwargs: {mode: offline, dir: two, id: twin}}}"
twin=(small.yaml run_name=twins max_duration=200ba "$ids")
"$programs/pretrain" "${twin[@]}" metrics_file=twin1.jsonl > log1 2>&1 & first=$!
until [[ -s twins/trackers/wandb-twin.jsonl ]]; do sleep 0.02; kill -0 $first || { cat log1 >&2; fail "the run ended"; }; done
kill -STOP $first
"$programs/pretrain" "${twin[@]}" metrics_file=twin2.jsonl > log2 2>&1 & second=$!
until grep -q 'go to another one' log2; do sleep 0.05; kill -0 $second || { cat log2 >&2; fail "the run ended"; }; done
kill -CONT $first
wait $first || { cat log1 >&2; fail "a run whose id another has"; }
wait $second || { cat log2 >&2; fail "a run with the id of another"; }
says 'wandb: another program sends the metrics of run twin; those of this run go to another one, [a-z0-9]{8}$' log2
check twin1.jsonl wandb 'two/wandb/offline-run-*-twin/*.wandb'
check twin2.jsonl wandb "two/wandb/offline-run-*-$(sed -n 's/.* go to another one, //p' log2)/*.wandb"
echo "two runs of one id: both are whole"

# An offline folder that is deleted while the client writes into it: it is written again.
rm -rf w
"$programs/pretrain" small.yaml run_name=cleaned save_folder=cleaned metrics_file=cleaned.jsonl max_duration=400ba \
  "loggers={wandb: {project: p, python: '$python', init_kwargs: {mode: offline, dir: w}}}" > log 2>&1 & run=$!
until compgen -G 'w/wandb/offline-run-*/*.wandb' > /dev/null; do sleep 0.1; kill -0 $run || break; done
rm -rf w/wandb/offline-run-*
wait $run || { cat log >&2; fail "a run whose offline folder is deleted"; }
says 'wandb: its offline folder .* was deleted; it is started again, with the metrics kept in cleaned/trackers'
check cleaned.jsonl wandb 'w/wandb/offline-run-*/*.wandb'
echo "a deleted offline folder: nothing lost"

if ! "$python" -c 'import trackio' 2> /dev/null; then
  echo "not tried: trackio, as $python lacks its package"
  exit 0
fi
# trackio, whose client is killed in the middle: one run with every number.
export TRACKIO_DIR=$work/trackio
"$programs/pretrain" small.yaml run_name=io save_folder=io metrics_file=io.jsonl max_duration=400ba \
  "loggers={trackio: {project: p, python: '$python'}}" > log 2>&1 & run=$!
until [[ -s trackio/p.db ]]; do sleep 0.05; kill -0 $run || { cat log >&2; fail "the run ended"; }; done
pkill -9 -P $run -f 'def serve' || echo "note: the client was over before it was killed"
wait $run || { cat log >&2; fail "a run with trackio"; }
check io.jsonl trackio trackio/p.db
echo "trackio: one run with every number, also when the client is killed"
