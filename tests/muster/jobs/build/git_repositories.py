"""Real git repositories for tests, on disk and on a server that requires a password."""

from __future__ import annotations

import base64
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.prerequisites import missing_prerequisite

AUTHOR = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always")


def git(*words: str, at: Path) -> str:
    command = ["git", *AUTHOR, *words]
    process = subprocess.run(command, cwd=at, check=True, capture_output=True, text=True)
    return process.stdout.strip()


def commit(at: Path, text: str) -> str:
    (at / "file").write_text(text)
    git("add", "-A", at=at)
    git("commit", "-qm", text, at=at)
    return git("rev-parse", "HEAD", at=at)


class Repository:
    """Three commits, the third on a branch of its own."""

    def __init__(self, folder: Path) -> None:
        if shutil.which("git") is None:
            missing_prerequisite("git", "there is no git on this machine")
        self.path = folder
        folder.mkdir(parents=True)
        git("init", "-q", "-b", "main", at=folder)
        self.first = commit(folder, "one")
        git("tag", "v1", at=folder)
        self.second = commit(folder, "two")
        git("checkout", "-qb", "side", at=folder)
        self.third = commit(folder, "three")
        git("checkout", "-q", "main", at=folder)


PASSWORD = "p:w$x'\""


class Guarded(SimpleHTTPRequestHandler):
    """Serves files to clients that send the password."""

    def do_GET(self) -> None:
        expected = "Basic " + base64.b64encode(f"me:{PASSWORD}".encode()).decode()
        if self.headers.get("Authorization") == expected:
            super().do_GET()
            return
        self.send_response(401)
        self.send_header("WWW-Authenticate", 'Basic realm="code"')
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def served(repository: Repository, folder: Path) -> Iterator[str]:
    """The address of the repository on a server that requires a password."""
    bare = folder / f"{repository.path.name}.git"
    git("clone", "-q", "--bare", str(repository.path), str(bare), at=repository.path)
    git("update-server-info", at=bare)
    handler = partial(Guarded, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/{bare.name}"
        server.shutdown()
        thread.join()
