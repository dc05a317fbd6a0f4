#!/usr/bin/env bash
# Pages of runs: of one rank, of eight, of one that was killed and resumed, and a comparison of three. What runs leave
# is on the page, damaged lines are named and the rest is shown, and names with markup stay text.
source "$(dirname "$0")/common.sh"

"$programs/prepare" --tokenizer tokenizer --concat_tokens 32 --eos_text '<|endoftext|>' \
  --out_root few "${text[@]:0:20}" > /dev/null 2>&1
sed -i '/^callbacks:/d' small.yaml
cat >> small.yaml <<'YAML'
eval_loader: {name: text, dataset: {local: few, shuffle: false}}
eval_subset_num_batches: 2
callbacks:
  speed_monitor: {gpu_flops_available: 1.0e+11}
  generate_callback: {prompts: ["namespace <b>parallel</b>"], interval: 20ba, max_new_tokens: 8}
YAML
page() { "$programs/report" "$@" > log 2>&1 || { cat log >&2; fail "report $*"; }; }
has() { grep -qF -- "$2" "$1" || fail "$1 lacks: $2"; }

train run_name=one ranks=1 save_folder=one/ckpt metrics_file=one/metrics.jsonl eval_interval=10ba
"$programs/pretrain" small.yaml run_name=one ranks=1 save_folder=one/ckpt print_plan=true > log 2>&1 || fail "print_plan"
page one --out one.html
grep -q warning log && { cat log >&2; fail "warnings of a sound run"; }
python3 - "$("$programs/pretrain" --version)" << 'PYTHON' || fail "the page of one rank is not what the run was"
import html, json, re, sys
page = open("one.html").read()
summary = json.load(open("one/ckpt/summary.json"))
assert "<h1>one</h1>" in page
assert ">complete<" in page
assert '<section id="console"' in page and "eval at 20 ba: cross entropy" in page
assert f"{summary['loss']:.4f}" in page and f"{summary['evaluation']['cross_entropy']:.4f}" in page
assert "namespace &lt;b&gt;parallel&lt;/b&gt; →" in page and "1 earlier batches" in page
assert "src=\"data:image/svg+xml;base64,PHN2Zy" in page, "the picture of the step"
assert "generated at 20 ba" not in page, "a text that is a note, too"
assert "decoupled_adamw" in page and ">save_interval<" in page
events = [json.loads(line) for line in open("one/ckpt/run.jsonl")]
assert [e["event"] for e in events if e["event"] not in ("note", "line")] == ["start", "train", "memory", "end"]
start, end = events[0], events[-1]
assert start["configuration"]["run_name"] == "one" and start["configuration"]["optimizer.lr"] == "1.0e-3"
assert f"ParallelLM {start['version']}" == sys.argv[1] and f" · {sys.argv[1]}<" in page, start["version"]
assert start["program"] == "pretrain" and start["ranks"] == 1 and sum(start["memory_plan"].values()) > 0
assert any(e["event"] == "note" and e["batch"] == 20 and "generated at 20 ba" in e["text"] for e in events)
parts = end["training_seconds"] + end["evaluation_seconds"] + end["saving_seconds"]
assert 0 < parts < end["wall_clock_seconds"] and end["evaluation_seconds"] == summary["evaluation_seconds"] > 0
metrics = [json.loads(line) for line in open("one/metrics.jsonl")]
loss = {m["time/batch"]: m["loss/train/total"] for m in metrics if "loss/train/total" in m}
data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page)
if data:  # charts hold the very values
    chart = next(c for c in json.loads(data[1])["charts"] if c["id"] == "loss")
    training = next(s for s in chart["series"] if s["name"] == "training")
    assert training["x"] == sorted(loss) and len(loss) == 40
    assert all(abs(y - loss[x]) <= 1e-5 * abs(loss[x]) for x, y in zip(training["x"], training["y"]))
else:
    assert "apt-get install libjs-dygraphs" in page
table = page[page.index("<caption>Loss by batch"):]
assert f"<td>{loss[7]:.4g}</td>" in table[:table.index("</table>")]
PYTHON
echo "the page of one rank has its values, its configuration, its texts and its end"

