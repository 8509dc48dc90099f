"""Rules that a real server carries out and this one does not: stored, with one warning."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from localkube.apiserver.kinds.custom_resources import KnownKinds
from localkube.apiserver.kinds.definitions import CONVERSION_WARNING, RULES_WARNING
from muster.contract import crds
from tests.localkube.apiserver.running_server import MERGE, running_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.localkube.apiserver.running_server import ApiClient, Reply

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
CORE = "/api/v1/namespaces/default"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
FORMER_DATA = Path(__file__).parent.parent / "data_with_rules.tar.gz"
"""The data folder of a version that evaluated rules: a policy, webhooks that answer nobody, and
definitions with a rule and with a conversion webhook."""

ANY_CONFIG_MAP = {
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "operations": ["CREATE", "UPDATE", "DELETE"],
    "resources": ["configmaps"],
}
HOOK = {
    "name": "a.x.io",
    "clientConfig": {"url": "https://127.0.0.1:9/"},
    "rules": [ANY_CONFIG_MAP],
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
}
POLICY = {
    "matchConstraints": {"resourceRules": [ANY_CONFIG_MAP]},
    "validations": [{"expression": "false"}],
}
BINDING = {"policyName": "none", "validationActions": ["Deny"]}
OBJECTS: dict[str, dict[str, Any]] = {
    "ValidatingAdmissionPolicy": {"spec": POLICY},
    "ValidatingAdmissionPolicyBinding": {"spec": BINDING},
    "MutatingWebhookConfiguration": {"webhooks": [HOOK]},
    "ValidatingWebhookConfiguration": {"webhooks": [HOOK]},
}
PLURALS = {"ValidatingAdmissionPolicy": "validatingadmissionpolicies"}
CONVERSION = {
    "strategy": "Webhook",
    "webhook": {"clientConfig": HOOK["clientConfig"], "conversionReviewVersions": ["v1"]},
}


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[ApiClient]:
    known = KnownKinds(immutable_fields=crds.immutable_fields())
    async with running_server(tmp_path / "server", known=known) as client:
        yield client


def warnings(reply: Reply) -> list[str]:
    assert reply.status in (200, 201), reply.body
    return [text.partition('"')[2].rstrip('"') for text in reply.headers.getall("Warning", [])]


def version(name: str, *fields: str, storage: bool = True, rules: Any = ()) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "type": "object",
        "properties": {field: {"type": "string"} for field in fields},
    }
    if rules:
        spec["x-kubernetes-validations"] = [{"rule": rule} for rule in rules]
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    return {"name": name, "served": True, "storage": storage, "schema": schema}


def definition(*versions: dict[str, Any], **spec: Any) -> dict[str, Any]:
    names = {"plural": "things", "kind": "Thing"}
    body = {"group": "x.io", "scope": "Cluster", "names": names, "versions": list(versions)}
    return {"metadata": {"name": "things.x.io"}, "spec": {**body, **spec}}


def thing(called: str, **spec: str) -> dict[str, Any]:
    head = {"apiVersion": f"x.io/{called}", "kind": "Thing", "metadata": {"name": "t"}}
    return {**head, "spec": spec}


NETWORKING = "/apis/networking.k8s.io/v1"
IN_NAMESPACE = f"{NETWORKING}/namespaces/default"
KINDS: dict[str, dict[str, Any]] = {
    f"{IN_NAMESPACE}/ingresses": {"spec": {"rules": [{"host": "not a host"}]}},
    f"{NETWORKING}/ingressclasses": {"spec": {"controller": "nobody"}},
    f"{IN_NAMESPACE}/networkpolicies": {"spec": {"podSelector": {}}},
    "/apis/node.k8s.io/v1/runtimeclasses": {"handler": "runc"},
}


@pytest.mark.parametrize("path", KINDS)
async def test_a_kind_that_nothing_enforces_is_stored_with_a_warning(
    path: str, api: ApiClient
) -> None:
    created = await api.send("POST", path, {"metadata": {"name": "a"}, **KINDS[path]})

    (warning,) = warnings(created)
    assert warning.startswith("the local cluster stores ")
    assert {name: created.body[name] for name in KINDS[path]} == KINDS[path]


@pytest.mark.parametrize("kind", OBJECTS)
async def test_a_rule_for_requests_is_stored_with_one_warning(kind: str, api: ApiClient) -> None:
    path = f"{ADMISSION}/{PLURALS.get(kind, f'{kind.lower()}s')}"
    warning = f"the local cluster stores {kind} objects, but they have no effect here"

    created = await api.send("POST", path, {"metadata": {"name": "a"}, **OBJECTS[kind]})
    changed = await api.send("PATCH", f"{path}/a", {"metadata": {"labels": {"a": "b"}}}, MERGE)

    assert warnings(created) == warnings(changed) == [warning]
    shown = (await api.send("GET", f"{path}/a")).body
    assert {name: shown[name] for name in OBJECTS[kind]} == OBJECTS[kind]
    config_map = await api.send("POST", f"{CORE}/configmaps", {"metadata": {"name": "a"}})
    assert warnings(config_map) == []


async def test_rules_of_a_definition_are_stored_with_one_warning(api: ApiClient) -> None:
    rules = ["self.a != 'bad'", "this does not compile"]
    ruled = definition(
        version("v1", "a", rules=rules), version("v2", "a", rules=rules, storage=False)
    )

    created = await api.send("POST", CRDS, ruled)
    changed = await api.send(
        "PATCH", f"{CRDS}/things.x.io", {"metadata": {"labels": {"a": "b"}}}, MERGE
    )

    assert warnings(created) == warnings(changed) == [RULES_WARNING]
    part = created.body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert [row["rule"] for row in part["x-kubernetes-validations"]] == rules
    assert warnings(await api.send("POST", "/apis/x.io/v1/things", thing("v1", a="bad"))) == []


async def test_a_field_named_like_the_rules_is_not_a_rule(api: ApiClient) -> None:
    assert warnings(await api.send("POST", CRDS, definition(version("v1", "a")))) == []
    named = version("v1", "a", "x-kubernetes-validations")
    spec = {"spec": {"versions": [named]}}

    assert warnings(await api.send("PATCH", f"{CRDS}/things.x.io", spec, MERGE)) == []


async def test_with_a_conversion_webhook_versions_show_the_stored_fields(api: ApiClient) -> None:
    versions = version("v1", "new", "both"), version("v1beta1", "old", "both", storage=False)
    created = await api.send("POST", CRDS, definition(*versions, conversion=CONVERSION))
    assert warnings(created) == [CONVERSION_WARNING]

    await api.send("POST", "/apis/x.io/v1/things", thing("v1", new="n", both="b"))
    old = await api.send("GET", "/apis/x.io/v1beta1/things/t")

    assert (old.body["apiVersion"], old.body["spec"]) == ("x.io/v1beta1", {"both": "b"})
    assert created.body["spec"]["conversion"] == CONVERSION


async def test_definitions_whose_rules_the_caller_gives_do_not_warn(api: ApiClient) -> None:
    for crd in crds.load_all():
        assert warnings(await api.send("POST", CRDS, crd)) == []


@pytest.fixture
def former_data(tmp_path: Path) -> Path:
    subprocess.run(["tar", "-xf", FORMER_DATA, "-C", tmp_path], check=True)
    return tmp_path


async def test_data_of_a_version_that_evaluated_rules_still_opens(former_data: Path) -> None:
    async with running_server(former_data) as api:
        assert (await api.send("GET", f"{CORE}/configmaps/old")).body["data"] == {"a": "1"}
        # The policy denies this, and both webhooks answer nobody.
        body = {"metadata": {"name": "new"}}
        assert (await api.send("POST", f"{CORE}/configmaps", body)).status == 201
        for plural in (
            f"{ADMISSION}/validatingadmissionpolicies",
            f"{ADMISSION}/validatingadmissionpolicybindings",
            f"{ADMISSION}/mutatingwebhookconfigurations",
            f"{ADMISSION}/validatingwebhookconfigurations",
            "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies",
            "/apis/networking.k8s.io/v1/namespaces/default/ingresses",
            "/apis/networking.k8s.io/v1/ingressclasses",
            "/apis/node.k8s.io/v1/runtimeclasses",
        ):
            label = {"metadata": {"labels": {"a": "b"}}}
            changed = await api.send("PATCH", f"{plural}/old", label, MERGE)
            assert changed.body["metadata"]["labels"] == {"a": "b"}, changed.body
            assert (await api.send("DELETE", f"{plural}/old")).status == 200
        broken = await api.send("PATCH", "/apis/x.io/v1/ruled/r", {"spec": {"a": "bad"}}, MERGE)
        assert broken.body["spec"] == {"a": "bad"}
        old = await api.send(
            "PATCH", "/apis/x.io/v1beta1/converted/c", {"spec": {"both": "c"}}, MERGE
        )
        assert old.body["spec"] == {"both": "c"}
