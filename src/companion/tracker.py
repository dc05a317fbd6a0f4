"""Hands a run's metrics to a tracker's Python client (wandb, or trackio, which has its interface).

Reads JSON objects from standard input, one a line, and answers likewise on standard output; docs/trackers.md
describes both. Standard error is a log for people. Keys of an account are the client's own affair: it finds them
in its environment, and they pass through neither stream.
"""

import importlib
import json
import netrc
import os
import re
import signal
import sys
import urllib.parse
import warnings

PROTOCOL = 1
INSTALL = "python3 -m pip install {}"
FINISH_SECONDS = 600  # what a client may take to finish a run whose program is gone


class Refusal(Exception):
    """Something that the user must change; its text is the whole message."""


def client_module(name):
    """Imports the client."""
    try:
        module = importlib.import_module(name)
    except ImportError as problem:
        if isinstance(problem, ModuleNotFoundError) and problem.name == name:
            raise Refusal(f"the Python package {name} is missing for {sys.executable}; install it: "
                          f"{INSTALL.format(name)}") from None
        raise Refusal(f"the Python package {name} cannot be imported: {problem}") from None
    if not hasattr(module, "init"):  # a folder of that name
        raise Refusal(f"the Python package {name} is missing for {sys.executable}; install it: {INSTALL.format(name)}")
    return module


def has_key(settings):
    """Whether the client can log in: by its environment, or by what `wandb login` wrote."""
    if settings.api_key or getattr(settings, "identity_token_file", None):
        return True
    host = urllib.parse.urlparse(settings.base_url).hostname
    for file in (os.environ.get("NETRC"), "~/.netrc", "~/_netrc"):
        try:
            if file and netrc.netrc(os.path.expanduser(file)).authenticators(host):
                return True
        except (OSError, netrc.NetrcParseError):
            pass
    return False


def check(message):
    """Finds out whether a run could begin, without beginning one."""
    module = client_module(message["client"])
    if message["client"] == "wandb":
        settings = module.setup().settings
        if (message["settings"].get("mode") or settings.mode) == "online" and not has_key(settings):
            raise Refusal("wandb has no API key; set $WANDB_API_KEY, or run: wandb login; or log offline: "
                          "init_kwargs: {mode: offline}")
    return {"type": "ready", "version": getattr(module, "__version__", "")}


def number(value):
    """Numbers that JSON cannot write are texts: NaN, Infinity, -Infinity."""
    return float(value) if isinstance(value, str) else value


def config_of(settings):
    """The configuration of the run as nested dictionaries."""
    config = {}
    for name, value in settings.items():
        *path, last = name.split(".")
        node = config
        for part in path:
            node = node.setdefault(part, {})
            if not isinstance(node, dict):
                break
        else:
            node[last] = value
            continue
        config[name] = value
    return config


def require_space(folder):
    """Refuses a folder without room: W&B's client does not say that its own file was cut short.

    A client that is started again would fill the disk further.
    """
    path = os.path.join(folder, "probe")
    try:
        with open(path, "wb") as file:
            file.write(bytes(65536))
    except OSError as problem:
        raise Refusal(f"the offline folder {folder} finds no room ({problem.strerror}), so it may lack metrics; "
                      "make room") from None
    finally:
        if os.path.isfile(path):
            os.remove(path)


def end_at_loss(client, answer):
    """Ends this process when trackio warns that it has lost something, so that nothing later is stored.

    trackio itself goes on. It warns in the thread that stores, before it takes the next values.
    """
    lost = "not be persisted|be dropped|be lost|Could not flush all logs within"
    folder = os.path.join(os.path.dirname(os.path.abspath(client.__file__)), "")
    warnings.filterwarnings("always", message=f"(?s).*({lost})")
    show = warnings.showwarning

    def show_and_end(message, category, filename, *more, **named):
        show(message, category, filename, *more, **named)
        if os.path.abspath(filename).startswith(folder) and re.search(lost, str(message)):
            answer({"type": "failed", "text": str(message)})
            sys.stderr.flush()
            os._exit(1)

    warnings.showwarning = show_and_end


def record_key(step, values):
    """Equal for equal records: the step, and the numbers and texts by name."""
    plain = {name: value for name, value in values.items() if isinstance(value, (int, float, str))}
    return json.dumps([step, plain], sort_keys=True)


def stored_records(run):
    """The keys of the records that trackio's local database has of a run; none where it cannot be read."""
    try:
        from trackio.sqlite_storage import SQLiteStorage
        rows = SQLiteStorage.get_logs(run.project, run.name, run_id=run.id)
        return {record_key(row["step"], {name: value for name, value in row.items() if name not in ("step", "timestamp")})
                for row in rows}
    except Exception as problem:  # no part of trackio's interface, so another version may lack it
        print(f"records are repeated: {type(problem).__name__}: {problem}", file=sys.stderr)
        return set()


