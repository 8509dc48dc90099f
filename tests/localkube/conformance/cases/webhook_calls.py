"""Requests that admission webhooks see, change and refuse; `$hooks` is the address of the hooks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.localkube.conformance.cases.crds import (
    CRDS,
    NAME,
    OLD,
    THINGS,
    definition,
    established,
    thing,
    version,
)
from tests.localkube.conformance.cases.steps import (
    CM,
    NS,
    PODS,
    cm,
    delete,
    get,
    patch,
    pod,
    post,
    put,
)
from tests.localkube.conformance.transcript import Case, Reply, Step

MUTATING = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
VALIDATING = MUTATING.replace("mutating", "validating")


def rule(*resources: str, operations: tuple[str, ...] = ("*",), **more: Any) -> dict[str, Any]:
    every = {"operations": list(operations), "apiGroups": ["*"], "apiVersions": ["*"]}
    return {**every, "resources": list(resources), **more}


def hook(behaviour: str, *rules: dict[str, Any], name: str = "a", **more: Any) -> dict[str, Any]:
    return {
        "name": f"{name}.hooks.example.com",
        "clientConfig": {"url": f"$hooks/{behaviour}", "caBundle": "$ca"},
        "rules": list(rules) or [rule("configmaps")],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "$ns"}},
        **more,
    }


def configure(path: str, *webhooks: dict[str, Any]) -> Step:
    """A configuration; every server reads it a little later."""
    return post(path, {"metadata": {"name": "$ns"}, "webhooks": list(webhooks)})


def refused(reply: Reply) -> bool:
    return reply.status >= 400


def labelled(reply: Reply) -> bool:
    return "hooked" in (reply.body["metadata"].get("labels") or {})


def has_two_containers(reply: Reply) -> bool:
    return len(reply.body["spec"]["containers"]) == 2


DRY = f"{CM}?dryRun=All"


def effective(until: Callable[[Reply], bool] = refused) -> Step:
    """A dry run, repeated until the webhooks are called."""
    return post(DRY, cm("probe"), until=until)


def refusal(behaviour: str) -> Case:
    name = f"a webhook answers {behaviour}"
    return Case(name, [configure(VALIDATING, hook(behaviour)), effective()])


def broken(behaviour: str, *differs: str, path: str = MUTATING) -> Case:
    name = f"a webhook is broken: {behaviour}"
    return Case(name, [configure(path, hook(behaviour)), effective()], differs)


def when(*expressions: str, **more: Any) -> dict[str, Any]:
    rows = [{"name": f"c{i}", "expression": text} for i, text in enumerate(expressions)]
    return {"matchConditions": rows, **more}


def conditioned(name: str, path: str, *webhooks: dict[str, Any], steps: list[Step]) -> Case:
    """A dry run of `probe` is repeated until a webhook refuses it."""
    probe = hook("deny", name="y", **when("object != null && object.metadata.name == 'probe'"))
    return Case(
        f"match conditions: {name}", [configure(path, *webhooks, probe), effective(), *steps]
    )


CONNECTIONS = [
    rule("pods/exec", "pods/attach", operations=("CONNECT",)),
    rule("pods/portforward", "pods/proxy", operations=("*",)),
]
OF_THE_REQUEST = [
    "request.operation == 'CREATE' && request.namespace == '$ns' && request.name == 'a'",
    "request.kind.kind == 'ConfigMap' && request.resource.resource == 'configmaps'",
    "request.requestResource.version == 'v1' && request.dryRun == false",
    "request.options.kind == 'CreateOptions' && request.options.fieldManager == 'me'",
    "request.userInfo.username != '' && oldObject == null",
    "authorizer.group('').resource('secrets').namespace('$ns').check('get').allowed()",
    "authorizer.requestResource.check('create').allowed()",
    "authorizer.path('/healthz').check('get').allowed()",
]
PROBES = {"matchLabels": {"probe": "yes"}}
OLD_THINGS = {**rule("things"), "apiVersions": ["v1beta1"]}
RECORDED = hook("recorded", name="z")
CASES = [
    *(refusal(f"deny{kind}") for kind in ("", "-message", "-reason", "-success", "-details")),
    *(broken(kind) for kind in ("no-response", "bad-uid", "patch-without-type")),
    *(broken(kind) for kind in ("type-without-patch", "code-500", "code-404", "code-503")),
    broken("bad-kind", "wording"),
    broken("not-json", "wording"),
    broken("wrong-type", "wording"),
    broken("no-such-path", "wording"),
    Case(
        "a mutating webhook changes objects",
        [
            configure(MUTATING, hook("label"), hook("data", name="b")),
            effective(labelled),
            post(CM, cm(data={"b": "1"})),
            get(f"{CM}/a"),
            put(f"{CM}/a", cm(data={"b": "2"})),
            patch(f"{CM}/a", {"metadata": {"annotations": {"x": "y"}}}),
            post(CM, {"metadata": {"generateName": "some-"}}),
            delete(f"{CM}/a"),
        ],
    ),
    Case(
        "a webhook adds a container, and the pod gets its defaults",
        [
            configure(MUTATING, hook("container", rule("pods", operations=("CREATE",)))),
            post(f"{PODS}?dryRun=All", pod(), until=has_two_containers),
            post(PODS, pod()),
        ],
    ),
    Case(
        "a webhook cannot change what only the server writes",
        [
            configure(
                MUTATING, hook("uid"), hook("unknown-field", name="b"), hook("label", name="c")
            ),
            effective(labelled),
            post(CM, cm()),
            put(f"{CM}/a", cm(data={"a": "1"})),
        ],
    ),
    Case(
        "warnings",
        [
            configure(VALIDATING, hook("warn")),
            post(DRY, cm("probe"), until=lambda reply: bool(reply.warnings)),
            post(CM, cm()),
        ],
    ),
    Case(
        "reviews of creates, updates and deletions",
        [
            configure(VALIDATING, hook("deny", name="y", objectSelector=PROBES), RECORDED),
            post(DRY, {"metadata": {"name": "probe", "labels": {"probe": "yes"}}}, until=refused),
            post(f"{CM}?fieldManager=me&fieldValidation=Strict", cm(data={"a": "b"})),
            patch(f"{CM}/a?dryRun=All", {"data": {"c": "d"}}),
            put(f"{CM}/a", cm(data={"e": "f"})),
            Step("DELETE", f"{CM}/a?gracePeriodSeconds=0&propagationPolicy=Background"),
        ],
    ),
    Case(
        "a webhook may fail",
        [
            configure(VALIDATING, hook("code-500", failurePolicy="Ignore"), hook("deny", name="b")),
            effective(),
patch(f"{VALIDATING}/$ns", {"webhooks": [hook("code-500", failurePolicy="Ignore")]}),
            post(CM, cm(), until=lambda reply: reply.status == 201),
        ],
    ),
    Case(
        "a webhook is too slow",
        [configure(VALIDATING, hook("never", timeoutSeconds=1)), effective()],
    ),
    Case(
        "a webhook does not exist",
        [
            configure(VALIDATING, {
                **hook("deny"),
                "clientConfig": {"url": "https://127.0.0.1:1/none", "caBundle": "$ca"},
            }),
            effective(),
        ],
    ),
    Case(
        "a webhook has the wrong certificate",
        [
            configure(VALIDATING, {**hook("deny"), "clientConfig": {"url": "$hooks/deny"}}),
            effective(),
        ],
    ),
    Case(
        "operations, scopes and selectors",
        [
            configure(
                VALIDATING,
                hook("deny-message", rule("configmaps", operations=("DELETE",))),
                hook("deny", rule("configmaps", scope="Cluster"), name="b"),
                hook("deny", rule("configmaps/status"), name="c"),
                hook("deny-reason", objectSelector={"matchExpressions": [
                    {"key": "x", "operator": "Exists"}]}, name="d"),
            ),
            post(DRY, {"metadata": {"name": "probe", "labels": {"x": ""}}}, until=refused),
            post(CM, cm()),
            delete(f"{CM}/a"),
            delete(CM),
            patch(f"{CM}/a", {"metadata": {"labels": {"x": "y"}}}),
            get(f"{CM}/a"),
        ],
    ),
    Case(
        "a mutating webhook for a deletion",
        [
            post(CM, cm()),
            configure(MUTATING, hook("label", rule("configmaps", operations=("DELETE",)))),
            Step("DELETE", f"{CM}/a?dryRun=All", until=refused),
        ],
    ),
    Case(
        "subresources",
        [
            post(f"{NS}/pods", pod()),
            configure(
                VALIDATING,
                hook("deny", rule("pods/binding"), name="b"),
                hook("deny-message", rule("pods/status"), name="c"),
                hook("deny-reason", rule("pods/eviction"), name="d"),
                hook("deny-details", rule("deployments/scale"), name="e"),
            ),
            Step("PATCH", f"{PODS}/a/status?dryRun=All", {"status": {"phase": "Running"}},
                 "application/merge-patch+json", until=refused),
            post(f"{PODS}/a/binding", {"metadata": {"name": "a"}, "target": {"name": "n"}}),
            post(f"{PODS}/a/eviction", {"metadata": {"name": "a"}}),
            patch(f"{PODS}/a", {"metadata": {"labels": {"a": "b"}}}),
        ],
    ),
    conditioned(
        "the object, its name and its labels",
        MUTATING,
        hook("label", **when("object.metadata.name.startsWith('a')", "object.data.size() > 0")),
        steps=[
            post(CM, cm("a", data={"k": "v"})),
            post(CM, cm("b", data={"k": "v"})),
            patch(f"{CM}/a", {"data": {"k": "w"}}),
        ],
    ),
    conditioned(
        "the old object",
        VALIDATING,
        hook("deny-message", **when("oldObject != null && oldObject.data['k'] == 'kept'")),
        steps=[
            post(CM, cm("a", data={"k": "kept"})),
            patch(f"{CM}/a", {"data": {"k": "w"}}),
            delete(f"{CM}/a"),
        ],
    ),
    conditioned(
        "the request and the authorizer",
        VALIDATING,
        hook("deny-message", **when(*OF_THE_REQUEST)),
        steps=[
            post(f"{CM}?fieldManager=me", cm("b")),
            post(f"{CM}?fieldManager=you", cm("a")),
            delete(f"{CM}/a"),
            post(f"{CM}?fieldManager=me&dryRun=All", cm("a")),
            post(f"{CM}?fieldManager=me", cm("a")),
        ],
    ),
    conditioned(
        "errors",
        VALIDATING,
        hook("deny-message", **when("object.data['k'] == 'v'", "object.metadata.name != 'free'")),
        steps=[
            post(CM, cm("a", data={"k": "v"})),
            post(CM, cm("a", data={"l": "v"})),
            post(CM, cm("free")),
        ],
    ),
    conditioned(
        "several errors",
        MUTATING,
        hook("label", **when("object.data['k'] == 'v'", "true", "object.data['l'] == 'v'")),
        steps=[post(CM, cm("a", data={})), post(CM, cm("b", data={"x": "y"}))],
    ),
    conditioned(
        "errors are ignored",
        VALIDATING,
        hook("deny-message", **when("object.data['k'] == 'v'"), failurePolicy="Ignore"),
        steps=[post(CM, cm("a", data={"k": "v"})), post(CM, cm("a", data={"l": "v"}))],
    ),
    Case(
        "connections",
        [
            post(PODS, pod()),
            configure(VALIDATING, hook("deny-message", *CONNECTIONS), hook("deny", name="b")),
            effective(),
            get(f"{PODS}/a/exec?command=ls&command=-l&container=main&stdin=true&stdout=1&tty=false"),
            post(f"{PODS}/a/attach?stdout=true", None),
            get(f"{PODS}/a/portforward?ports=80"),
            get(f"{PODS}/a/portforward"),
            get(f"{PODS}/a/proxy"),
            get(f"{PODS}/a:80/proxy/some/path"),
            get(f"{PODS}/none/exec?command=ls"),
        ],
    ),
    Case(
        "reviews of connections",
        [
            post(PODS, pod()),
            configure(
                VALIDATING,
                hook("recorded-a", *CONNECTIONS),
                hook("deny", *CONNECTIONS, name="b"),
                hook("deny", *CONNECTIONS, name="c", objectSelector={
                    "matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]}),
            ),
            get(f"{PODS}/a/exec?command=ls&command=-l&container=main&stdin=true&stdout=1&tty=false",
                until=lambda reply: "denied" in str(reply.body)),
            post(f"{PODS}/a/attach?stdout=true", None),
            get(f"{PODS}/a/portforward?ports=80&ports=81"),
            get(f"{PODS}/a:80/proxy/some/path?a=b"),
        ],
    ),
    Case(
        "configurations are never sent to webhooks",
        [
            configure(VALIDATING, hook("deny", rule("*"), name="b")),
            effective(),
            patch(f"{VALIDATING}/$ns", {"metadata": {"labels": {"a": "b"}}}),
        ],
    ),
    Case(
        "another version of a custom kind",
        [
            post(CRDS, definition(version(), version("v1beta1", storage=False))),
            get(f"{CRDS}/{NAME}", until=established),
            configure(
                MUTATING,
                hook("recorded", OLD_THINGS, name="c"),
                hook("label", OLD_THINGS),
                hook("size", OLD_THINGS, name="b", matchPolicy="Exact"),
            ),
            post(f"{THINGS}?dryRun=All", thing(size=3), until=labelled),
            post(THINGS, thing(size=3)),
            post(OLD, thing("b", "v1beta1", size=3)),
            delete(f"{CRDS}/{NAME}"),
        ],
        ("crd-at-once",),
    ),
]  # fmt: skip