# A page is served meanwhile, as the server waits for seconds for a connection that says nothing.
cp -r one served && sed -i 's#"metrics_file":"[^"]*"#"metrics_file":""#' served/ckpt/run.jsonl
"$programs/report" served --serve 0 > address 2> served.log &
server=$!
trap 'kill $server 2> /dev/null || true' EXIT
for ((i = 0; i < 200; ++i)); do [[ -s address ]] && break; sleep 0.05; done
python3 - "$(cat address)" << 'PYTHON' & serving=$!
import json, re, socket, sys, time, urllib.error, urllib.request
address = sys.argv[1]
host, port, token = re.fullmatch(r"http://(127\.0\.0\.1):(\d+)/\?token=([0-9a-f]{32})", address).groups()
def status(url, **options):
    try:
        return urllib.request.urlopen(urllib.request.Request(url, **options), timeout=20).status
    except urllib.error.HTTPError as problem:
        return problem.code
answer = urllib.request.urlopen(address, timeout=20)
page = answer.read().decode()
assert "<h1>one</h1>" in page and answer.headers["Cache-Control"] == "no-store" and answer.headers["Refresh"] == "15"
base = f"http://{host}:{port}/"
wrong = token[:-1] + ("0" if token[-1] != "0" else "1")
for url in (base, base + "?token=", base + "?token=" + wrong, base + "?token=" + token[:-1], address + "0", base + "x?token=" + token):
    assert status(url) == 403, url
assert status(address, data=b"x") == 405
listening = [line.split() for line in open("/proc/net/tcp") if line.split()[1].endswith(f":{int(port):04X}") and line.split()[3] == "0A"]
assert [line[1] for line in listening] == [f"0100007F:{int(port):04X}"], "listens elsewhere than on the loopback"
def status_for(*hosts):  # of a request with these Host lines
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        lines = [f"GET /?token={token} HTTP/1.1", *(f"{name}: {value}" for name, value in hosts), "", ""]
        connection.sendall("\r\n".join(lines).encode())
        return int(connection.makefile("rb").readline().split()[1])
for name in ("127.0.0.1", f"127.0.0.1:{port}", "localhost:9999", "LocalHost", "[::1]:8080"):  # 9999: of a tunnel
    assert status_for(("Host", name)) == 200, name
for name in ("evil.example", f"evil.example:{port}", "127.0.0.1.evil.example", "localhost.", "", "127.0.0.1@evil.example", "[::1", "192.168.0.1"):
    assert status_for(("host", name)) == 403, name
