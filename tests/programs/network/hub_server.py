#!/usr/bin/env python3
"""hub_server.py ROOT STATE: answers as the Hugging Face Hub does, for the repositories in ROOT/{models,datasets}/ORG/NAME.

It listens on two ports of the loopback device: the hub's (as 127.0.0.1) and that of a file server (as localhost), to which the
hub redirects for large files (.bin, .safetensors, .parquet, .gz). STATE is a folder:
  ports        "HUB FILES", written when both listen
  requests     a line of JSON for each request: server, method, path, status, range, authorization
  faults.json  read at each request: a list of {"path": PART, "server": "hub" or "files", "kind": KIND, "times": N, ...};
               each fault is used N times (always without it)
Kinds of fault: status (status, retry_after), cut (bytes: after so many the connection ends), stall (seconds), corrupt (a byte
is another), long_length and short_length (Content-Length is wrong), no_range (Range is ignored), wrong_range (other bytes than
asked for), slow (bytes_per_second), listing (entries: added to the listing), redirect (location), next_page (location).
A folder NAME@REVISION is that branch or tag of NAME.
A repository whose name holds "private" asks for the token hf_right; "gated" refuses every token."""
import hashlib
import http.server
import json
import pathlib
import re
import sys
import threading
import time
import urllib.parse

from local_server import QuietServer, serve_for_parent

ROOT, STATE = (pathlib.Path(p) for p in sys.argv[1:3])
LARGE = (".bin", ".safetensors", ".parquet", ".gz", ".mds", ".zstd")
PAGE = 3
lock = threading.Lock()
used = {}
ports = {}


def repository_files(folder):
    return sorted(p for p in folder.rglob("*") if p.is_file())


def ids(path):
    data = path.read_bytes()
    return (hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest(), hashlib.sha256(data).hexdigest(), len(data))


def commit_of(folder):
    text = "".join(f"{p.relative_to(folder)} {ids(p)[0]}\n" for p in repository_files(folder))
    return hashlib.sha1(text.encode()).hexdigest()


