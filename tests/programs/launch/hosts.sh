#!/usr/bin/env bash
# Four hosts, which are namespaces of this machine's network behind one switch, train by one command each: to the
# bytes of ranks that are threads; when one's cable is cut and mended again, too. One that has another key or runs
# another program gets nowhere. Needs root and network namespaces.
# usage: hosts.sh PROGRAMS WORK
source "$(dirname "$0")/../common.sh"
sed -i '/^ranks:/d' small.yaml
hosts=4 switch=plsw$$
mapfile -t names < <(for ((i = 0; i < hosts; ++i)); do echo "plhost$$-$i"; done)
cleanup() {
  mapfile -t left < <(jobs -p)
  ((${#left[@]} == 0)) || kill "${left[@]}" 2> /dev/null || true
  for one in "${names[@]}" "$switch"; do ip netns del "$one" 2> /dev/null || true; done
}
trap cleanup EXIT
connect() {
  ip netns add "$switch" && ip -n "$switch" link add br0 type bridge && ip -n "$switch" link set br0 up || return 1
  for ((i = 0; i < hosts; ++i)); do
    ip netns add "${names[i]}" && ip link add eth0 netns "${names[i]}" type veth peer name "port$i" netns "$switch" &&
      ip -n "$switch" link set "port$i" master br0 && ip -n "$switch" link set "port$i" up &&
      ip -n "${names[i]}" addr add "10.78.1.$((i + 1))/24" dev eth0 && ip -n "${names[i]}" link set eth0 up &&
      ip -n "${names[i]}" link set lo up || return 1
  done
}
if ! connect 2> /dev/null; then
  echo "skipped: no network namespaces can be made here"
  exit 77
fi
train save_folder=calm ranks=$hosts

host() { # number, folder of the meeting, options and program
  exec timeout 150 ip netns exec "${names[$1]}" "$programs/launch" -n 1 --nodes $hosts --node "$1" --rendezvous "$2" "${@:3}" > "host$1" 2>&1
}
start() { # the same on all
  for ((i = 0; i < hosts; ++i)); do
    host "$i" "$@" & ids[i]=$!
  done
}
shown() { cat host? >&2; fail "$1"; }
ended_well() {
  for ((i = 0; i < hosts; ++i)); do wait "${ids[i]}" || shown "host $i"; done
  "$programs/checkpoint" diff calm "$1" > log 2>&1 || shown "$1 differs from threads"
}

start meet pretrain small.yaml save_folder=four
ended_well four
echo "four hosts by one command each: the bytes of threads"

start meet --restarts 3 pretrain small.yaml save_folder=cut dist_timeout=3
until [[ -e cut/latest ]]; do sleep 0.01; done
ip -n "$switch" link set port2 down
begin=$(date +%s%N)
until grep -qsE 'waited 3 s for ranks? [0-9, ]*2|rank 2' host0 host1 host3; do sleep 0.05; done
echo "a cable that is cut: said after $((($(date +%s%N) - begin) / 1000000)) ms: $(grep -hsoE 'error: .*rank 2[^;]*' host0 host1 host3 | head -n 1)"
sleep 2
ip -n "$switch" link set port2 up
ended_well cut
echo "and mended: the same bytes"

openssl rand -hex 32 > key
openssl rand -hex 32 > other
chmod 600 key other
for ((i = 0; i < hosts; ++i)); do
  host "$i" keys --key $([[ $i == 2 ]] && echo other || echo key) --gone 1 pretrain small.yaml save_folder=keys-out deadlines.setup=5 & ids[i]=$!
done
for ((i = 0; i < hosts; ++i)); do wait "${ids[i]}" && shown "host $i trained next to one with another key"; done
[[ ! -e keys-out/latest ]] || shown "something was trained"
echo "another key: $(grep -hE '^error' host2 | head -n 1)"

cp -r "$programs" programs
printf '\0' >> programs/pretrain
for ((i = 0; i < hosts; ++i)); do
  host "$i" meet-others $([[ $i == 3 ]] && echo ./programs/pretrain || echo pretrain) small.yaml save_folder=other-out & ids[i]=$!
done
for ((i = 0; i < hosts; ++i)); do wait "${ids[i]}" && shown "host $i trained next to another program"; done
[[ ! -e other-out/latest ]] || shown "something was trained"
echo "another program: $(grep -hE '^error' host0 | head -n 1)"
