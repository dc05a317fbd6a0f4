#!/usr/bin/env bash
# Two hosts, which are namespaces of this machine's network, train together on a set of an object store in a third, through one
# cache on a disk that they share: the losses of ranks that are threads and read the set from the disk, each shard downloaded once,
# and by both. Needs root and network namespaces.
# usage: streaming_hosts.sh PROGRAMS WORK [PYTHON]
source "$(dirname "$0")/../common.sh"
python=${3-python3}
[[ -x $programs/launch ]] || { echo "skipped: this build has no launch"; exit 77; }
names=("plst$$-0" "plst$$-1" "plst$$-2")  # the last is the store's
cleanup() {
  mapfile -t left < <(jobs -p)
  ((${#left[@]} == 0)) || kill "${left[@]}" 2> /dev/null || true
  for one in "${names[@]}"; do ip netns del "$one" 2> /dev/null || true; done
}
trap cleanup EXIT
connect() {
  for one in "${names[@]}"; do ip netns add "$one" && ip -n "$one" link set lo up || return 1; done
  ip -n "${names[2]}" link add br0 type bridge && ip -n "${names[2]}" addr add 10.79.1.3/24 dev br0 &&
    ip -n "${names[2]}" link set br0 up || return 1
  for i in 0 1; do
    ip link add eth0 netns "${names[i]}" type veth peer name "port$i" netns "${names[2]}" &&
      ip -n "${names[2]}" link set "port$i" master br0 && ip -n "${names[2]}" link set "port$i" up &&
      ip -n "${names[i]}" addr add "10.79.1.$((i + 1))/24" dev eth0 && ip -n "${names[i]}" link set eth0 up || return 1
  done
}
if ! connect 2> /dev/null; then
  echo "skipped: no network namespaces can be made here"
  exit 77
fi

"$python" - "$source_root/tests/programs/network" root/bucket/set <<'PY'
import pathlib
import sys
sys.path.insert(0, sys.argv[1])
sys.dont_write_bytecode = True
from mds_set import write_set
write_set(pathlib.Path(sys.argv[2]), 100, 6, 7, length=32, vocabulary=512)
PY
train autoresume=false save_folder= max_duration=50ba train_loader.dataset.local=root/bucket/set metrics_file=expected.jsonl

mkdir state
ip netns exec "${names[2]}" "$python" "$source_root/tests/programs/network/store_server.py" root state 10.79.1.3 & server=$!
until [[ -s state/ports ]]; do sleep 0.05; kill -0 $server || fail "the server of the test does not start"; done
export AWS_ACCESS_KEY_ID=AKIATEST AWS_SECRET_ACCESS_KEY=wJalr/XUtn+FEMI AWS_REGION=eu-central-1
AWS_ENDPOINT_URL=http://10.79.1.3:$(< state/ports)
export AWS_ENDPOINT_URL
sed -i '/^ranks:/d' small.yaml
for i in 0 1; do
  timeout 150 ip netns exec "${names[i]}" "$programs/launch" -n 1 --nodes 2 --node "$i" --rendezvous meet pretrain small.yaml \
    autoresume=false save_folder= max_duration=50ba train_loader.dataset.remote=s3://bucket/set train_loader.dataset.local=cache \
    train_loader.dataset.cache_limit=40kb metrics_file=hosts.jsonl > "host$i" 2>&1 & ids[i]=$!
done
for i in 0 1; do wait "${ids[i]}" || { cat host? >&2; fail "host $i"; }; done
diff <(losses expected.jsonl) <(losses hosts.jsonl) > /dev/null || fail "other losses than those of the local set"
"$python" - state/requests <<'PY'
import collections
import json
import sys
requests = [json.loads(line) for line in open(sys.argv[1])]
assert {r["status"] for r in requests} == {200}, collections.Counter(r["status"] for r in requests)
shards = [r for r in requests if "shard." in r["path"]]
counts = collections.Counter(r["path"] for r in shards)
by_host = collections.Counter(r["client"] for r in shards)
# 50 batches of 24 samples are two epochs; the cache holds about a third of the set
assert len(counts) == 100 and len(shards) <= 2 * 100 + 3 + 40, (len(counts), len(shards))
assert len(by_host) == 2 and min(by_host.values()) > 10, by_host
print(f"two hosts, one cache: the losses of threads on the local set; {len(shards)} downloads of 100 shards in two epochs, by "
      f"host {dict(by_host)}")
PY
