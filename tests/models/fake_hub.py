"""A model hub on loopback: what huggingface_hub asks a hub for, and faults on request.

GET  /api/models/ORG/NAME[/revision/REV]     the files of a repository, their sizes and digests
HEAD, GET  /ORG/NAME/resolve/REV/FILE        a file: X-Repo-Commit, ETag, Range; large ones are sent on to /storage/
"""

import hashlib
import json
import threading
import urllib.parse
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LARGE = 10_000
"""Files from this size on are kept in the storage for large files."""


@dataclass
class Repository:
    """Branches and commits of a repository: commit to files. gated, token: who gets at its files."""

    commits: dict[str, dict[str, bytes]]
    references: dict[str, str]
    gated: bool = False
    token: str | None = None


@dataclass
class FakeHub:
    """Repositories by id, faults, and a list of the requests that came: (method, path, Range).

    cuts: file name to the bytes after which the connection is closed, once each. hold: file name to the bytes after
    which the server sends no more until `release` is set. status: an answer to everything. falsify: changes the facts
    that are told of a repository.
    """

    url: str = ""
    repositories: dict[str, Repository] = field(default_factory=dict)
    requests: list[tuple[str, str, str | None]] = field(default_factory=list)
    cuts: dict[str, int] = field(default_factory=dict)
    hold: dict[str, int] = field(default_factory=dict)
    holding: threading.Event = field(default_factory=threading.Event)
    release: threading.Event = field(default_factory=threading.Event)
    status: int | None = None
    ranges: bool = True
    falsify: Callable[[dict], None] = lambda _facts: None

    def add(self, repo, files, **more):
        """Put a commit of files on the branch main; returns the commit."""
        text = repr(sorted((name, hashlib.sha256(content).hexdigest()) for name, content in files.items()))
        commit = hashlib.sha1(text.encode()).hexdigest()
        known = self.repositories.setdefault(repo, Repository({}, {}))
        known.commits[commit] = dict(files)
        known.references["main"] = commit
        for key, value in more.items():
            setattr(known, key, value)
        return commit

    def asked(self, end):
        """The Range of every GET whose path ends so."""
        return [ranged for method, path, ranged in self.requests if method == "GET" and path.endswith(end)]


def folder_files(folder):
    """The content of every file of a directory."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@contextmanager
def fake_hub():
    """A hub that answers until the block ends."""
    hub = FakeHub()
    handler = type("Handler", (_Handler,), {"hub": hub})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        hub.release.set()
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: FakeHub

    def log_message(self, *_arguments):
        pass

    def do_HEAD(self):
        self._answer()

    def do_GET(self):
        self._answer()

    def _answer(self):
        path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)
        self.hub.requests.append((self.command, path, self.headers.get("Range")))
        parts = path.strip("/").split("/")
        if self.hub.status:
            return self._send(self.hub.status, b"out of order")
        if parts[:2] == ["api", "models"]:
            return self._info("/".join(parts[2:4]), "/".join(parts[5:]) or "main")
        if parts[0] == "storage":
            return self._storage(parts[1], parts[2])
        if len(parts) > 4 and parts[2] == "resolve":
            return self._resolve("/".join(parts[:2]), parts[3], "/".join(parts[4:]))
        return self._refuse(404, "EntryNotFound", "no such page")

    def _repository(self, repo):
        known = self.hub.repositories.get(repo)
        if known is None or (known.token and not known.gated and not self._authorized(known)):
            signed_in = self.headers.get("Authorization")
            self._refuse(404 if signed_in else 401, "RepoNotFound", "Invalid username or password.")
            return None
        return known

    def _authorized(self, known):
        return known.token is not None and self.headers.get("Authorization") == f"Bearer {known.token}"

    def _info(self, repo, revision):
        known = self._repository(repo)
        if known is None:
            return
        commit = known.references.get(revision, revision)
        if commit not in known.commits:
            self._refuse(404, "RevisionNotFound", f"Invalid rev id: {revision}")
            return
        siblings = []
        for name, content in known.commits[commit].items():
            row = {"rfilename": name, "size": len(content), "blobId": hashlib.sha1(content).hexdigest()}
            if len(content) >= LARGE:
                row["lfs"] = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 134}
            siblings.append(row)
        gated = "manual" if known.gated else False
        facts = {"id": repo, "modelId": repo, "sha": commit, "private": False, "gated": gated, "tags": []}
        facts["siblings"] = siblings
        self.hub.falsify(facts)
        self._send(200, json.dumps(facts).encode(), {"Content-Type": "application/json"})

    def _resolve(self, repo, revision, name):
        known = self._repository(repo)
        if known is None:
            return
        if known.gated and not self._authorized(known):
            signed_in = self.headers.get("Authorization")
            self._refuse(403 if signed_in else 401, "GatedRepo", f"Access to model {repo} is restricted.")
            return
        commit = known.references.get(revision, revision)
        if commit not in known.commits:
            self._refuse(404, "RevisionNotFound", f"Invalid rev id: {revision}")
            return
        content = known.commits[commit].get(name)
        if content is None:
            self._refuse(404, "EntryNotFound", "Entry not found", {"X-Repo-Commit": commit})
            return
        facts = {"X-Repo-Commit": commit}
        if len(content) < LARGE:
            self._send(200, content, facts | {"ETag": f'"{hashlib.sha1(content).hexdigest()}"'})
            return
        digest = hashlib.sha256(content).hexdigest()
        storage = self.hub.url.replace("127.0.0.1", "localhost")  # another host, as on the hub: the token stays behind
        facts |= {"X-Linked-Etag": f'"{digest}"', "X-Linked-Size": str(len(content)), "ETag": '"of-the-pointer"'}
        self._send(302, b"", facts | {"Location": f"{storage}/storage/{digest}/{name}"})

    def _storage(self, digest, name):
        if self.headers.get("Authorization"):
            self._refuse(400, "Leak", "a token of the hub was sent to another host")
            return
        contents = (c for known in self.hub.repositories.values() for c in known.commits.values())
        content = next(c[name] for c in contents if name in c and hashlib.sha256(c[name]).hexdigest() == digest)
        start, end, ranged = 0, len(content), self.headers.get("Range")
        if ranged and self.hub.ranges:
            first, _, last = ranged.removeprefix("bytes=").partition("-")
            start, end = int(first), min(len(content), int(last) + 1 if last else len(content))
        part = start > 0 or end < len(content)
        headers = {"Content-Range": f"bytes {start}-{end - 1}/{len(content)}"} if part else {}
        self._send(206 if part else 200, content[start:end], headers, name=name, start=start)

    def _refuse(self, status, code, message, more=None):
        self._send(status, message.encode(), {"X-Error-Code": code, "X-Error-Message": message} | (more or {}))

    def _send(self, status, body, headers=None, *, name="", start=0):
        self.send_response(status)
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        if name in self.hub.cuts and start < self.hub.cuts[name]:
            self.wfile.write(body[: self.hub.cuts.pop(name) - start])
            self.close_connection = True
            return
        if name in self.hub.hold:
            sent = self.hub.hold.pop(name) - start
            self.wfile.write(body[:sent])
            self.wfile.flush()
            self.hub.holding.set()
            self.hub.release.wait()
            body = body[sent:]
        try:
            self.wfile.write(body)
        except OSError:
            self.close_connection = True
