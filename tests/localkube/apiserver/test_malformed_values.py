"""Numbers, times and names that are none: the server answers with 4xx, never with 500."""

from __future__ import annotations

import base64
import copy
import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from yarl import URL

from tests.builders import pod
from tests.localkube.apiserver.fake_node import FakeNode
from tests.localkube.apiserver.running_server import running_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.localkube.apiserver.running_server import ApiClient

    Body = bytes | dict[str, Any] | None
    Row = tuple[str, str, Body, str]

V1 = "/api/v1/namespaces/default"
CM, PODS, SERVICES = f"{V1}/configmaps", f"{V1}/pods", f"{V1}/services"
JSON, YAML, APPLY = "application/json", "application/yaml", "application/apply-patch+yaml"
DIGITS = "1" * 5000
"""More digits than Python turns into a number."""
NO_NUMBERS = ("²", "٣", "１", "1_000", " 1", "1.5", "1e3", "0x10", "NaN", "inf", "x", "\n1", DIGITS)
TOO_LARGE = ("9223372036854775808", "-9223372036854775809", "99999999999999999999")
SURROGATE = "%ED%A0%80"
"""Half of a surrogate pair, in a path or query."""
CONTAINER = {"name": "main", "image": "busybox"}


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[ApiClient]:
    """A server with a config map, a service, a node and a pod on it."""
    async with running_server(tmp_path, FakeNode()) as api:
        addresses = [{"type": "InternalIP", "address": "127.0.0.1"}]
        node = {"metadata": {"name": "n"}, "status": {"addresses": addresses}}
        for path, body in (
            ("/api/v1/nodes", node),
            (CM, {"metadata": {"name": "a"}}),
            (SERVICES, {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}),
        ):
            assert (await api.send("POST", path, body)).status == 201
        await api.create_pod("p", nodeName="n")
        yield api


def shortened(value: Any) -> str:
    """A value as the name of a test."""
    return str(value)[:24]


async def statuses(api: ApiClient, rows: list[Row], **headers: str) -> dict[str, int]:
    """The requests whose answer is not 4xx, and its status."""
    wrong = {}
    for method, path, body, kind in rows:
        url = URL(api.server.url + path, encoded=True)
        data = json.dumps(body) if isinstance(body, dict) else body
        async with api.session.request(
            method, url, data=data, headers={"Content-Type": kind, **headers}
        ) as answer:
            if not 400 <= answer.status < 500:
                wrong[f"{method} {path[:120]} {str(data)[:200]}"] = answer.status
    return wrong


async def test_a_query_with_text_for_a_number_is_a_bad_request(api: ApiClient) -> None:
    rows: list[Row] = []
    for text in (*NO_NUMBERS, *TOO_LARGE):
        value = quote(text)
        rows += [
            ("GET", f"{path}{option}={value}", None, JSON)
            for path in (f"{CM}?", f"{CM}?watch=1&")
            for option in ("limit", "timeoutSeconds", "resourceVersion")
            if (path, option) != (f"{CM}?watch=1&", "limit")  # a watch has none
        ]
        rows.append(("GET", f"{CM}/a?resourceVersion={value}", None, JSON))
        rows.append(("DELETE", f"{PODS}/p?gracePeriodSeconds={value}", None, JSON))
        rows += [
            ("GET", f"{PODS}/p/log?{option}={value}", None, JSON)
            for option in ("tailLines", "sinceSeconds", "limitBytes", "sinceTime")
        ]

    assert await statuses(api, rows) == {}


@pytest.mark.parametrize(
    "query",
    ["tailLines=-1", "sinceSeconds=0", "sinceSeconds=-9223372036854775808", "limitBytes=0"],
)
async def test_a_log_has_no_negative_length(api: ApiClient, query: str) -> None:
    reply = await api.send("GET", f"{PODS}/p/log?{query}")

    assert (reply.status, reply.body["reason"]) == (422, "Invalid")
    assert "must be greater than" in reply.body["message"]


async def test_a_time_without_a_zone_is_read_as_utc(api: ApiClient) -> None:
    for time in ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00"):
        assert (await api.send("GET", f"{PODS}/p/log?sinceTime={time}")).status == 200
    for time in ("2026-01-01", "2026-02-30T00:00:00Z", "0001-01-01T00:00:00%2B23:59"):
        assert (await api.send("GET", f"{PODS}/p/log?sinceTime={time}")).status == 400


async def test_text_for_a_port_is_a_bad_request(api: ApiClient) -> None:
    numbers = [quote(text) for text in ("²", "٣", "1_000", "0", "65536", *TOO_LARGE[:1], DIGITS)]
    rows: list[Row] = [
        ("GET", path, None, JSON)
        for number in numbers
        for path in (
            f"{PODS}/p:{number}/proxy/",
            f"{PODS}/http:p:{number}/proxy/",
            f"/api/v1/nodes/n:{number}/proxy/",
            f"{PODS}/p/portforward?ports={number}",
            f"{PODS}/p/portforward?ports=80,{number}",
        )
    ]

    assert await statuses(api, rows) == {}


