"""Thousands of random requests: none makes the server fail, and no acknowledged write is lost."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from muster.contract import crds
from tests.localkube.apiserver.running_server import running_server

if TYPE_CHECKING:
    from pathlib import Path

    from tests.localkube.apiserver.running_server import ApiClient, Reply

BATCH = 250
"""Requests between two restarts."""
COLLECTIONS = (
    "/api/v1/namespaces/default/configmaps",
    "/api/v1/namespaces/default/pods",
    "/api/v1/namespaces/default/services",
    "/apis/apps/v1/namespaces/default/deployments",
    "/apis/batch/v1/namespaces/default/jobs",
    "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
    "/apis/kubeflow.org/v1/namespaces/default/tfjobs",
    "/apis/kubeflow.org/v1alpha1/namespaces/default/tfjobs",
    "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups",
    "/api/v1/nodes",
    "/api/v1/namespaces",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
)
NAMES = ("a", "b", "default", "A", "-", "a" * 300, "%00", "a%2Fb", "é", "..", "x:80")
SUBRESOURCES = ("", "", "", "/status", "/scale", "/binding", "/eviction", "/log", "/exec", "/none")
TYPES = (
    "application/json",
    "application/yaml",
    "application/merge-patch+json",
    "application/json-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
    "application/vnd.kubernetes.protobuf",
    "",
)
QUERIES = (
    "", "", "", "?limit=2", "?limit=x", "?limit=-1", "?continue=e30", "?continue=%00",
    "?labelSelector=a%3Db", "?labelSelector=,,", "?fieldSelector=metadata.name%3Da",
    "?fieldSelector=x", "?resourceVersion=1", "?resourceVersion=x", "?watch=1&timeoutSeconds=x",
    "?dryRun=All", "?fieldValidation=Strict", "?fieldManager=me", "?gracePeriodSeconds=0",
    "?propagationPolicy=Foreground", "?propagationPolicy=x", "?resourceVersionMatch=Exact",
    "?watch=1&resourceVersion=999999&timeoutSeconds=x",
)  # fmt: skip
WORDS = (
    "metadata", "name", "spec", "status", "labels", "annotations", "containers", "template",
    "finalizers", "ownerReferences", "selector", "matchLabels", "replicas", "op", "path", "value",
    "kind", "apiVersion", "data", "resources", "limits", "versions", "names", "$patch", "ports",
    "generateName", "resourceVersion", "uid", "target", "$setElementOrder/containers", "env",
    "priorityClassName", "tolerations", "volumes", "minAvailable", "conditions", "restartPolicy",
)  # fmt: skip


def junk(dice: random.Random, depth: int = 0) -> Any:
    """Random JSON, made of words that the server knows."""
    kind = dice.randrange(9 if depth < 5 else 6)
    if kind < 6:
        return (None, True, -1, 2**70, 1.5, dice.choice((*NAMES, *WORDS)))[kind]
    if kind == 6:
        return [junk(dice, depth + 1) for _ in range(dice.randrange(4))]
    return {dice.choice(WORDS): junk(dice, depth + 1) for _ in range(dice.randrange(6))}


def manifest(dice: random.Random, path: str, name: str, dirt: float = 0.4) -> Any:
    """A manifest that the server mostly accepts, often with some random JSON in it."""
    container = {"name": "c", "image": "i"}
    body: Any = {
        "metadata": {"name": name or dice.choice("abcdef")},
        "spec": {
            "containers": [container],
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}},
        },
    }
    if "kubeflow" in path:
        body |= {"kind": "TFJob", "apiVersion": path.split("/")[2] + "/" + path.split("/")[3]}
    if "volcano" in path:
        body |= {"kind": "PodGroup", "apiVersion": "scheduling.volcano.sh/v1beta1"}
    if "services" in path:
        body["spec"] = {"clusterIP": "None", "ports": [{"port": 80}]}
    if dice.random() < dirt:
        part = dice.choice((body, body["metadata"], body["spec"], container))
        part[dice.choice(WORDS)] = junk(dice)
    return body


def well_formed_request(dice: random.Random) -> tuple[str, str, bytes | None, str]:
    """A well-formed request, which fails only if its object exists or does not exist."""
    path, name = dice.choice(COLLECTIONS[:-1]), dice.choice("abcdef")
    match dice.randrange(5):
        case 0:
            return "DELETE", f"{path}/{name}?gracePeriodSeconds=0", None, TYPES[0]
        case 1:
            change = {"metadata": {"labels": {"x": str(dice.randrange(99))}}}
            return "PATCH", f"{path}/{name}", json.dumps(change).encode(), TYPES[2]
        case 2:
            body = manifest(dice, path, name, 0)
            body["metadata"]["annotations"] = {"x": str(dice.randrange(99))}
            return "PUT", f"{path}/{name}", json.dumps(body).encode(), TYPES[0]
        case _:
            return "POST", path, json.dumps(manifest(dice, path, name, 0)).encode(), TYPES[0]


def request(dice: random.Random) -> tuple[str, str, bytes | None, str]:
    """A random request: method, path, body and content type."""
    if dice.random() < 0.4:
        return well_formed_request(dice)
    path, name = dice.choice(COLLECTIONS), ""
    method = dice.choice(("GET", "POST", "POST", "PUT", "PATCH", "PATCH", "PATCH", "DELETE"))
    if method != "POST" or dice.random() < 0.2:
        name = dice.choice("abcdef" if dice.random() < 0.9 else NAMES)
    body: bytes | None = None
    kind = dice.choice(TYPES[2:6]) if method == "PATCH" else TYPES[0]
    if method != "GET":
        value = manifest(dice, path, name) if dice.random() < 0.8 else junk(dice)
        if method == "PATCH" and dice.random() < 0.5:
            value = {dice.choice(("metadata", "spec", "status")): junk(dice)}
        if kind == TYPES[3] and dice.random() < 0.9:
            value = [operation(dice) for _ in range(dice.randrange(1, 4))]
        body = json.dumps(value).encode()
        if dice.random() < 0.05:
            body = dice.randbytes(dice.randrange(40))
    if dice.random() < 0.1:
        kind = dice.choice(TYPES)
    place = f"{path}/{name}{dice.choice(SUBRESOURCES)}" if name else path
    return method, place + dice.choice(QUERIES), body, kind


def operation(dice: random.Random) -> Any:
    """One operation of a JSON patch, often at a path that exists."""
    parts = [dice.choice((*WORDS, "0", "-")) for _ in range(dice.randrange(4))]
    ops = ("add", "remove", "replace", "test", "copy", "move")
    path = "/".join(["", *parts])
    return {"op": dice.choice(ops), "path": path, "from": "/metadata/labels", "value": junk(dice)}


class Ledger:
    """The acknowledged writes: the last answer about every object, by its path.

    Nobody else writes, so the server must show exactly these objects, before and after a restart.
    """

    def __init__(self) -> None:
        self.known: dict[str, Any] = {}
        self.writes = 0
        self.answers: Counter[int] = Counter()

    async def record(self, api: ApiClient, method: str, path: str, reply: Reply) -> None:
        """Record the answer to a request that may have written."""
        self.answers[reply.status] += 1
        place, _, query = path.partition("?")
        if method == "GET" or reply.status >= 300 or "dryRun" in query:
            return
        self.writes += 1
        collection = next(c for c in COLLECTIONS if place == c or place.startswith(f"{c}/"))
        parts = place[len(collection) :].strip("/").split("/")
        name = parts[0] or reply.body["metadata"]["name"]
        whole = reply.body.get("kind") not in ("Status", "Scale") and method != "DELETE"
        whole = whole and "deletionTimestamp" not in reply.body["metadata"]
        if whole and parts[1:] in ([], ["status"]):
            self.known[f"{collection}/{name}"] = reply.body
        else:  # the answer does not show the object as it is now
            await self.refresh(api, f"{collection}/{name}")
        for other in self.other_versions(f"{collection}/{name}"):
            await self.refresh(api, other)

    async def refresh(self, api: ApiClient, path: str) -> None:
        reply = await api.send("GET", path)
        if reply.status == 404:
            self.known.pop(path, None)
        else:
            self.known[path] = reply.body

    def other_versions(self, path: str) -> list[str]:
        """The paths of the same object in other versions."""
        if "kubeflow.org" not in path:
            return []
        other = ("/v1alpha1/", "/v1/") if "/v1alpha1/" in path else ("/v1/", "/v1alpha1/")
        twin = path.replace(*other)
        return [twin] if path in self.known or twin in self.known else []

    async def audit(self, api: ApiClient) -> None:
        """Every object is as it was acknowledged, and no other object exists."""
        for path, body in self.known.items():
            reply = await api.send("GET", path)
            assert (reply.status, reply.body) == (200, body), path
        for collection in COLLECTIONS:
            items = (await api.send("GET", collection)).body["items"]
            stored = {f"{collection}/{item['metadata']['name']}" for item in items}
            known = {path for path in self.known if path.rpartition("/")[0] == collection}
            assert stored - known <= self.initial, collection

    initial: frozenset[str] = frozenset()
    """The objects before the first request."""

    async def begin(self, api: ApiClient) -> None:
        paths = set()
        for collection in COLLECTIONS:
            items = (await api.send("GET", collection)).body["items"]
            paths |= {f"{collection}/{item['metadata']['name']}" for item in items}
        self.initial = frozenset(paths)


async def send_random_requests(folder: Path, dice: random.Random, count: int) -> Ledger:
    """Send random requests, and audit the server after each of many restarts."""
    ledger = Ledger()
    async with running_server(folder) as api:
        for crd in crds.load_all():
            await api.send("POST", COLLECTIONS[-1], crd)
        await ledger.begin(api)
    for _ in range(count // BATCH):
        async with running_server(folder) as api:
            await ledger.audit(api)
            for _ in range(BATCH):
                method, path, body, kind = request(dice)
                reply = await api.send(method, path, body, kind)
                exchange = (method, path, body, kind, reply.body)
                assert reply.status < 500 or reply.status == 504, exchange
                await ledger.record(api, method, path, reply)
    async with running_server(folder) as api:
        await ledger.audit(api)
    return ledger


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
async def test_random_requests_never_fail_the_server_nor_lose_a_write(
    tmp_path: Path, seed: int
) -> None:
    ledger = await send_random_requests(tmp_path, random.Random(seed), 2500)

    assert ledger.writes > 250


@pytest.mark.long
async def test_a_hundred_thousand_random_requests(tmp_path: Path) -> None:
    ledger = await send_random_requests(tmp_path, random.Random(99), 100_000)

    print(f"{ledger.writes} writes acknowledged, {len(ledger.known)} objects left, none lost")
    print("answers by status:", dict(sorted(ledger.answers.items())))
    assert ledger.writes > 10_000


@pytest.mark.slow
async def test_the_server_holds_exactly_the_acknowledged_writes(tmp_path: Path) -> None:
    dice, model = random.Random(7), dict[str, dict[str, str]]()
    path = "/api/v1/namespaces/default/configmaps"
    async with running_server(tmp_path) as api:
        for i in range(1500):
            name = dice.choice("abcdefgh")
            data = {dice.choice("xyz"): str(i)}
            match dice.randrange(4):
                case 0:
                    body = {"metadata": {"name": name}, "data": data}
                    if (await api.send("POST", path, body)).status == 201:
                        model[name] = data
                case 1:
                    body = {"metadata": {"name": name}, "data": data}
                    if (await api.send("PUT", f"{path}/{name}", body)).status == 200:
                        model[name] = data
                case 2:
                    kind = "application/merge-patch+json"
                    reply = await api.send("PATCH", f"{path}/{name}", {"data": data}, kind)
                    if reply.status == 200:
                        model[name] = model[name] | data
                case _:
                    if (await api.send("DELETE", f"{path}/{name}")).status == 200:
                        del model[name]
    async with running_server(tmp_path) as api:
        items = (await api.send("GET", path)).body["items"]
        assert {i["metadata"]["name"]: i["data"] for i in items} == model
