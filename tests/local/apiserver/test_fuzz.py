"""Thousands of random requests: none makes the server fail, and no acknowledged write is lost."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest

from muster.api import crds
from tests.local.apiserver.running import running

if TYPE_CHECKING:
    from pathlib import Path

    from tests.local.apiserver.running import Talk

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
    """Any JSON, made of words that mean something to the server."""
    kind = dice.randrange(9 if depth < 5 else 6)
    if kind < 6:
        return (None, True, -1, 2**70, 1.5, dice.choice((*NAMES, *WORDS)))[kind]
    if kind == 6:
        return [junk(dice, depth + 1) for _ in range(dice.randrange(4))]
    return {dice.choice(WORDS): junk(dice, depth + 1) for _ in range(dice.randrange(6))}


def manifest(dice: random.Random, path: str, name: str) -> Any:
    """Something the server may well accept, with a little junk in it."""
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
    if dice.random() < 0.4:
        part = dice.choice((body, body["metadata"], body["spec"], container))
        part[dice.choice(WORDS)] = junk(dice)
    return body


def request(dice: random.Random) -> tuple[str, str, bytes | None, str]:
    """One random request, more often than not a sensible one."""
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
    """One step of a JSON patch, to a place that is often there."""
    parts = [dice.choice((*WORDS, "0", "-")) for _ in range(dice.randrange(4))]
    ops = ("add", "remove", "replace", "test", "copy", "move")
    path = "/".join(["", *parts])
    return {"op": dice.choice(ops), "path": path, "from": "/metadata/labels", "value": junk(dice)}


async def batter(talk: Talk, dice: random.Random, count: int) -> None:
    for _ in range(count):
        method, path, body, kind = request(dice)
        reply = await talk.say(method, path, body, kind)
        assert reply.status < 500 or reply.status == 504, (method, path, body, kind, reply.body)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
async def test_random_requests_never_make_the_server_fail(tmp_path: Path, seed: int) -> None:
    async with running(tmp_path) as talk:
        for crd in crds.load_all():
            await talk.say("POST", COLLECTIONS[-1], crd)
        await batter(talk, random.Random(seed), 2500)


@pytest.mark.long
async def test_a_hundred_thousand_random_requests(tmp_path: Path) -> None:
    async with running(tmp_path) as talk:
        for crd in crds.load_all():
            await talk.say("POST", COLLECTIONS[-1], crd)
        await batter(talk, random.Random(99), 100_000)


@pytest.mark.slow
async def test_what_was_acknowledged_is_what_is_there(tmp_path: Path) -> None:
    dice, model = random.Random(7), dict[str, dict[str, str]]()
    path = "/api/v1/namespaces/default/configmaps"
    async with running(tmp_path) as talk:
        for i in range(1500):
            name = dice.choice("abcdefgh")
            data = {dice.choice("xyz"): str(i)}
            match dice.randrange(4):
                case 0:
                    body = {"metadata": {"name": name}, "data": data}
                    if (await talk.say("POST", path, body)).status == 201:
                        model[name] = data
                case 1:
                    body = {"metadata": {"name": name}, "data": data}
                    if (await talk.say("PUT", f"{path}/{name}", body)).status == 200:
                        model[name] = data
                case 2:
                    kind = "application/merge-patch+json"
                    reply = await talk.say("PATCH", f"{path}/{name}", {"data": data}, kind)
                    if reply.status == 200:
                        model[name] = model[name] | data
                case _:
                    if (await talk.say("DELETE", f"{path}/{name}")).status == 200:
                        del model[name]
    async with running(tmp_path) as talk:
        items = (await talk.say("GET", path)).body["items"]
        assert {i["metadata"]["name"]: i["data"] for i in items} == model