assert status_for() == 403 and status_for(("Host", "127.0.0.1"), ("Host", "evil.example")) == 403
silent = [socket.create_connection((host, int(port))) for _ in range(80)]  # more than are served at a time
deaf = socket.create_connection((host, int(port)))  # takes nothing of the answer
deaf.sendall(f"GET /?token={token} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
dripping, begun = socket.create_connection((host, int(port))), time.monotonic()
while True:  # a byte now and then does not hold the server up, and is not waited for without end
    try:
        dripping.send(b"G")
        dripping.settimeout(0.5)
        if not dripping.recv(1): break
    except TimeoutError: pass
    except OSError: break
    asked = time.monotonic()
    assert status(address) == 200 and time.monotonic() - asked < 3, "a slow browser holds up another"
    assert time.monotonic() - begun < 30, "a request has no end"
with open("served/metrics.jsonl", "a") as file:
    file.write(json.dumps({"time/batch": 41, "time/train_seconds": 1e3, "loss/train/total": 0.4242}) + "\n")
assert "0.4242" in urllib.request.urlopen(address, timeout=20).read().decode(), "what the run wrote since is not shown"
PYTHON

train run_name=eight ranks=8 save_folder=eight/ckpt metrics_file=eight/metrics.jsonl max_duration=60ba
page eight/ckpt --out eight.html
python3 - << 'PYTHON' || fail "the page of eight ranks is not what the run was"
import json
summary, page = json.load(open("eight/ckpt/summary.json")), open("eight.html").read()
by_rank = summary["device_memory_by_rank"]
assert len(by_rank) == 8 and max(by_rank) == summary["device_memory_bytes"] and min(by_rank) > 0
assert all(f">rank {rank}<" in page for rank in range(8)) and ">rank 8<" not in page
assert "largest of 8 ranks" in page
events = [json.loads(line) for line in open("eight/ckpt/run.jsonl")]
memory = [(e["batch"], e["device_bytes"]) for e in events if e["event"] == "memory"]
assert [batch for batch, _ in memory] == [50, 60] and memory[-1][1] == by_rank
table = page[page.index("<caption>Peak memory by rank by batch"):]
assert all(f'<th scope="col">rank {rank}</th>' in table for rank in range(8))
metrics = [json.loads(line) for line in open("eight/metrics.jsonl")]
loads = [m for m in metrics if any(name.startswith("system/") for name in m)]
assert [m["time/batch"] for m in loads] == [50] and 0 < loads[0]["system/node0/memory_share"] < 1
assert "loss/train/total" in loads[0] and "system/node1/memory_share" not in loads[0]
assert "node0 memory" in page, "the load of the node has no chart"
names = {name for m in metrics for name, value in m.items() if isinstance(value, (int, float))}
assert all(f'<th scope="row">{name}</th>' in page for name in names - {"time/batch"}), "a number is not on the page"
PYTHON
echo "the page of eight ranks has the memory of each, the load of their node, and every number"

"$programs/pretrain" small.yaml run_name=killed save_folder=killed/ckpt metrics_file=killed/metrics.jsonl \
  max_duration=400ba save_interval=100ba > log 2>&1 &
for ((i = 0; i < 1200; ++i)); do
  [[ $(cat killed/metrics.jsonl 2> /dev/null | wc -l) -gt 160 && -L killed/ckpt/latest ]] && break
  sleep 0.05
done
page killed --out alive.html
has alive.html '>running<'
grep -qE '<p>Batch [0-9]+ of 400 \([0-9.]+ %, [0-9:]+ left\)<progress' alive.html || fail "the progress of a running run"
kill -KILL $! || fail "it was over before it was killed: the test shows nothing"
wait $! 2> /dev/null || true
page killed --out running.html
has running.html '>killed<'
has running.html 'last wrote 20'
train run_name=killed save_folder=killed/ckpt metrics_file=killed/metrics.jsonl max_duration=400ba save_interval=100ba
page killed --out killed.html
python3 - << 'PYTHON' || fail "lost time and two programs are not on the page"
import json, re
page = open("killed.html").read()
batches = [json.loads(line)["time/batch"] for line in open("killed/metrics.jsonl") if "loss/train/total" in line]
again = next(i + 1 for i, (a, b) in enumerate(zip(batches, batches[1:])) if b <= a)
assert ">complete<" in page and "killed or failed" in page
assert f"1 – {max(batches[:again])}" in page, "the batches of the first program"
assert f"{batches[again]} – 400" in page, "the batches of the second"
lost = re.search(r"<td>([0-9.]+) s</td>\n?<td>killed or failed</td>", page)
assert lost and float(lost[1]) > 0, "nothing was lost"
PYTHON
echo "a run that was killed and resumed shows both programs and what was lost"

page one eight/ckpt killed/metrics.jsonl --title 'A & B' --out three.html
has three.html '<h1>A &amp; B</h1>'
has three.html 'Keys that differ'
has three.html '<span class="mark c1"></span>eight'
page one one/ckpt --out same.html
has same.html 'one (one)'
has same.html 'one (one/ckpt)'
has same.html 'The configurations are the same.'

"$programs/pretrain" small.yaml run_name=wrong save_folder=wrong max_duration=5ba optimizer.lr=1e38 > log 2>&1 &&
  fail "a loss that is not finite"
page wrong --out wrong.html
has wrong.html '>failed<'
grep -q '<p class="reason">.*is not finite; lower the learning rate' wrong.html || fail "the reason of a failure"
cp -r one copied
head -n 20 one/metrics.jsonl > copied/metrics.jsonl
page copied/ckpt --out copied.html
grep -q '<th scope="row">10</th>' copied.html || fail "the curves of a copied folder"
grep -q '<th scope="row">40</th>' copied.html && fail "a copied folder has the curves of the original"

cp -r one damaged
sed -i 's#"run_name":"one"#"run_name":"<i>one</i>"#' damaged/ckpt/run.jsonl
sed -i -e '3s/.*/{"time\/batch": 3, \x1b[31m/' -e '5d' damaged/metrics.jsonl
sed -i 's#"metrics_file":"[^"]*"#"metrics_file":""#' damaged/ckpt/run.jsonl
head -c -30 damaged/ckpt/summary.json > cut && mv cut damaged/ckpt/summary.json
page damaged --out damaged.html
grep -q 'warning: damaged/metrics.jsonl: line 3 is no JSON and is left out: ' log || { cat log >&2; fail "the damaged line"; }
grep -q 'warning: damaged/ckpt/summary.json: is no JSON object and is left out' log || { cat log >&2; fail "the damaged summary"; }
grep -q $'\x1b' log damaged.html && fail "an escape of a terminal is passed on"
has damaged.html 'damaged/metrics.jsonl: line 3 is no JSON'
has damaged.html '<h1>&lt;i&gt;one&lt;/i&gt;</h1>'
has damaged.html '<caption>Loss by batch'
mv damaged moved && page moved --out moved.html && has moved.html '<caption>Loss by batch'

cp -r one junk
sed -i 's#"metrics_file":"[^"]*"#"metrics_file":""#' junk/ckpt/run.jsonl
sed -i '7s/"loss\/train\/total":[^,]*/"loss\/train\/total":NaN/' junk/metrics.jsonl
{ head -n 20 junk/metrics.jsonl && head -c 5000000 /dev/zero && echo && head -c 3000 "$programs/report" | tr '\0' '\n' && echo &&
  tail -n +21 junk/metrics.jsonl; } > cut && mv cut junk/metrics.jsonl
ln -sf /proc/self/mem junk/ckpt/plan.svg
page junk --out junk.html
grep -q 'warning: junk/metrics.jsonl: line 7 is no JSON and is left out: ' log || { cat log >&2; fail "a loss of NaN"; }
grep -q 'warning: junk/metrics.jsonl: line 21 is too long and is left out: ' log || { cat log >&2; fail "a line of 5 MB"; }
grep -q 'more lines are damaged and left out' log || { cat log >&2; fail "a program in the metrics"; }
has junk.html '<th scope="row">40</th>'
[[ $(grep -c '<th scope="row">7</th>' junk.html) == 0 ]] || fail "a batch whose loss is no JSON"
ln -sf /proc/self/mem junk/ckpt/run.jsonl
page junk --out unreadable.html
grep -q 'warning: junk/ckpt/run.jsonl: can be read only up to line 0: Input/output error' log || { cat log >&2; fail "an unreadable file"; }
has unreadable.html '<caption>Loss by batch'
cp -r one shared && sed -i 's#"metrics_file":"[^"]*"#"metrics_file":""#' shared/ckpt/run.jsonl
cat eight/metrics.jsonl >> shared/metrics.jsonl
page shared --out shared.html
has shared.html 'another run wrote to it, too'
page one one --out twice.html
grep -q 'note: one is named twice and shown once' log || fail "a run that is named twice"
has twice.html '<p class="kind">Training run</p>'

refused() { # message, arguments
  local message=$1
  shift
  "$programs/report" "$@" > log 2>&1 && fail "report $* was accepted"
  [[ $(grep -c . log) == 1 ]] || { cat log >&2; fail "not one sentence: report $*"; }
  grep -qF -- "$message" log || { cat log >&2; fail "unclear: report $*"; }
}
head -c 100000 "$programs/report" > text.jsonl
refused 'data: there is no run here: expected run.jsonl' data --out no.html
refused 'nowhere: there is no such folder or file' nowhere --out no.html
refused 'text.jsonl: is no metrics_file: none of its lines is a record' text.jsonl --out no.html
refused 'one/metrics.jsonl is what is read' one --out one/metrics.jsonl
refused 'ckpt is a folder' one --out one/ckpt
refused '--out FILE or --serve PORT is required' one
[[ ! -e no.html ]] || fail "a page of nothing"
[[ $("$programs/report" one --out - 2> /dev/null | head -c 15) == '<!doctype html>' ]] || fail "standard output"
echo "damaged files are named and the rest is shown; if there is no run there is no page"

wait $serving || fail "the page is served otherwise"
port=$(sed 's/.*1:\([0-9]*\).*/\1/' address)
refused "cannot listen at 127.0.0.1, port $port" one --serve "$port"
kill $server
wait $server 2> /dev/null || true
echo "a page is served to who has the token, on the loopback alone, with what the run has written since"
