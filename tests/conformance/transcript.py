"""The same requests to two servers, and what they answered with everything accidental taken out.

A case is a list of steps. Text in a step may refer to earlier answers: `$uid.0` and `$rv.0` are the
uid and the resourceVersion in the answer to step 0, `$ns` the case's own namespace.
"""

from __future__ import annotations

import http.client
import json
import re
import ssl
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import urlsplit

JSON = "application/json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"


class Server(Protocol):
    """Where requests go."""

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


@dataclass(frozen=True)
class Case:
    """Requests to be answered alike. `wording` False: messages may differ, reasons may not."""

    name: str
    steps: list[Step]
    wording: bool = True
    hide: tuple[str, ...] = field(default=())
    """Dotted paths of fields that deliberately differ."""


@dataclass
class Reply:
    """An answer: the code and the decoded body (a list of them for a watch)."""

    status: int
    body: Any


class Conversation:
    """Requests to one server over one connection."""

    def __init__(self, server: Server) -> None:
        trust = ssl.create_default_context(cadata=server.authority_pem.decode())
        place = urlsplit(server.url)
        self._connection = http.client.HTTPSConnection(
            str(place.hostname), place.port, timeout=30, context=trust
        )
        self._token = server.token

    def say(self, step: Step) -> Reply:
        """Send one request and read the whole answer."""
        body = step.body
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self._token}", "Accept": step.accept}
        if body is not None:
            headers["Content-Type"] = step.content_type
        self._connection.request(step.method, step.path, body, headers)
        response = self._connection.getresponse()
        return Reply(response.status, _decoded(response.read()))

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


def play(server: Server, case: Case, namespace: str) -> list[Reply]:
    """All answers of a server to a case, in a namespace made for it."""
    talk = Conversation(server)
    try:
        made = talk.say(Step("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}}))
        assert made.status == 201, made
        replies: list[Reply] = []
        for step in case.steps:
            replies.append(talk.say(_filled(step, replies, namespace)))
        talk.say(Step("DELETE", f"/api/v1/namespaces/{namespace}"))
        return replies
    finally:
        talk.close()


def _filled(step: Step, replies: list[Reply], namespace: str) -> Step:
    def known(found: re.Match[str]) -> str:
        meta = replies[int(found[2])].body["metadata"]
        return str(meta["uid" if found[1] == "uid" else "resourceVersion"])

    def fill(value: Any) -> Any:
        if isinstance(value, str):
            return re.sub(r"\$(uid|rv)\.(\d+)", known, value).replace("$ns", namespace)
        if isinstance(value, dict):
            return {fill(k): fill(v) for k, v in value.items()}
        return [fill(v) for v in value] if isinstance(value, list) else value

    return Step(step.method, fill(step.path), fill(step.body), step.content_type, step.accept)


# -- what is accidental --------------------------------------------------------------------------

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_REVISION = re.compile(r"\(\d+\)")
# What a conflict tells of etcd's keys is nobody's business.
_STORAGE = re.compile(r"StorageError: invalid object, Code: 4, Key: \S+, .*AdditionalErrorMsg: ")
_TOKEN = "continue"
_DROPPED = ("managedFields", "selfLink")


def normal(replies: list[Reply], case: Case, namespace: str) -> list[tuple[int, Any]]:
    """Answers without what differs between two runs anyway."""
    shown = []
    for reply in replies:
        body = _normal(reply.body, namespace)
        for path in case.hide:
            _hide(body, path.split("."))
        if not case.wording:
            _unword(body)
        shown.append((reply.status, body))
    return shown


def _normal(value: Any, namespace: str) -> Any:
    if isinstance(value, dict):
        return _normal_object(value, namespace)
    if isinstance(value, list):
        return [_normal(item, namespace) for item in value]
    if isinstance(value, str):
        value = _STORAGE.sub("", value.replace(namespace, "<ns>"))
        return _REVISION.sub("(<rv>)", _UID.sub("<uid>", _TIME.sub("<time>", value)))
    return value


def _normal_object(value: dict[str, Any], namespace: str) -> dict[str, Any]:
    # Null and absent mean the same; which of them is sent depends on how a field is declared in Go.
    kept = {k: v for k, v in value.items() if k not in _DROPPED and v is not None}
    result = {k: _normal(v, namespace) for k, v in kept.items()}
    if isinstance(result.get("resourceVersion"), str) and result["resourceVersion"].isdigit():
        result["resourceVersion"] = "<rv>"
    if result.get(_TOKEN):
        result[_TOKEN] = "<token>"
    prefix = result.get("generateName")
    if prefix and str(result.get("name", "")).startswith(prefix):
        result["name"] = f"{prefix}<suffix>"
    if isinstance(result.get("causes"), list):  # some validations run twice
        result["causes"] = [
            c for i, c in enumerate(result["causes"]) if c not in result["causes"][:i]
        ]
    # Items of a list of a built-in kind need not repeat what the list says.
    if str(result.get("kind", "")).endswith("List"):
        for item in result.get("items") or ():
            item.pop("kind", None)
            item.pop("apiVersion", None)
    return result


def _hide(value: Any, path: list[str]) -> None:
    if isinstance(value, list):
        for item in value:
            _hide(item, path)
    elif isinstance(value, dict):
        if len(path) == 1:
            value.pop(path[0], None)
        else:
            _hide(value.get(path[0]), path[1:])


def _unword(value: Any) -> None:
    if isinstance(value, list):
        for item in value:
            _unword(item)
    elif isinstance(value, dict):
        value.pop("message", None)
        for item in value.values():
            _unword(item)
