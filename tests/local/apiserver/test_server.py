"""The server as a whole, over TLS: who gets in, what it survives, what it remembers."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import struct
from typing import TYPE_CHECKING, Any

import aiohttp
import msgspec
import pytest
import yaml

from muster.api import crds
from tests.local.apiserver.running_server import JSON, MERGE, running_server
from tests.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from tests.local.apiserver.running_server import ApiClient

CM = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
JOBS = "/apis/kubeflow.org/v1/namespaces/default/tfjobs"


def tfjobs() -> Any:
    return next(c for c in crds.load_all() if c["metadata"]["name"] == "tfjobs.kubeflow.org")


@pytest.mark.parametrize("header", ["", "Bearer wrong", "Basic eDp5", "Bearer ", "Bearer \udcff"])
async def test_without_the_token_nothing_is_told(talk: ApiClient, header: str) -> None:
    reply = await talk.say("GET", CM, Authorization=header)

    assert (reply.status, reply.body["reason"]) == (401, "Unauthorized")


async def test_health_and_version_need_no_token(talk: ApiClient) -> None:
    for path in ("/healthz", "/livez", "/readyz", "/version"):
        assert (await talk.say("GET", path, Authorization="")).status == 200


async def test_a_full_disk_is_told_to_those_who_ask_whether_we_are_ready(
    talk: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    reserve = talk.server.store._log.reserve
    monkeypatch.setattr(reserve, "_free", lambda: 1000)
    reserve.spend()

    for path in ("/readyz", "/readyz/etcd", "/livez", "/healthz", "/readyz/ping"):
        reply = await talk.say("GET", path)
        failed = path in ("/readyz", "/readyz/etcd")
        assert reply.status == (500 if failed else 200)
        assert ("disk is full" in str(reply.body)) == failed
    refused = await talk.say("POST", CM, {"metadata": {"name": "a"}})
    assert refused.status == 500
    assert "disk" in refused.body["message"]


async def test_health_is_told_at_length_to_those_who_ask(talk: ApiClient) -> None:
    reply = await talk.say("GET", "/livez?verbose")

    assert reply.body.splitlines()[0] == "[+]ping ok"
    assert reply.body.splitlines()[-1] == "livez check passed"


async def test_the_root_lists_paths_that_are_all_there(talk: ApiClient) -> None:
    paths = (await talk.say("GET", "/")).body["paths"]

    assert {"/api/v1", "/apis/apps/v1", "/readyz/ping"} <= set(paths)
    for path in paths:
        assert (await talk.say("GET", path)).status == 200, path


async def test_the_core_group_says_where_the_server_is(talk: ApiClient) -> None:
    told = (await talk.say("GET", "/api")).body["serverAddressByClientCIDRs"]

    assert [row["serverAddress"] for row in told] == [f"127.0.0.1:{talk.server.port}"]


async def test_the_certificate_is_good_for_the_names_pods_use(talk: ApiClient) -> None:
    trust = ssl.create_default_context(cadata=talk.server.ca.decode())
    for name in ("localhost", "kubernetes.default.svc", "127.0.0.1"):
        async with talk.session.get(
            talk.server.url + "/api", ssl=trust, server_hostname=name
        ) as response:
            assert response.status == 200
    with pytest.raises(aiohttp.ClientConnectorCertificateError):
        await talk.session.get(talk.server.url + "/api", ssl=trust, server_hostname="example.com")


async def test_secrets_on_disk_are_for_their_owner_only(talk: ApiClient, tmp_path: Path) -> None:
    talk.server.credentials.write_kubeconfig(tmp_path / "kubeconfig", talk.server.url)
    folder = talk.server.data_dir / "access"
    for path in (
        folder / "token",
        folder / "ca.key",
        folder / "server.key",
        tmp_path / "kubeconfig",
    ):
        assert path.stat().st_mode & 0o777 == 0o600, path


async def test_the_kubeconfig_names_the_server_and_its_token(
    talk: ApiClient, tmp_path: Path
) -> None:
    talk.server.credentials.write_kubeconfig(tmp_path / "kubeconfig", talk.server.url)
    config = yaml.safe_load((tmp_path / "kubeconfig").read_text())

    assert config["clusters"][0]["cluster"]["server"] == talk.server.url
    assert config["users"][0]["user"]["token"] == talk.server.token


async def test_a_restart_keeps_objects_token_and_certificate(tmp_path: Path) -> None:
    async with running_server(tmp_path) as talk:
        await talk.say("POST", CRDS, tfjobs())
        made = await talk.create_pod("a")
        token, ca = talk.server.token, talk.server.ca
    async with running_server(tmp_path) as talk:
        assert (talk.server.token, talk.server.ca) == (token, ca)
        assert (await talk.say("GET", f"{PODS}/a")).body == made
        assert (await talk.say("GET", JOBS)).status == 200


def thing(plural: str, group: str = "example.com") -> Any:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    versions = [
        {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    ]
    names = {"plural": plural, "kind": "Thing"}
    spec = {"group": group, "scope": "Cluster", "names": names, "versions": versions}
    return {"metadata": {"name": f"{plural}.{group}"}, "spec": spec}


def said(crd: Any) -> dict[str, tuple[str, str]]:
    return {row["type"]: (row["status"], row["reason"]) for row in crd["status"]["conditions"]}


async def test_of_two_definitions_of_a_kind_the_first_is_served_until_it_goes(
    tmp_path: Path,
) -> None:
    async with running_server(tmp_path) as talk:
        for plural in ("things", "items"):
            await talk.say("POST", CRDS, thing(plural))
        await talk.say("POST", CRDS, thing("others", "example.org"))
    async with running_server(tmp_path) as talk:
        path = f"{CRDS}/items.example.com"
        second = (await talk.say("GET", path)).body
        assert said(second)["NamesAccepted"] == ("False", "ListKindConflict")
        assert said(second)["Established"] == ("False", "NotAccepted")
        assert second["status"]["acceptedNames"] == {"plural": "items", "kind": ""}
        assert (await talk.say("GET", "/apis/example.com/v1/items")).status == 404
        assert (await talk.say("GET", "/apis/example.com/v1/things")).status == 200
        assert (await talk.say("GET", "/apis/example.org/v1/others")).status == 200

        await talk.say("DELETE", f"{CRDS}/things.example.com")

        second = (await talk.say("GET", path)).body
        assert said(second)["Established"] == ("True", "InitialNamesAccepted")
        assert (await talk.say("GET", "/apis/example.com/v1/items")).status == 200


@pytest.mark.parametrize("strictness", ["", "&fieldValidation=Ignore"])
async def test_an_apply_of_a_field_that_nobody_knows_is_refused_and_names_it(
    talk: ApiClient, strictness: str
) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "colour": "red"}
    reply = await talk.say(
        "PATCH", f"{CM}/a?fieldManager=me{strictness}", body, "application/apply-patch+yaml"
    )

    assert reply.status == 400
    assert ".colour: field not declared in schema" in reply.body["message"]
    assert (await talk.say("GET", f"{CM}/a")).status == 404


@pytest.mark.parametrize(
    ("body", "content_type", "expected"),
    [
        (b"{", JSON, 400),
        (b"\xff\xfe", JSON, 400),
        (b'"' + b"\xc3\x28" + b'"', JSON, 400),
        (b"[" * 100_000, JSON, 400),
        (b'{"a":' * 600 + b"1" + b"}" * 600, JSON, 400),
        (b'{"metadata":[]}', JSON, 400),
        (b'{"metadata":{"name":5}}', JSON, 400),
        (b"a: [", "application/yaml", 400),
        (b"\x00", "application/yaml", 400),
        (b"a: &a [1]\nb: *a", "application/yaml", 400),
        (b"- 1", "application/yaml", 400),
        (b"1: 2", "application/yaml", 400),
        (b"", JSON, 400),
        (b"hello", "text/plain", 415),
        (b'{"a":"' + b"x" * (3 * 1024 * 1024) + b'"}', JSON, 413),
    ],
)
async def test_a_body_that_makes_no_sense_is_refused_and_the_server_lives(
    talk: ApiClient, body: bytes, content_type: str, expected: int
) -> None:
    reply = await talk.say("POST", CM, body, content_type)

    assert reply.status == expected
    assert reply.body["kind"] == "Status"
    assert (await talk.say("GET", CM)).status == 200


async def test_yaml_is_read_as_well_as_json(talk: ApiClient) -> None:
    body = b"metadata: {name: a}\ndata: {day: 2026-01-01}\n"
    reply = await talk.say("POST", CM, body, "application/yaml")

    assert reply.body["data"] == {"day": "2026-01-01"}


async def test_a_kind_can_be_used_as_soon_as_its_definition_is_answered(talk: ApiClient) -> None:
    missing = await talk.say("GET", JOBS)
    await talk.say("POST", CRDS, tfjobs())
    job = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": "a"}}
    made = await talk.say("POST", JOBS, job)
    await talk.say("DELETE", f"{CRDS}/tfjobs.kubeflow.org")
    gone = await talk.say("GET", JOBS)

    assert (missing.status, made.status, gone.status) == (404, 201, 404)
    await talk.say("POST", CRDS, tfjobs())
    assert (await talk.say("GET", JOBS)).body["items"] == []


async def test_a_watch_from_before_a_compaction_is_told_so(talk: ApiClient) -> None:
    made = await talk.say("POST", CM, {"metadata": {"name": "a"}})
    for i in range(5):
        await talk.say("PATCH", f"{CM}/a", {"data": {"i": str(i)}}, MERGE)
    await talk.server.store.compact(talk.server.store.revision)
    version = made.body["metadata"]["resourceVersion"]

    event = (await talk.say("GET", f"{CM}?watch=1&resourceVersion={version}")).body

    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
    assert event["object"]["reason"] == "Expired"


async def test_a_watch_sees_a_write_before_the_next_request_is_answered(talk: ApiClient) -> None:
    url = f"{talk.server.url}{CM}?watch=1&resourceVersion={talk.server.store.revision}"
    async with asyncio.timeout(60), talk.session.get(url) as response:
        for i in range(3):
            await talk.say("POST", CM, {"metadata": {"name": f"c{i}"}})
            event = msgspec.json.decode(await response.content.readline())
            assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", f"c{i}")


async def test_a_watcher_that_vanishes_while_it_does_not_read_is_no_error(
    talk: ApiClient, caplog: pytest.LogCaptureFixture
) -> None:
    server = talk.server
    trust = ssl.create_default_context(cadata=server.ca.decode())
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", server.port, ssl=trust, server_hostname="127.0.0.1", limit=1024
    )
    asked = f"GET {CM}?watch=1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.token}\r\n\r\n"
    writer.write(asked.encode())
    await reader.readuntil(b"\r\n\r\n")
    (watch,) = server.store._watches["configmaps"]
    large = {"v": "x" * 1_000_000}
    for i in range(100):
        if len(watch._waiting) > 3:  # so it is not sent any more
            break
        await talk.say("POST", CM, {"metadata": {"name": f"c{i}"}, "data": large})
    else:
        pytest.fail("the watch took everything")
    reset = struct.pack("ii", 1, 0)
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)

    writer.transport.abort()

    await eventually(lambda: not server.store._watches["configmaps"], what="the watch's end")
    assert [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING] == []


async def test_stopping_ends_open_watches(tmp_path: Path) -> None:
    async with running_server(tmp_path) as talk:
        response = await talk.session.get(f"{talk.server.url}{CM}?watch=1")
        await talk.server.stop()
        assert await response.content.read() == b""
        await talk.server.start()


async def test_pages_of_a_list_show_one_moment(talk: ApiClient) -> None:
    for name in "abcdef":
        await talk.say("POST", CM, {"metadata": {"name": name}})
    names, token = [], ""
    while True:
        page = (await talk.say("GET", f"{CM}?limit=2&continue={token}")).body
        names += [item["metadata"]["name"] for item in page["items"]]
        await talk.say("DELETE", f"{CM}/e")
        await talk.say("POST", CM, {"metadata": {"name": f"z{len(names)}"}})
        token = page["metadata"].get("continue", "")
        if not token:
            break

    assert names == list("abcdef")


async def test_writers_at_once_lose_nothing(talk: ApiClient) -> None:
    await talk.say("POST", CM, {"metadata": {"name": "a"}})
    replies = await asyncio.gather(
        *(talk.say("PATCH", f"{CM}/a", {"data": {f"k{i}": "v"}}, MERGE) for i in range(5))
    )

    assert {r.status for r in replies} == {200}
    assert len((await talk.say("GET", f"{CM}/a")).body["data"]) == 5


async def test_unknown_fields_are_warned_about(talk: ApiClient) -> None:
    reply = await talk.say("POST", CM, {"metadata": {"name": "a"}, "nonsense": 1})

    assert reply.headers.getall("Warning") == ['299 - "unknown field \\"nonsense\\""']


async def test_a_namespace_stays_until_it_is_finalized(talk: ApiClient) -> None:
    await talk.say("POST", "/api/v1/namespaces", {"metadata": {"name": "x"}})
    marked = await talk.say("DELETE", "/api/v1/namespaces/x")
    refused = await talk.say("POST", "/api/v1/namespaces/x/configmaps", {"metadata": {"name": "a"}})
    body = {"metadata": {"name": "x"}, "spec": {"finalizers": []}}
    await talk.say("PUT", "/api/v1/namespaces/x/finalize", body)
    gone = await talk.say("GET", "/api/v1/namespaces/x")

    assert marked.body["status"]["phase"] == "Terminating"
    assert (refused.status, gone.status) == (403, 404)


async def test_an_eviction_that_would_break_a_budget_is_refused(talk: ApiClient) -> None:
    ready = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    for name in "ab":
        await talk.create_pod(name)
        await talk.say("PATCH", f"{PODS}/{name}", {"metadata": {"labels": {"x": "y"}}}, MERGE)
        await talk.say("PATCH", f"{PODS}/{name}/status", ready, MERGE)
    budget = {
        "metadata": {"name": "b"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"x": "y"}}},
    }
    await talk.say("POST", "/apis/policy/v1/namespaces/default/poddisruptionbudgets", budget)
    eviction: Any = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}}

    first = await talk.say("POST", f"{PODS}/a/eviction", eviction)
    eviction["metadata"] = {"name": "b"}
    second = await talk.say("POST", f"{PODS}/b/eviction", eviction)

    assert (first.status, second.status) == (201, 429)
    assert second.headers["Retry-After"]
    assert second.body["details"]["causes"][0]["reason"] == "DisruptionBudget"


async def test_a_deployment_is_scaled_through_its_scale(talk: ApiClient) -> None:
    path = "/apis/apps/v1/namespaces/default/deployments"
    template = {
        "metadata": {"labels": {"x": "y"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    spec = {"selector": {"matchLabels": {"x": "y"}}, "template": template}
    await talk.say("POST", path, {"metadata": {"name": "d"}, "spec": spec})

    scaled = await talk.say("PATCH", f"{path}/d/scale", {"spec": {"replicas": 3}}, MERGE)
    read = await talk.say("GET", f"{path}/d/scale")
    wrong = await talk.say("PATCH", f"{path}/d/scale", {"spec": {"replicas": -1}}, MERGE)

    assert (scaled.status, read.body["spec"]["replicas"]) == (200, 3)
    assert read.body["status"]["selector"] == "x=y"
    assert wrong.status == 422
    assert (await talk.say("GET", f"{path}/d")).body["spec"]["replicas"] == 3


async def test_a_body_that_is_not_what_its_encoding_says_is_refused(talk: ApiClient) -> None:
    reply = await talk.say("POST", CM, {"metadata": {"name": "a"}}, **{"Content-Encoding": "gzip"})

    assert (reply.status, reply.body["reason"]) == (400, "BadRequest")


async def test_a_long_selector_is_read(talk: ApiClient) -> None:
    names = ",".join(f"name-{i}" for i in range(10_000))

    reply = await talk.say("GET", f"{CM}?labelSelector=a+in+({names})")

    assert (reply.status, reply.body["items"]) == (200, [])


async def test_a_pattern_that_takes_for_ever_elsewhere_takes_no_time(talk: ApiClient) -> None:
    text = {"type": "string", "pattern": "^(a+)+$"}
    spec = {"type": "object", "properties": {"text": text}}
    await talk.say(
        "POST",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        {
            "metadata": {"name": "things.x.io"},
            "spec": {
                "group": "x.io",
                "scope": "Namespaced",
                "names": {"plural": "things", "kind": "Thing"},
                "versions": [
                    {
                        "name": "v1",
                        "served": True,
                        "storage": True,
                        "schema": {
                            "openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}
                        },
                    }
                ],
            },
        },
    )
    thing = {"apiVersion": "x.io/v1", "kind": "Thing", "metadata": {"name": "a"}}

    async with asyncio.timeout(60):
        reply = await talk.say(
            "POST",
            "/apis/x.io/v1/namespaces/default/things",
            {**thing, "spec": {"text": "a" * 10_000 + "!"}},
        )

    assert reply.status == 422
    assert reply.body["details"]["causes"][0]["field"] == "spec.text"


async def test_logs_since_before_the_world_began_are_all_of_them(talk: ApiClient) -> None:
    await talk.create_pod("a", nodeName="n")

    reply = await talk.say("GET", f"{PODS}/a/log?sinceSeconds=99999999999")

    assert reply.status != 500