async def test_a_service_does_not_have_a_port_that_is_not_a_number(api: ApiClient) -> None:
    for text in ("²", "٣", DIGITS, *TOO_LARGE[:1]):
        reply = await api.send("GET", f"{SERVICES}/s:{quote(text)}/proxy/")

        # As a real server says it: it takes such a port for the name of one.
        assert reply.status in (404, 503), reply.body


async def test_a_websocket_key_that_is_not_ascii_is_a_bad_request(api: ApiClient) -> None:
    upgrade = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "²",
    }
    rows: list[Row] = [
        ("GET", f"{PODS}/p/portforward?ports=80", None, JSON),
        ("GET", f"{PODS}/p/exec?command=cat", None, JSON),
    ]

    assert await statuses(api, rows, **upgrade) == {}


async def test_a_name_with_half_a_surrogate_pair_is_refused(api: ApiClient) -> None:
    rows: list[Row] = [
        ("GET", f"{CM}/{SURROGATE}", None, JSON),
        ("GET", f"/api/v1/namespaces/default/{SURROGATE}", None, JSON),
        ("GET", f"/apis/{SURROGATE}/v1/pods", None, JSON),
        ("GET", f"{CM}?limit={SURROGATE}", None, JSON),
        ("GET", f"{CM}?labelSelector={SURROGATE}", None, JSON),
        ("GET", f"{CM}?fieldSelector={SURROGATE}", None, JSON),
        ("GET", f"{CM}?continue={SURROGATE}", None, JSON),
        ("GET", f"{PODS}/p:{SURROGATE}/proxy/", None, JSON),
        ("POST", CM, b'{"metadata":{"name":"\\ud800"}}', JSON),
        ("POST", CM, b'{"metadata":{"name":"x"},"data":{"\\udc00":""}}', JSON),
        ("POST", CM, b'metadata: {name: x, labels: {a: "\\uD800"}}', YAML),
    ]

    assert await statuses(api, rows) == {}


NUMBERS = ("²", DIGITS, 2**63, 2**70, -(2**63) - 1, 1.5, "NaN", "9" * 999)
"""Values of a field that is an integer."""