def revision_of(folder, revision):
    """The folder of a revision of the repository in `folder`, or nothing."""
    others = sorted(folder.parent.glob(folder.name + "@*"))
    names = {"main": folder} | {other.name.split("@")[1]: other for other in others}
    return names.get(revision) or next((f for f in [folder, *others] if commit_of(f) == revision), None)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def note(self, status):
        line = {"server": self.server.name, "method": self.command, "path": self.path, "status": status,
                "range": self.headers.get("Range"), "if_range": self.headers.get("If-Range"),
                "authorization": self.headers.get("Authorization"), "amz_date": self.headers.get("X-Amz-Date")}
        with lock, open(STATE / "requests", "a") as out:
            out.write(json.dumps(line) + "\n")

    def fault(self, *kinds):
        """The first fault that is to be used for this request and is of one of `kinds`."""
        try:
            faults = json.loads((STATE / "faults.json").read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return None
        for i, fault in enumerate(faults):
            if fault["kind"] not in kinds or fault["path"] not in self.path:
                continue
            if fault.get("server", self.server.name) != self.server.name or fault.get("method", self.command) != self.command:
                continue
            key = json.dumps([i, fault])
            with lock:
                if used.get(key, 0) >= fault.get("times", 1 << 30):
                    continue
                used[key] = used.get(key, 0) + 1
            return fault
        return None

    def reply(self, status, body=b"", headers=()):
        self.note(status)
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        if not any(name.lower() == "content-length" for name, _ in headers):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def reply_json(self, value, headers=()):
        self.reply(200, json.dumps(value).encode(), [("Content-Type", "application/json"), *headers])

    def send_file(self, path, etag):
        """The file, or the range of it that is asked for, with what faults are set."""
        data = path.read_bytes()
        if self.fault("corrupt"):
            data = data[:len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1:]
        status, begin, total = 200, 0, len(data)
        headers = [("ETag", f'"{etag}"'), ("Accept-Ranges", "bytes")]
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        fits = self.headers.get("If-Range") in (None, f'"{etag}"')
        if asked and fits and not self.fault("no_range"):
            begin = int(asked[1])
            if begin >= total:
                return self.reply(416, headers=[("Content-Range", f"bytes */{total}")])
            if self.fault("wrong_range"):
                begin -= 1
            status = 206
            headers.append(("Content-Range", f"bytes {begin}-{total - 1}/{total}"))
        data = data[begin:]
        length = len(data)
        if self.fault("long_length"):
            length += 7
        if self.fault("short_length"):
            length -= 7
        headers.append(("Content-Length", str(length)))
        self.note(status)
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return None
        cut, slow = self.fault("cut"), self.fault("slow")
        if cut:
            data = data[:cut["bytes"]]
        step = slow["bytes_per_second"] // 10 if slow else 1 << 16
        for i in range(0, len(data), step):
            self.wfile.write(data[i:i + step])
            if slow:
                time.sleep(0.1)
        self.wfile.flush()
        if stall := self.fault("stall"):
            time.sleep(stall["seconds"])
        if length != len(data):
            self.close_connection = True
        return None

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        if fault := self.fault("status"):
            headers = [("Retry-After", str(fault["retry_after"]))] if "retry_after" in fault else []
            return self.reply(fault["status"], b"<html>\x1b[31mno\x1b[0m</html>", headers)
        if fault := self.fault("redirect"):
            return self.reply(302, headers=[("Location", fault["location"].format(**ports))])
        path = urllib.parse.urlsplit(self.path).path
        try:
            if self.server.name == "files":
                return self.stored(path)
            return self.api(path) if path.startswith("/api/") else self.resolve(path)
        except (BrokenPipeError, ConnectionResetError):
            return None

    def stored(self, path):
        """The file server: /ROOT's path of the file."""
        file = ROOT / urllib.parse.unquote(path).lstrip("/")
        if not file.is_file() or ".." in file.parts:
            return self.reply(404)
        return self.send_file(file, ids(file)[1])

    def folder(self, kind, name):
        """The repository's folder if it may be seen; otherwise answers and returns nothing."""
        folder = ROOT / kind / name
        if "gated" in name:
            self.reply(403, headers=[("X-Error-Code", "GatedRepo")])
            return None
        if not folder.is_dir() or ("private" in name and self.headers.get("Authorization") != "Bearer hf_right"):
            self.reply(401 if self.headers.get("Authorization") is None else 404, headers=[("X-Error-Code", "RepoNotFound")])
            return None
        return folder

    def api(self, path):
        match = re.fullmatch(r"/api/(models|datasets)/([^/]+(?:/[^/]+)?)/(revision|tree)/([^/]+)", path)
        if match is None:
            return self.reply(404)
        kind, name, what, revision = match.groups()
        folder = self.folder(kind, name)
        if folder is None:
            return None
        folder = revision_of(folder, urllib.parse.unquote(revision))
        if folder is None:
            return self.reply(404, headers=[("X-Error-Code", "RevisionNotFound")])
        commit = commit_of(folder)
        if what == "revision":
            siblings = [{"rfilename": str(p.relative_to(folder))} for p in repository_files(folder)]
            return self.reply_json({"_id": "1", "id": name, "sha": commit, "private": False, "siblings": siblings, "tags": [],
                                    "downloads": 0, "likes": 0})
        entries = [{"type": "directory", "oid": "0" * 40, "size": 0, "path": str(p.relative_to(folder))}
                   for p in sorted(folder.rglob("*")) if p.is_dir()]
        for p in repository_files(folder):
            sha1, sha256, size = ids(p)
            entry = {"type": "file", "oid": sha1, "size": size, "path": str(p.relative_to(folder))}
            if p.suffix in LARGE:
                entry["lfs"] = {"oid": sha256, "size": size, "pointerSize": 134}
            entries.append(entry)
        if fault := self.fault("listing"):
            entries += fault["entries"]
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
        start = int(query.get("cursor", ["0"])[0])
        headers = []
        if start + PAGE < len(entries):
            address = f"http://127.0.0.1:{ports['hub']}{path}?recursive=true&expand=false&cursor={start + PAGE}"
            if fault := self.fault("next_page"):
                page = address[address.index(path):]
                address = fault["location"].format(**ports, path=path, page=page)
            headers = [("Link", f'<{address}>; rel="next"')]
        return self.reply_json(entries[start:start + PAGE], headers)

    def resolve(self, path):
        match = re.fullmatch(r"/(datasets/)?([^/]+(?:/[^/]+)?)/resolve/([^/]+)/(.+)", path)
        if match is None:
            return self.reply(404)
        kind = "datasets" if match[1] else "models"
        folder = self.folder(kind, match[2])
        if folder is None:
            return None
        folder = revision_of(folder, urllib.parse.unquote(match[3])) or folder
        commit = commit_of(folder)
        file = folder / urllib.parse.unquote(match[4])
        common = [("X-Repo-Commit", commit)]
        if not file.is_file():
            return self.reply(404, headers=[*common, ("X-Error-Code", "EntryNotFound")])
        sha1, sha256, size = ids(file)
        if file.suffix not in LARGE:
            if self.command == "HEAD":
                return self.reply(200, headers=[*common, ("ETag", f'"{sha1}"'), ("Content-Length", str(size))])
            return self.send_file(file, sha1)
        address = f"http://localhost:{ports['files']}/{urllib.parse.quote(str(file.relative_to(ROOT)))}?X-Signature=secret_signature"
        return self.reply(302, headers=[*common, ("Location", address), ("X-Linked-Etag", f'"{sha256}"'),
                                        ("X-Linked-Size", str(size)), ("ETag", f'"{sha1}"')])


def main():
    servers = []
    for name in ("hub", "files"):
        server = QuietServer(("127.0.0.1", 0), Handler)
        server.name = name
        ports[name] = server.server_address[1]
        servers.append(server)
    serve_for_parent(servers, STATE / "ports")


if __name__ == "__main__":
    main()
