"""What the stand-in servers of the tests have in common."""
import argparse
import http.server
import json
import os
import random
import subprocess
import sys
import threading
import time


class QuietServer(http.server.ThreadingHTTPServer):
    allow_reuse_address = daemon_threads = True

    def handle_error(self, request, client_address):
        """A client that goes away is none of the tests' errors."""


def server_with_own_port(port, handler):
    """A server at `port`, or (0) at a port below those that the system gives to others, so that a restart has it again."""
    while True:
        try:
            return QuietServer(("127.0.0.1", port or random.randrange(20000, 32000)), handler)
        except OSError:
            if port:
                raise


class JsonHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, status, answer):
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class StateFile:
    """State that a file keeps: an existing one is read first."""

    def __init__(self, path, state):
        self.path = path
        self.lock = threading.Lock()
        self.state = state
        if os.path.exists(path):
            with open(path) as file:
                self.state = json.load(file)

    def save(self):
        with open(self.path + ".tmp", "w") as file:
            json.dump(self.state, file)
        os.replace(self.path + ".tmp", self.path)


def serve_state(make_store, make_handler, options):
    """The program `server FILE [--port N]`, with further options and their defaults: prints "ready PORT" and serves."""
    parser = argparse.ArgumentParser()
    parser.add_argument("file")
    for name, default in {"--port": 0, **options}.items():
        parser.add_argument(name, type=type(default), default=default)
    chosen = parser.parse_args()
    server = server_with_own_port(chosen.port, make_handler(make_store(chosen.file), chosen))
    print("ready", server.server_address[1], flush=True)
    server.serve_forever()


def serve_for_parent(servers, file):
    """Serves until the process that started this one has ended; `file` then names the ports."""
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    part = file.with_suffix(".tmp")
    part.write_text(" ".join(str(server.server_address[1]) for server in servers) + "\n")
    os.rename(part, file)
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(0.2)


class StandIn:
    """A process with a server that writes STATE/ports and STATE/requests and reads STATE/faults.json."""

    def __init__(self, command, state):
        self.state = state
        self.state.mkdir(parents=True)
        self.process = subprocess.Popen(command)
        while not (self.state / "ports").exists():
            assert self.process.poll() is None, "the stand-in server ended"
            time.sleep(0.02)
        self.ports = (self.state / "ports").read_text().split()

    def reset(self, *faults):
        (self.state / "requests").unlink(missing_ok=True)
        (self.state / "faults.json").write_text(json.dumps(faults))

    def requests(self, part=""):
        file = self.state / "requests"
        lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        return [r for r in lines if part in r["path"]]


def run_tests(tests):
    """Calls the functions test_... of a module's names; of them those with $ONLY in their names."""
    wanted = os.environ.get("ONLY", "")
    for name, test in list(tests.items()):
        if name.startswith("test_") and wanted in name:
            started = time.monotonic()
            test()
            print(f"{name} {time.monotonic() - started:.1f} s", flush=True)