def bodies(value: Any) -> list[tuple[str, dict[str, Any]]]:
    """Objects with this value as a number that has some meaning to the server."""
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [CONTAINER]}}
    workload = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    job = {"template": {"spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}}
    apps, batch = "/apis/apps/v1/namespaces/default", "/apis/batch/v1/namespaces/default"
    percent = f"{value}%"
    rule = {"succeededIndexes": f"0,{value}"}
    indexed = {**job, "completions": 5, "parallelism": 1, "completionMode": "Indexed"}
    specs = [
        (f"{apps}/deployments", {**workload, "replicas": value}),
        (f"{apps}/deployments", {**workload, "strategy": {"rollingUpdate": {"maxSurge": percent}}}),
        (
            f"{apps}/daemonsets",
            {**workload, "updateStrategy": {"rollingUpdate": {"maxUnavailable": percent}}},
        ),
        (
            f"{apps}/statefulsets",
            {**workload, "updateStrategy": {"rollingUpdate": {"partition": value}}},
        ),
        (f"{batch}/jobs", {**job, "backoffLimit": value}),
        (f"{batch}/jobs", {**indexed, "successPolicy": {"rules": [rule]}}),
        (f"{batch}/cronjobs", {"schedule": f"{value} * * * *", "jobTemplate": {"spec": job}}),
        (f"{batch}/cronjobs", {"schedule": f"@every {value}d", "jobTemplate": {"spec": job}}),
        (SERVICES, {"ports": [{"port": value}]}),
        (f"{V1}/resourcequotas", {"hard": {"pods": f"{value}x"}}),
    ]
    return [
        (PODS, pod(containers=[{**CONTAINER, "ports": [{"containerPort": value}]}])),
        (PODS, pod(containers=[{**CONTAINER, "resources": {"limits": {"cpu": f"{value}e"}}}])),
        (PODS, pod(terminationGracePeriodSeconds=value)),
        (PODS, pod(activeDeadlineSeconds=value)),
        *((path, {"metadata": {"name": "x"}, "spec": spec}) for path, spec in specs),
    ]


@pytest.mark.parametrize("value", NUMBERS, ids=shortened)
async def test_an_object_with_text_for_a_number_is_refused(api: ApiClient, value: Any) -> None:
    rows: list[Row] = [("POST", path, body, JSON) for path, body in bodies(value)]
    rows.append(("DELETE", f"{PODS}/p", {"gracePeriodSeconds": value}, JSON))
    rows.append(
        (
            "POST",
            f"{V1}/serviceaccounts/default/token",
            {"spec": {"expirationSeconds": value}},
            JSON,
        )
    )

    assert await statuses(api, rows) == {}


@pytest.mark.parametrize("kind", [JSON, YAML, APPLY])
@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e400", "-1e400", DIGITS], ids=shortened)
async def test_json_has_no_number_out_of_range(api: ApiClient, kind: str, number: str) -> None:
    text = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","generation":%s}}'
    path = CM if kind != APPLY else f"{CM}/x?fieldManager=me"
    method = "POST" if kind != APPLY else "PATCH"

    assert await statuses(api, [(method, path, text % number.encode(), kind)]) == {}


@pytest.mark.parametrize("value", [b".inf", b"-.inf", b".nan", b"{~: x}", b"{!!binary eA==: x}"])
async def test_yaml_has_no_values_that_json_cannot_have(api: ApiClient, value: bytes) -> None:
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: " + value
    rows: list[Row] = [
        ("POST", CM, text, YAML),
        ("PATCH", f"{CM}/x?fieldManager=me", text, APPLY),
    ]

    assert await statuses(api, rows) == {}


async def test_keys_of_yaml_are_text_as_with_a_real_server(api: ApiClient) -> None:
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {1: a, true: b, 1.5: c}"
    reply = await api.send("PATCH", f"{CM}/x?fieldManager=me", body, APPLY)

    assert reply.body["data"] == {"1": "a", "true": "b", "1.5": "c"}


async def test_json_inside_of_an_object_may_be_anything(api: ApiClient) -> None:
    deep = "[" * 3000
    secret = {
        "metadata": {"name": "x"},
        "type": "kubernetes.io/dockerconfigjson",
        "data": {".dockerconfigjson": base64.b64encode(deep.encode()).decode()},
    }
    assert await statuses(api, [("POST", f"{V1}/secrets", secret, JSON)]) == {}

    last = "kubectl.kubernetes.io/last-applied-configuration"
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "l"}}
    written = copy.deepcopy(config) | {"data": {"a": "b"}}
    written["metadata"] = {"name": "l", "annotations": {last: deep}}
    manager = "fieldManager=kubectl-client-side-apply"
    assert (await api.send("POST", f"{CM}?{manager}", written)).status == 201
    applied = await api.send("PATCH", f"{CM}/l?fieldManager=kubectl&force=true", config, APPLY)
    assert applied.status == 200, applied.body


@pytest.mark.parametrize(
    "index", [f"[{DIGITS}]", f"[0:{DIGITS}]", f"[:-{DIGITS}]", "[²]", "[٣]"], ids=shortened
)
async def test_a_column_with_a_malformed_index_is_empty(api: ApiClient, index: str) -> None:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "additionalPrinterColumns": [{"name": "A", "type": "string", "jsonPath": f".a{index}"}],
    }
    names = {"plural": "foos", "singular": "foo", "kind": "Foo", "listKind": "FooList"}
    crd = {
        "metadata": {"name": "foos.x.io"},
        "spec": {"group": "x.io", "scope": "Cluster", "names": names, "versions": [version]},
    }
    foo = {"apiVersion": "x.io/v1", "kind": "Foo", "metadata": {"name": "f"}, "a": ["b"]}
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    if (await api.send("POST", definitions, crd)).status == 422:
        return  # refused with the definition
    assert (await api.send("POST", "/apis/x.io/v1/foos", foo)).status == 201
    table = "application/json;as=Table;v=v1;g=meta.k8s.io"
    reply = await api.send("GET", "/apis/x.io/v1/foos", Accept=table)

    assert reply.status == 200, reply.body
    assert reply.body["rows"][0]["cells"] == ["f", None]


async def test_integers_end_where_those_of_the_real_server_end(api: ApiClient) -> None:
    deployments = "/apis/apps/v1/namespaces/default/deployments?dryRun=All"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [CONTAINER]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}

    async def status(**fields: Any) -> int:
        body = {"metadata": {"name": "x"}, "spec": {**spec, **fields}}
        return (await api.send("POST", deployments, body)).status

    assert await status(replicas=2**31 - 1) == 201
    assert await status(replicas=2**31) == 400
    assert await status(strategy={"rollingUpdate": {"maxSurge": 2**31 - 1}}) == 201
    assert await status(strategy={"rollingUpdate": {"maxSurge": 2**31}}) == 400
    long = pod("x", terminationGracePeriodSeconds=2**31 - 1)
    assert (await api.send("POST", f"{PODS}?dryRun=All", long)).status == 201
