#!/usr/bin/env python3
"""store_server.py ROOT STATE [ADDRESS]: answers as an object store with S3's interface does; its buckets are the folders of ROOT.

Requests must be signed (Amazon's signature version 4) by the key AKIATEST with the secret SECRET for region eu-central-1; what
the signature should be is computed here, from Amazon's description. Buckets whose name begins with "public" need no signature.
Ranges are answered. STATE/ports is written when it listens, STATE/requests has a line of JSON for each request."""
import hashlib
import hmac
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
KEY, SECRET, REGION = "AKIATEST", "wJalr/XUtn+FEMI", "eu-central-1"
lock = threading.Lock()


def signature(method, target, headers, signed, date):
    """The signature of a request with an empty body, in hexadecimal digits."""
    path, _, query = target.partition("?")
    parameters = sorted(p if "=" in p else p + "=" for p in query.split("&") if p)
    canonical = "\n".join([method, path, "&".join(parameters), "".join(f"{n}:{' '.join(headers[n].split())}\n" for n in signed),
                           ";".join(signed), hashlib.sha256(b"").hexdigest()])
    scope = f"{date[:8]}/{REGION}/s3/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", date, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = ("AWS4" + SECRET).encode()
    for part in (date[:8], REGION, "s3", "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return scope, hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def reply(self, status, body=b"", headers=()):
        line = {"path": urllib.parse.unquote(self.path), "status": status, "range": self.headers.get("Range"),
                "client": self.client_address[0]}
        with lock, open(STATE / "requests", "a") as out:
            out.write(json.dumps(line) + "\n")
        self.send_response(status)
        for name, value in [*headers, ("Content-Length", str(len(body)))]:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def error(self, status, code):
        self.reply(status, f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>no</Message></Error>".encode())

    def refusal(self):
        """The code of what is wrong with the signature; empty where nothing is."""
        match = re.fullmatch(r"AWS4-HMAC-SHA256 Credential=([^/]+)/([^,]+), SignedHeaders=([^,]+), Signature=([0-9a-f]{64})",
                             self.headers.get("Authorization") or "")
        if match is None:
            return "AccessDenied"
        headers = {name.lower(): value for name, value in self.headers.items()}
        signed, date = match[3].split(";"), headers.get("x-amz-date", "")
        if match[1] != KEY:
            return "InvalidAccessKeyId"
        if abs(time.time() - time.mktime(time.strptime(date, "%Y%m%dT%H%M%SZ")) + time.timezone) > 900:
            return "RequestTimeTooSkewed"
        if not {"host", "x-amz-date", "x-amz-content-sha256"} <= set(signed) or any(n not in headers for n in signed):
            return "AccessDenied"
        return "" if (match[2], match[4]) == signature(self.command, self.path, headers, signed, date) else "SignatureDoesNotMatch"

    def do_GET(self):
        path = urllib.parse.unquote(self.path)
        if not path.startswith("/public"):
            if code := self.refusal():
                return self.error(403, code)
        elif self.headers.get("Authorization"):
            return self.error(400, "AuthorizationNotExpected")
        file = ROOT / path.lstrip("/")
        if not file.is_file() or ".." in file.parts:
            return self.error(404, "NoSuchKey")
        data = file.read_bytes()
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or "")
        if asked and int(asked[1]) < len(data):
            begin = int(asked[1])
            return self.reply(206, data[begin:], [("Content-Range", f"bytes {begin}-{len(data) - 1}/{len(data)}")])
        return self.reply(200, data, [("ETag", f'"{hashlib.md5(data).hexdigest()}"')])


def main():
    address = sys.argv[3] if len(sys.argv) > 3 else "127.0.0.1"
    serve_for_parent([QuietServer((address, 0), Handler)], STATE / "ports")


if __name__ == "__main__":
    main()
