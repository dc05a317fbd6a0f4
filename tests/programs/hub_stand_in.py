"""The stand-in of the Hugging Face Hub (hub_server.py) as tests of the programs use it."""
import json
import os
import pathlib
import subprocess
import sys
import time


def write(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())


class Hub:
    """The server, whose repositories are in WORK/root, with what it was asked for."""

    def __init__(self, work):
        self.work, self.root, self.state = work, work / "root", work / "state"
        self.state.mkdir(parents=True)
        self.process = subprocess.Popen([sys.executable, pathlib.Path(__file__).parent / "hub_server.py", self.root, self.state])
        while not (self.state / "ports").exists():
            assert self.process.poll() is None, "the stand-in server ended"
            time.sleep(0.02)
        self.port, self.files_port = (self.state / "ports").read_text().split()

    def reset(self, *faults):
        (self.state / "requests").unlink(missing_ok=True)
        (self.state / "faults.json").write_text(json.dumps(faults))

    def requests(self, server=None, path=""):
        file = self.state / "requests"
        lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        return [r for r in lines if (server is None or r["server"] == server) and path in r["path"]]

    def environment(self, home, **more):
        """A program's environment, with the hub's cache in WORK/home."""
        out = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "HUGGING", "TRANSFORMERS"))}
        out |= {"HF_ENDPOINT": f"http://127.0.0.1:{self.port}", "HF_HOME": str(self.work / home), "HF_HUB_DISABLE_XET": "1",
                "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
        for key, value in more.items():
            out.pop(key, None)
            if value is not None:
                out[key] = value
        return out
