"""A stand-in for an MLflow tracking server, of the standard library alone: what runs need of the REST interface,
with the limits of its documentation (mlflow.org/docs/latest/rest-api.html: "Log Batch", "Request Limits") and the
texts that mlflow.utils.validation takes.

usage: mlflow_server.py FILE [--port N] [--token TOKEN] [--delay SECONDS] [--fail-first N] [--lose-creations N]

Prints "ready PORT" and writes its runs to FILE (JSON) after every change; an existing FILE is read first. With
--token it answers 401 without it; --delay is before each answer; the first N requests of --fail-first get 503; the
first N runs are created without an answer with --lose-creations.
"""

import json
import posixpath
import re
import time
import urllib.parse

from local_server import JsonHandler, StateFile, serve_state

FILTER = re.compile(r"^tags\.(\w+) = '([^']*)'$")
NAME = re.compile(r"^[/\w.\- ]*$", re.ASCII)
MAX_BYTES = 1_000_000
LIMITS = {"metrics": 1000, "params": 100, "tags": 100}


class Refusal(Exception):
    def __init__(self, code, text, status=400):
        super().__init__(text)
        self.answer = {"error_code": code, "message": text}
        self.status = status


def invalid(text):
    return Refusal("INVALID_PARAMETER_VALUE", text)


def check_name(name):
    if not name or len(name) > 250 or not NAME.match(name):
        raise invalid(f"Invalid name: {name!r}")
    if posixpath.normpath(name) != name or name.startswith(("/", "..")) or name == ".":
        raise invalid(f"Invalid name: {name!r}: it is no plain path")


class Store(StateFile):
    """Experiments and runs, kept in a file."""

    def __init__(self, path):
        super().__init__(path, {"experiments": {}, "runs": {}, "requests": 0, "largest": 0})

    def run(self, run_id):
        if run_id not in self.state["runs"]:
            raise Refusal("RESOURCE_DOES_NOT_EXIST", f"Run {run_id!r} not found", 404)
        return self.state["runs"][run_id]

    def get_experiment(self, name):
        if name not in self.state["experiments"]:
            raise Refusal("RESOURCE_DOES_NOT_EXIST", f"Could not find experiment with name {name!r}", 404)
        return {"experiment": {"experiment_id": self.state["experiments"][name], "name": name}}

    def create_experiment(self, body):
        if body["name"] in self.state["experiments"]:
            raise Refusal("RESOURCE_ALREADY_EXISTS", "it exists")
        self.state["experiments"][body["name"]] = str(len(self.state["experiments"]) + 1)
        return {"experiment_id": self.state["experiments"][body["name"]]}

    def create_run(self, body):
        if body["experiment_id"] not in self.state["experiments"].values():
            raise Refusal("RESOURCE_DOES_NOT_EXIST", "no such experiment", 404)
        run_id = f"run{len(self.state['runs']) + 1}"
        for tag in body.get("tags", []):
            check_name(tag["key"])
        self.state["runs"][run_id] = {
            "name": body["run_name"], "status": "RUNNING", "experiment_id": body["experiment_id"],
            "start_time": int(body["start_time"]), "metrics": {}, "params": {},
            "tags": {tag["key"]: tag["value"] for tag in body.get("tags", [])}}
        return {"run": {"info": {"run_id": run_id}}}

    def get_run(self, run_id):
        run = self.run(run_id)
        return {"run": {"info": {"run_id": run_id, "status": run["status"], "lifecycle_stage": "active"}}}

    def search_runs(self, body):
        match = FILTER.match(body["filter"])
        if not match:
            raise invalid(f"Invalid filter {body['filter']!r}")
        found = [run_id for run_id, run in self.state["runs"].items()
                 if run["experiment_id"] in body["experiment_ids"] and run["tags"].get(match[1]) == match[2]]
        return {"runs": [self.get_run(run_id)["run"] for run_id in found[:body["max_results"]]]} if found else {}

    def update_run(self, body):
        run = self.run(body["run_id"])
        if body["status"] not in ("RUNNING", "FINISHED", "FAILED", "KILLED"):
            raise invalid("status")
        run["status"] = body["status"]
        run["end_time"] = body.get("end_time")
        return {"run_info": {"run_id": body["run_id"]}}

    def log_batch(self, body):
        run = self.run(body["run_id"])
        lists = {kind: body.get(kind, []) for kind in LIMITS}
        for kind, items in lists.items():
            if len(items) > LIMITS[kind]:
                raise invalid(f"A batch logging request can contain at most {LIMITS[kind]} {kind}. Got {len(items)}")
        if sum(map(len, lists.values())) > 1000:
            raise invalid("A batch logging request can contain at most 1000 metrics, params, and tags")
        self.state["largest"] = max(self.state["largest"], len(lists["metrics"]))
        for items in lists.values():
            for item in items:
                check_name(item["key"])
        for param in lists["params"]:
            if len(param["value"]) > 6000:
                raise invalid("Param value is longer than 6000")
            if run["params"].setdefault(param["key"], param["value"]) != param["value"]:
                raise invalid(f"Changing param values is not allowed: {param['key']}")
        for metric in lists["metrics"]:
            row = [int(metric["step"]), int(metric["timestamp"]), float(metric["value"])]
            rows = run["metrics"].setdefault(metric["key"], [])
            if row not in rows[-200:]:
                rows.append(row)
        return {}


def handler(store, options):
    class Handler(JsonHandler):
        def serve(self):
            length = int(self.headers.get("Content-Length") or 0)
            data = self.rfile.read(length)
            time.sleep(options.delay)
            path = urllib.parse.urlsplit(self.path)
            with store.lock:
                store.state["requests"] += 1
                try:
                    if options.token and self.headers.get("Authorization") != f"Bearer {options.token}":
                        raise Refusal("PERMISSION_DENIED", "no token", 401)
                    if store.state["requests"] <= options.fail_first:
                        raise Refusal("TEMPORARILY_UNAVAILABLE", "later", 503)
                    if length > MAX_BYTES:
                        raise invalid("Batched logging API requests must be at most 1MB")
                    answer = self.call(path, data)
                    store.save()
                    if path.path.endswith("runs/create") and len(store.state["runs"]) <= options.lose_creations:
                        self.close_connection = True
                        return
                    self.reply(200, answer)
                except Refusal as problem:
                    self.reply(problem.status, problem.answer)
                except (KeyError, TypeError, ValueError) as problem:
                    self.reply(400, {"error_code": "BAD_REQUEST", "message": repr(problem)})

        def call(self, path, data):
            endpoint = path.path.removeprefix("/api/2.0/mlflow/")
            query = urllib.parse.parse_qs(path.query)
            if (self.command, endpoint) == ("GET", "experiments/get-by-name"):
                return store.get_experiment(query["experiment_name"][0])
            if (self.command, endpoint) == ("GET", "runs/get"):
                return store.get_run(query["run_id"][0])
            calls = {"experiments/create": store.create_experiment, "runs/create": store.create_run,
                     "runs/search": store.search_runs, "runs/update": store.update_run, "runs/log-batch": store.log_batch}
            if self.command != "POST" or endpoint not in calls:
                raise Refusal("ENDPOINT_NOT_FOUND", endpoint, 404)
            return calls[endpoint](json.loads(data))

        do_GET = do_POST = serve

    return Handler


if __name__ == "__main__":
    serve_state(Store, handler, {"--token": "", "--delay": 0.0, "--fail-first": 0, "--lose-creations": 0})
