"""The documents of OpenAPI name the same types and operations as those of the real server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.localkube.conformance.transcript import Connection, Step
from tests.side_by_side import side_by_side
from tests.waiting import until

if TYPE_CHECKING:
    from tests.localkube.conformance.conftest import Running
    from tests.localkube.conformance.transcript import Reply

pytestmark = pytest.mark.kube

OPTIONS = ("DeleteOptions", "WatchEvent")
"""These name every group that a server has."""
ONLY_HERE = ("dev.muster.", "v1beta1.", "v1.PodLog", "io.k8s.api.scheduling.v1alpha2.")
LAST = "sh.volcano.topology.v1alpha1.HyperNode"
METHODS = ("get", "put", "post", "patch", "delete")


def read(server: Running, path: str) -> Any:
    reply = ask(server, path)
    assert reply.status == 200, reply.body
    return reply.body


def ask(server: Running, path: str) -> Reply:
    connection = Connection(server)
    reply = connection.send(Step("GET", path))
    connection.close()
    return reply


def version_2(server: Running) -> Any:
    """The document, once it has the custom kinds: the real server adds them after a while."""
    document: Any = {}

    def complete() -> bool:
        document.update(read(server, "/openapi/v2"))
        return LAST in document["definitions"]

    until(complete, what="the custom kinds in the document")
    return document


def test_version_2_has_the_same_types(ours: Running, real: Running, installed: None) -> None:
    theirs, own = (d["definitions"] for d in side_by_side(version_2, real, ours))

    unknown = {name for name in own if name not in theirs and not name.startswith(ONLY_HERE)}
    assert not unknown
    for name in own.keys() & theirs.keys():
        if not name.endswith(OPTIONS):
            assert own[name] == theirs[name], name
    assert "io.k8s.api.core.v1.PodList" in own
    assert "org.kubeflow.v1.TFJob" in own


def test_version_2_has_the_same_operations(ours: Running, real: Running, installed: None) -> None:
    theirs, own = (d["paths"] for d in side_by_side(version_2, real, ours))

    compared = 0
    for path, item in own.items():
        for method in (m for m in METHODS if m in item and path in theirs):
            assert identity(item[method]) == identity(theirs[path][method]), f"{method} {path}"
            compared += 1
    assert compared > 300


def identity(operation: dict[str, Any]) -> Any:
    """What clients find an operation by, and its result."""
    deleted = (
        operation["x-kubernetes-action"] == "delete"
    )  # an answer that few documents have right
    answer = None if deleted else operation["responses"]["200"].get("schema")
    extensions = [operation.get(f"x-kubernetes-{n}") for n in ("action", "group-version-kind")]
    return operation["operationId"], extensions, answer


@pytest.mark.parametrize("root", ["api/v1", "apis/apps/v1", "apis/kubeflow.org/v1"])
def test_version_3_has_the_same_types(
    root: str, ours: Running, real: Running, installed: None
) -> None:
    def types(server: Running) -> Any:
        reply = until(lambda: current(server), what="a document that is still current")
        assert reply.status == 200, reply.body
        return reply.body["components"]["schemas"]

    def current(server: Running) -> Reply | None:
        """None if the real server has changed the document since it named its hash."""
        link = read(server, "/openapi/v3")["paths"][root]["serverRelativeURL"]
        assert "?hash=" in link
        reply = ask(server, link)
        return None if reply.status == 301 else reply

    theirs, own = side_by_side(types, real, ours)

    assert own.keys() <= theirs.keys()
    for name in own:
        if not name.endswith(OPTIONS):
            assert own[name] == theirs[name], name
