"""A stand-in for a W&B server, of the standard library alone: what `wandb sync` needs to hand over a run. The client
asks by GraphQL (api/graphql), appends to a run's files by offset (files/ENTITY/PROJECT/RUN/file_stream), and puts
whole files to addresses that it has asked for.

usage: wandb_server.py FILE [--port N] [--key KEY]

Prints "ready PORT" and writes its runs to FILE (JSON) after every change; an existing FILE is read first. With --key it
answers 401 without that API key. A question that it does not know gets an error and is noted in FILE as "unknown".
"""

import base64
import gzip
import json
import re
import urllib.parse

from local_server import JsonHandler, StateFile, serve_state

ENTITY = "tester"


class Store(StateFile):
    """Runs, kept in a file."""

    def __init__(self, path):
        super().__init__(path, {"runs": {}, "unknown": [], "refused": 0})

    def bucket(self, name):
        run = self.state["runs"][name]
        entity = {"id": "entity", "name": ENTITY}
        return {"id": name, "name": name, "displayName": run["name"], "description": "", "sweepName": None,
                "project": {"id": run["project"], "name": run["project"], "entity": entity},
                "historyLineCount": len(run["history"])}

    def upsert_bucket(self, asked):
        name = asked.get("name") or asked["id"]
        is_new = name not in self.state["runs"]
        run = self.state["runs"].setdefault(name, {
            "project": asked["project"], "name": name, "config": {}, "tags": [], "history": [], "files": {},
            "exitcode": None})
        run["name"] = asked.get("displayName") or run["name"]
        run["tags"] = asked.get("tags") or run["tags"]
        if asked.get("config"):
            run["config"] = json.loads(asked["config"])
        return {"upsertBucket": {"bucket": self.bucket(name), "inserted": is_new}}

    def run_files(self, asked, address):
        path = "/".join(("storage", asked["run"]))
        files = [{"name": name, "uploadUrl": f"{address}/{path}/{urllib.parse.quote(name)}"} for name in asked["files"]]
        return {"createRunFiles": {"runID": asked["run"], "uploadHeaders": [], "files": files}}

    def answer(self, operation, asked, address):
        """The data of the answer to a GraphQL operation; None where it is not known."""
        if operation == "Viewer":
            return {"viewer": {"id": "viewer", "entity": ENTITY, "username": ENTITY, "email": "", "admin": False,
                               "flags": "{}", "teams": {"edges": []}}}
        if operation == "ServerFeaturesQuery":
            return {"serverInfo": {"features": []}}
        if operation == "UpsertBucket":
            return self.upsert_bucket(asked)
        if operation == "RunResumeStatus":
            return {"model": {"id": asked["project"], "name": asked["project"],
                              "entity": {"id": "entity", "name": ENTITY}, "bucket": None}}
        if operation == "CreateRunFiles":
            return self.run_files(asked, address)
        return None

    def stream(self, name, update):
        """Appends to the files of a run, at the line that the client names."""
        run = self.state["runs"][name]
        history = update.get("files", {}).get("wandb-history.jsonl")
        if history:
            run["history"][history["offset"]:] = [json.loads(line) for line in history["content"]]
        if update.get("complete"):
            run["exitcode"] = update.get("exitcode")


def handler(store, options):
    class Handler(JsonHandler):
        def body(self):
            if self.headers.get("Transfer-Encoding") == "chunked":
                data = b""
                while size := int(self.rfile.readline(), 16):
                    data += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
            else:
                data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            return gzip.decompress(data) if self.headers.get("Content-Encoding") == "gzip" else data

        def do_POST(self):
            data = self.body()
            path = urllib.parse.urlsplit(self.path).path
            expected = base64.b64encode(b"api:" + options.key.encode()).decode()
            with store.lock:
                if options.key and self.headers.get("Authorization") not in (f"Basic {expected}",
                                                                             f"Bearer {options.key}"):
                    store.state["refused"] += 1
                    store.save()
                    return self.reply(401, {"errors": [{"message": "no such API key"}]})
                if match := re.fullmatch(r"/files/[^/]+/[^/]+/([^/]+)/file_stream", path):
                    store.stream(match[1], json.loads(data))
                    answer = {}
                elif path == "/graphql":
                    answer = self.graphql(json.loads(data))
                else:
                    return self.reply(404, {})
                store.save()
            self.reply(200, answer)

        def graphql(self, question):
            match = re.match(r"\s*(?:#.*\s+)*(?:query|mutation)\s+(\w+)", question["query"])
            operation = question.get("operationName") or (match and match[1])
            address = f"http://{self.headers['Host']}"
            answer = store.answer(operation, question.get("variables") or {}, address)
            if answer is None:
                store.state["unknown"].append(operation)
                return {"errors": [{"message": f"unknown operation {operation}"}]}
            return {"data": answer}

        def do_PUT(self):
            data = self.body()
            _, place, run, name = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path).split("/", 3)
            with store.lock:
                if place != "storage" or run not in store.state["runs"]:
                    return self.reply(404, {})
                store.state["runs"][run]["files"][name] = len(data)
                store.save()
            self.reply(200, {})

    return Handler


if __name__ == "__main__":
    serve_state(Store, handler, {"--key": ""})
