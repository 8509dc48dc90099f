"""The same requests to two servers, and their answers.

A case is a list of steps. Text in a step may refer to earlier answers: `$uid.0` and `$rv.0` are the
uid and the resourceVersion in the answer to step 0, `$next.0` its continue token, `$token.0` the
requested token, `$ns` the namespace of the case.
"""

from __future__ import annotations

import http.client
import json
import re
import ssl
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol
from urllib.parse import urlsplit

from tests.waiting import until

JSON = "application/json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"


class Server(Protocol):
    """The server that requests go to."""

    @property
    def url(self) -> str: ...

    @property
    def token(self) -> str: ...

    @property
    def authority_pem(self) -> bytes: ...


@dataclass(frozen=True)
class Step:
    """One request. A body that is bytes is sent as it is."""

    method: str
    path: str
    body: Any = None
    content_type: str = JSON
    accept: str = JSON
    until: Callable[[Reply], bool] | None = None
    """Repeat the request until the answer is this one, for things that a server does later."""
    user: str = ""
    """The user whom the admin impersonates."""


@dataclass(frozen=True)
class Case:
    """Requests that both servers must answer alike."""

    name: str
    steps: list[Step]
    differs: tuple[str, ...] = ()
    """Names of exclusions (see `normalization.py`) that apply to this case."""


@dataclass
class Reply:
    """An answer: the code, the decoded body (a list of them for a watch), headers, the path."""

    status: int
    body: Any
    warnings: tuple[str, ...] = ()
    path: str = ""
    retry_after: str = ""
    """The header Retry-After, at which clients repeat a request by themselves."""


class Connection:
    """Requests to one server over one connection."""

    def __init__(self, server: Server) -> None:
        trust = ssl.create_default_context(cadata=server.authority_pem.decode())
        address = urlsplit(server.url)
        self._connection = http.client.HTTPSConnection(
            str(address.hostname), address.port, timeout=30, context=trust
        )
        self._token = server.token

    def send(self, step: Step) -> Reply:
        """Send one request and read the whole answer."""
        body = step.body
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self._token}", "Accept": step.accept}
        if body is not None:
            headers["Content-Type"] = step.content_type
        if step.user:
            headers["Impersonate-User"] = step.user
        self._connection.request(step.method, step.path, body, headers)
        response = self._connection.getresponse()
        warnings = tuple(response.headers.get_all("Warning") or ())
        body, again = _decoded(response.read()), response.headers.get("Retry-After", "")
        return Reply(response.status, body, warnings, step.path, again)

    def close(self) -> None:
        self._connection.close()


def _decoded(data: bytes) -> Any:
    if not data:
        return None
    try:
        return json.loads(data)
    except ValueError:
        lines = data.decode(errors="replace").splitlines()
    try:
        return [json.loads(line) for line in lines]
    except ValueError:
        return lines


def watched(body: Any) -> list[Any]:
    """The events of a watch: one line is decoded like any other body."""
    return body if isinstance(body, list) else [] if body is None else [body]


ASIDE = Step("ASIDE", "")
"""Not a request: something that the test does to the server."""


def play(
    server: Server, case: Case, namespace: str, aside: Callable[[], object] | None = None
) -> list[Reply]:
    """All answers of a server to a case, in a namespace of its own."""
    connection = Connection(server)
    try:
        created = connection.send(
            Step("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        )
        assert created.status == 201, created
        replies: list[Reply] = []
        for step in case.steps:
            if step is ASIDE:
                assert aside is not None
                aside()
                replies.append(Reply(0, None))
                continue
            replies.append(_patiently(connection, _filled(step, replies, namespace)))
        connection.send(Step("DELETE", f"/api/v1/namespaces/{namespace}"))
        return replies
    finally:
        connection.close()


def _patiently(connection: Connection, step: Step) -> Reply:
    """The answer to a step: the awaited one, or the first from a server that is ready."""
    reply = Reply(0, None)

    def answered() -> bool:
        nonlocal reply
        reply = connection.send(step)
        return not _initialising(reply) and (step.until is None or step.until(reply))

    until(answered, what=f"the awaited answer to {step.method} {step.path}")
    return reply


def _initialising(reply: Reply) -> bool:
    """Whether the real server asks for a retry, because a definition has just changed."""
    return reply.status == 429 and "storage is (re)initializing" in str(reply.body)


_REFERENCES = {"uid": "uid", "rv": "resourceVersion", "next": "continue"}


def _filled(step: Step, replies: list[Reply], namespace: str) -> Step:
    def value_of(reference: re.Match[str]) -> str:
        body = replies[int(reference[2])].body
        if reference[1] == "token":
            return str(body["status"]["token"])
        return str(body["metadata"][_REFERENCES[reference[1]]])

    def fill(value: Any) -> Any:
        if isinstance(value, str):
            return re.sub(r"\$(uid|rv|next|token)\.(\d+)", value_of, value).replace(
                "$ns", namespace
            )
        if isinstance(value, dict):
            return {fill(k): fill(v) for k, v in value.items()}
        return [fill(v) for v in value] if isinstance(value, list) else value

    return replace(step, path=fill(step.path), body=fill(step.body), user=fill(step.user))