class Run:
    """A run at the client."""

    def __init__(self, message, answer):
        if message.get("protocol") != PROTOCOL:
            raise Refusal(f"protocol {message.get('protocol')!r} is not {PROTOCOL}; use the programs of one version")
        self.name = message["client"]
        self.client = client_module(self.name)
        self.stored = set()  # what a client that died has stored is not logged again
        settings = {name: value for name, value in message["settings"].items() if value}
        if "dir" in settings:  # the client ignores a folder that is not there
            os.makedirs(settings["dir"], exist_ok=True)
        if self.name == "wandb":
            settings["id"] = message["run"]
            settings.setdefault("resume", "allow")
            settings["settings"] = self.settings_of_client()
        else:
            end_at_loss(self.client, answer)
            settings.setdefault("project", "parallellm")
            if settings.get("resume") not in ("allow", "must"):
                # trackio knows runs by their names, so the key makes this one's unique
                settings["name"] = "-".join(filter(None, (settings.get("name"), message["run"])))
                settings["resume"] = "allow"
        self.run = self.client.init(config=config_of(message["config"]), **settings)
        if self.name != "wandb":
            self.stored = stored_records(self.run)

    def describe(self):
        """The answer that tells where the run is."""
        answer = {"type": "ready", "run": self.run.id if self.name == "wandb" else self.run.name}
        if self.name == "wandb":
            if getattr(self.run, "offline", False) or self.run.settings._offline:
                answer["folder"] = os.path.dirname(os.path.abspath(self.run.dir))
            elif self.run.url:
                answer["url"] = self.run.url
        return answer

    def settings_of_client(self):
        """The settings of W&B's client: what it tells of the program and the system is of the run's, or nothing.

        The argument is that program's process id. `track`, which sends what a run has left, gives none.
        """
        process = next(iter(sys.argv[1:]), None)
        wanted = {"x_disable_stats": True, "x_disable_meta": True}
        if process:
            wanted = {"x_stats_pid": int(process)}
            try:
                with open(f"/proc/{process}/cmdline", "rb") as file:  # as the client takes its own
                    sys.argv = [os.fsdecode(word) for word in file.read().split(b"\0")[:-1]]
                wanted.update({"program": sys.argv[0], "x_executable": sys.argv[0]})
            except (OSError, IndexError):  # hidden from this process
                pass
        known = getattr(self.client.Settings, "model_fields", {})
        return self.client.Settings(console="wrap", silent=True,
                                    **{name: value for name, value in wanted.items() if name in known})

    def log(self, message):
        """Logs the values of one batch; samples of generated text are a table, lines of its console are printed."""
        console = message["texts"].pop("console", None)
        if console is not None:
            print(console, flush=True)  # W&B's client takes what is printed
            if not message["values"] and not message["texts"]:
                return
        values = {name: number(value) for name, value in message["values"].items()}
        samples = []
        for name, text in message["texts"].items():
            if name.startswith("generations/"):
                samples.append([message["step"], name, text])
            else:
                values[name] = text
        if self.stored and record_key(message["step"], values) in self.stored:
            return
        if samples:
            values["generations"] = self.table(["step", "name", "text"], samples)
        if self.name == "wandb":  # the time of the record, which may arrive much later
            values["_timestamp"] = message["time"] / 1000
        self.client.log(values, step=message["step"])

    def table(self, columns, rows):
        """The client's table."""
        if self.name == "wandb":
            return self.client.Table(columns=columns, data=rows)
        import pandas
        return self.client.Table(dataframe=pandas.DataFrame(rows, columns=columns))

    def finish(self, has_succeeded):
        """Ends the run; returns when the client has everything, and refuses where a full disk has lost some of it."""
        if self.name == "wandb":
            folder = self.describe().get("folder")
            self.run.finish(exit_code=0 if has_succeeded else 1)
            if folder and os.path.isdir(folder):
                require_space(folder)
        else:
            self.client.finish()


def serve(lines, answer):
    """Answers lines until their stream ends, which ends the run."""
    run = None
    has_succeeded = False
    for line in lines:
        message = json.loads(line)
        kind = message["type"]
        if kind == "check":
            answer(check(message))
        elif kind == "init":
            has_succeeded = False
            if run is None:  # a resumed program goes on in the same run
                run = Run(message, answer)
                answer(run.describe())
        elif kind == "log":
            run.log(message)
        elif kind == "finish":
            has_succeeded = message["status"] == "finished"
    if run is not None:
        signal.alarm(FINISH_SECONDS)
        run.finish(has_succeeded)
        answer({"type": "finished"})


def main():
    # a terminal's Ctrl-C is for the run, which ends this by the stream
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.path[:] = [folder for folder in sys.path if folder not in ("", os.getcwd())]
    # what clients print goes to the log
    answers = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
    os.dup2(2, 1)

    def answer(message):
        try:
            answers.write(json.dumps(message) + "\n")
        except BrokenPipeError:  # the program is gone; the run is finished all the same
            pass

    try:
        serve((line for line in sys.stdin.buffer if line.endswith(b"\n")), answer)
    except Refusal as problem:
        answer({"type": "refused", "text": str(problem)})
        return 1
    except Exception as problem:  # the client's own
        answer({"type": "failed", "text": f"{type(problem).__name__}: {problem}"})
        raise
    return 0


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    sys.exit(code)
