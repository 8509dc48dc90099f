"""Configurations of admission webhooks: defaults, checks, updates. Nothing is called."""

from __future__ import annotations

from typing import Any

from tests.localkube.conformance.cases.steps import delete, get, patch, post, put
from tests.localkube.conformance.cases.tables import TABLE
from tests.localkube.conformance.transcript import Case

MUTATING = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
VALIDATING = MUTATING.replace("mutating", "validating")
RULE = {
    "operations": ["CREATE"],
    "apiGroups": ["none.example.com"],
    "apiVersions": ["v1"],
    "resources": ["nones"],
}


def hook(name: str = "a.b.example.com", **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "clientConfig": {"url": "https://127.0.0.1:1/x"},
        "rules": [RULE],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **more,
    }


def configuration(*webhooks: dict[str, Any], **meta: Any) -> dict[str, Any]:
    return {"metadata": {"name": "$ns", **meta}, "webhooks": list(webhooks)}


def service(**more: Any) -> dict[str, Any]:
    return {"clientConfig": {"service": {"name": "s", "namespace": "n", **more}}}


def ruled(**more: Any) -> dict[str, Any]:
    return hook(rules=[{**RULE, **more}])


def selecting(**row: Any) -> dict[str, Any]:
    return hook(objectSelector={"matchExpressions": [row]})


INVALID = {
    "no name": {k: v for k, v in hook().items() if k != "name"},
    "a short name": hook("a.b"),
    "a wrong name": hook("A.b.c"),
    "no side effects": {k: v for k, v in hook().items() if k != "sideEffects"},
    "side effects": hook(sideEffects="Some"),
    "no review versions": hook(admissionReviewVersions=[]),
    "unknown review versions": hook(admissionReviewVersions=["v2", "v2", "V3"]),
    "timeout": hook(timeoutSeconds=31),
    "failure policy": hook(failurePolicy="Never"),
    "match policy": hook(matchPolicy="Some"),
    "no address": hook(clientConfig={}),
    "two addresses": hook(clientConfig={"url": "https://a", **service()["clientConfig"]}),
    "http": hook(clientConfig={"url": "http://a"}),
    "a strange url": hook(clientConfig={"url": "https://u:p@/x?a=b#c"}),
    "a service without names": hook(clientConfig={"service": {"port": 0, "path": "x//Y"}}),
    "no operations": ruled(operations=[]),
    "operations": ruled(operations=["*", "READ"]),
    "groups and versions": ruled(apiGroups=["*", "a"], apiVersions=["", "*"]),
    "resources": ruled(resources=["*", "a", "a/*", "a/b", "*/b", "c/b", ""]),
    "all resources": ruled(resources=["*/*", "a"]),
    "no resources": ruled(resources=[]),
    "scope": ruled(scope="Some"),
    "selector labels": hook(namespaceSelector={"matchLabels": {"-": "-"}}),
    "selector without values": selecting(key="a", operator="In"),
    "selector with values": selecting(key="a", operator="Exists", values=["b"]),
    "selector operator": selecting(key="", operator="Is", values=["-"]),
}


def conditions(*expressions: str, name: str = "named") -> dict[str, Any]:
    rows = [{"name": f"{name}-{i}", "expression": text} for i, text in enumerate(expressions)]
    return hook(matchConditions=rows)


UNMATCHED = {
    "not a bool": conditions("'text'", "1"),
    "unknown names": conditions("nothing == 1", "params.x", "variables.x"),
    "unknown fields": conditions("request.nothing == ''", "true"),
    "a syntax error": conditions("object.", " "),
    "no names": hook(matchConditions=[{"expression": "true"}, {"name": "a b"}]),
    "the same name": hook(matchConditions=[{"name": "a", "expression": "true"}] * 2),
    "too many": conditions(*["true"] * 65),
}
CASES = [
    Case("a webhook with invalid conditions", [
        post(path, configuration(webhook))
        for webhook in UNMATCHED.values() for path in (VALIDATING, MUTATING)
    ], ("wording",)),
    Case("a webhook with conditions", [
        post(VALIDATING, configuration(conditions(
            "object.metadata.name == 'a'", "oldObject == null", "request.operation == 'CREATE'",
            " authorizer.group('').resource('pods').check('get').allowed() ",
            "authorizer.requestResource.check('get').allowed()", "namespaceObject == null",
        ))),
        patch(f"{VALIDATING}/$ns", {"webhooks": [conditions("true")]}),
        patch(f"{VALIDATING}/$ns", {"webhooks": [conditions("request")]}),
        delete(f"{VALIDATING}/$ns"),
    ], ("wording",)),
    Case("an invalid webhook", [
        post(path, configuration(webhook))
        for webhook in INVALID.values() for path in (VALIDATING, MUTATING)
    ]),
    Case("webhook configurations", [
        post(MUTATING, configuration(hook(), hook("c.b.example.com", **service(path="/a/b")))),
        post(VALIDATING, configuration(hook(reinvocationPolicy="IfNeeded"))),
        post(VALIDATING, configuration(hook(), hook())),
        post(MUTATING, {**configuration(hook()), "metadata": {"name": "$ns-b"}}),
        post(MUTATING, {**configuration(hook(reinvocationPolicy="Always"))}),
        put(f"{MUTATING}/$ns-b", {**configuration(), "metadata": {"name": "$ns-b"}}),
        put(f"{MUTATING}/$ns-b", {
            **configuration(), "metadata": {"name": "$ns-b", "resourceVersion": "$rv.3"},
        }),
        patch(f"{MUTATING}/$ns", {"metadata": {"labels": {"a": "b"}}}),
        patch(f"{MUTATING}/$ns", {"webhooks": [hook(timeoutSeconds=5)]}),
        get(f"{MUTATING}/$ns", accept=TABLE),
        get(f"{VALIDATING}?fieldSelector=metadata.name=$ns"),
        delete(f"{MUTATING}/$ns"), delete(f"{MUTATING}/$ns-b"), delete(f"{VALIDATING}/$ns"),
    ], ("column-descriptions",)),
]  # fmt: skip
