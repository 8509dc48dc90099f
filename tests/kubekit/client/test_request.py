"""Requests as values."""

from __future__ import annotations

import json

import pytest

from kubekit.client import request
from kubekit.client.request import LogOptions, PatchType, Request
from kubekit.errors import UsageError
from kubekit.objects.kinds import CONFIG_MAPS, NODES, POD_DISRUPTION_BUDGETS, PODS
from kubekit.objects.meta import Key
from muster.contract.job_kinds import TFJOBS

X = Key("ns", "x")


def body(call: Request) -> object:
    assert call.body is not None
    return json.loads(call.body)


@pytest.mark.parametrize(
    ("call", "method", "target"),
    [
        (request.get(PODS, X), "GET", "/api/v1/namespaces/ns/pods/x"),
        (request.get(NODES, Key("", "n")), "GET", "/api/v1/nodes/n"),
        (request.get(TFJOBS, X), "GET", "/apis/kubeflow.org/v1/namespaces/ns/tfjobs/x"),
        (request.list_page(PODS, "", limit=0, continue_token=""), "GET", "/api/v1/pods"),
        (
            request.list_page(PODS, "ns", labels="a in (b,c)", limit=5, continue_token="t=="),
            "GET",
            "/api/v1/namespaces/ns/pods?labelSelector=a%20in%20%28b%2Cc%29&limit=5&continue=t%3D%3D",
        ),
        (
            request.watch(PODS, "", since="7", fields="spec.nodeName=", seconds=9),
            "GET",
            "/api/v1/pods?watch=true&allowWatchBookmarks=true&resourceVersion=7"
            "&fieldSelector=spec.nodeName%3D&timeoutSeconds=9",
        ),
        (
            request.logs(
                X, LogOptions(container="c", follow=True, tail=0, since=0.2, timestamps=True)
            ),
            "GET",
            "/api/v1/namespaces/ns/pods/x/log"
            "?container=c&follow=true&tailLines=0&sinceSeconds=1&timestamps=true",
        ),
        (
            request.delete_collection(POD_DISRUPTION_BUDGETS, "ns", labels="a=b"),
            "DELETE",
            "/apis/policy/v1/namespaces/ns/poddisruptionbudgets?labelSelector=a%3Db",
        ),
    ],
)
def test_a_request_has_the_path_of_its_object(call: Request, method: str, target: str) -> None:
    assert (call.method, call.target) == (method, target)


@pytest.mark.parametrize("name", ["a/b", "a?b", "a b", "ä", "a%2fb", "#"])
def test_a_strange_name_cannot_reach_another_object(name: str) -> None:
    path = request.get(PODS, Key("ns", name)).path
    assert path.startswith("/api/v1/namespaces/ns/pods/")
    assert not set("/?# ä") & set(path.removeprefix("/api/v1/namespaces/ns/pods/"))


@pytest.mark.parametrize("name", ["a\n", "\n", "a\tb", "a\x00", "\x1b[31m"])
def test_a_name_with_control_characters_is_called_invalid(name: str) -> None:
    with pytest.raises(UsageError, match="is not a name") as caught:
        request.get(PODS, Key("ns", name))

    assert "lower-case letters" in caught.value.hint


@pytest.mark.parametrize("key", [Key("ns", ""), Key("", "x"), Key("ns", ".."), Key("..", "x")])
def test_an_incomplete_key_is_rejected(key: Key) -> None:
    with pytest.raises(UsageError):
        request.get(PODS, key)
    with pytest.raises(UsageError):
        request.delete(PODS, key)
    with pytest.raises(UsageError):
        request.bind(key, uid="u", node="n", annotations={})
    with pytest.raises(UsageError):
        request.logs(key, LogOptions())
    with pytest.raises(UsageError):
        request.websocket_upgrade(key, "exec", ())
    with pytest.raises(UsageError):
        request.create(PODS, {}, namespace=key.namespace, name=key.name, subresource="binding")


def test_a_created_object_gets_its_kind_and_goes_to_its_namespace() -> None:
    call = request.create(CONFIG_MAPS, {"metadata": {"name": "m", "namespace": "ns"}})
    assert call.path == "/api/v1/namespaces/ns/configmaps"
    assert body(call) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "m", "namespace": "ns"},
    }
    elsewhere = request.create(CONFIG_MAPS, {"metadata": {"name": "m"}}, namespace="other")
    assert elsewhere.path == "/api/v1/namespaces/other/configmaps"
    with pytest.raises(UsageError, match="configmaps m: a namespace is needed"):
        request.create(CONFIG_MAPS, {"metadata": {"name": "m"}})


@pytest.mark.parametrize("patch_type", list(PatchType))
def test_a_patch_has_its_media_type(patch_type: PatchType) -> None:
    call = request.patch(PODS, X, {"a": 1}, patch_type=patch_type, subresource="status")
    assert (call.method, call.content_type) == ("PATCH", patch_type.value)
    assert call.path.endswith("/pods/x/status")


def test_apply_names_the_field_manager_and_forces_only_on_request() -> None:
    obj = {"metadata": {"name": "x", "namespace": "ns"}}
    assert request.apply(PODS, obj, owner="me").query == (("fieldManager", "me"),)
    forced = request.apply(PODS, obj, owner="me", force=True)
    assert forced.query == (("fieldManager", "me"), ("force", "true"))


def test_a_delete_has_a_body_only_with_options() -> None:
    assert request.delete(PODS, X).body is None
    assert body(request.delete(PODS, X, uid="u", grace=0, propagation="Orphan")) == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": "u"},
        "gracePeriodSeconds": 0,
        "propagationPolicy": "Orphan",
    }


def test_a_binding_carries_the_uid_and_the_annotations() -> None:
    call = request.bind(X, uid="u", node="n", annotations={"a": "b"})
    assert call.path == "/api/v1/namespaces/ns/pods/x/binding"
    assert body(call) == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "x", "uid": "u", "annotations": {"a": "b"}},
        "target": {"kind": "Node", "name": "n"},
    }
