"""The stand-in of the Hugging Face Hub (hub_server.py) as tests of the programs use it."""
import os
import pathlib
import sys

from local_server import StandIn


def write(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())


class Hub(StandIn):
    """The server, whose repositories are in WORK/root, with what it was asked for."""

    def __init__(self, work):
        self.work, self.root = work, work / "root"
        script = pathlib.Path(__file__).parent / "hub_server.py"
        super().__init__([sys.executable, script, self.root, work / "state"], work / "state")
        self.port, self.files_port = self.ports

    def requests(self, server=None, path=""):
        return [r for r in super().requests(path) if server is None or r["server"] == server]

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
