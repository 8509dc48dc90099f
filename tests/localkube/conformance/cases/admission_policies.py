"""Validating admission policies: which are accepted, and which writes they deny.

A real server learns of a policy a little later, so the first write that it denies is repeated until
it is denied. Policies are for the whole cluster: each is about the namespace of its case.
"""

from __future__ import annotations

from typing import Any

from tests.localkube.conformance.cases.steps import (
    CM,
    NS,
    PODS,
    answered,
    cm,
    delete,
    get,
    patch,
    pod,
    post,
    put,
)
from tests.localkube.conformance.transcript import Case, Step

ROOT = "/apis/admissionregistration.k8s.io/v1"
POLICIES = f"{ROOT}/validatingadmissionpolicies"
BINDINGS = f"{ROOT}/validatingadmissionpolicybindings"
RULE: dict[str, Any] = {
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "operations": ["CREATE", "UPDATE"],
    "resources": ["configmaps"],
}
ACCOUNTS = f"{NS}/serviceaccounts"
DEPLOYMENTS = "/apis/apps/v1/namespaces/$ns/deployments"
HERE = {"matchLabels": {"kubernetes.io/metadata.name": "$ns"}}


def policy(*validations: Any, name: str = "$ns", rule: Any = RULE, **spec: Any) -> dict[str, Any]:
    rows = [{"expression": row} if isinstance(row, str) else row for row in validations]
    match = {"resourceRules": [rule], "namespaceSelector": HERE}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {"matchConstraints": match, "validations": rows, **spec},
    }


def binding(*actions: str, name: str = "$ns", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": "$ns", "validationActions": list(actions or ("Deny",)), **spec},
    }


def deployment(**spec: Any) -> dict[str, Any]:
    labels = {"a": "b"}
    template = {"metadata": {"labels": labels}, "spec": pod()["spec"]}
    selector = {"matchLabels": labels}
    return {"metadata": {"name": "a"}, "spec": {"selector": selector, "template": template, **spec}}


def applied(
    name: str, body: dict[str, Any], *steps: Step, bound: Any = None, before: Any = ()
) -> Case:
    """A policy, its binding, and writes; the first of them is repeated until it is denied."""
    return Case(
        f"policies: {name}",
        [
            *before,
            post(POLICIES, body),
            post(BINDINGS, bound or binding()),
            *steps,
            delete(f"{BINDINGS}/$ns"),
            delete(f"{POLICIES}/$ns"),
        ],
    )


def refused(name: str, *bodies: dict[str, Any]) -> Case:
    def at(body: dict[str, Any]) -> str:
        return BINDINGS if body["kind"].endswith("Binding") else POLICIES

    return Case(f"policies: {name}", [post(at(body), body) for body in bodies], ("wording",))


def denied(body: dict[str, Any], code: int = 422) -> Step:
    return post(f"{CM}?dryRun=All", body, until=answered(code))


BAD = cm("bad", data={"k": "v"})

CASES = [
    applied(
        "all subresources are the resource itself too",
        policy("object.metadata.name != 'bad'", rule={**RULE, "resources": ["configmaps/*"]}),
        denied(BAD),
        post(CM, cm("good")),
    ),
    applied(
        "a denied and an allowed write",
        policy("object.metadata.name != 'bad'"),
        denied(BAD),
        post(CM, cm("good")),
        put(f"{CM}/good", cm("good", data={"k": "v"})),
        patch(f"{CM}/good", {"data": {"k": "w"}}),
        get(POLICIES.replace("policies", "policies/$ns")),
        get(f"{BINDINGS}/$ns"),
    ),
    applied(
        "messages and reasons",
        policy(
            {
                "expression": "object.metadata.name != 'bad'",
                "message": " is bad ",
                "reason": "Forbidden",
            },
            {
                "expression": "object.metadata.name != 'worse'",
                "messageExpression": "object.metadata.name + ' is worse'",
            },
            {"expression": "object.metadata.name != 'worst'", "messageExpression": "'a\\nb'"},
            {"expression": "object.metadata.name != 'big'", "reason": "RequestEntityTooLarge"},
        ),
        denied(BAD, 403),
        *(post(CM, cm(name)) for name in ("worse", "worst", "big")),
    ),
    applied(
        "variables and conditions",
        policy(
            "variables.size < 2 || variables.bad",
            variables=[
                {"name": "keys", "expression": "has(object.data) ? object.data.map(k, k) : []"},
                {"name": "size", "expression": "size(variables.keys)"},
                {"name": "bad", "expression": "object.data['nothing'] == 'x'"},
            ],
            matchConditions=[
                {"name": "named", "expression": "object.metadata.name.startsWith('b')"},
                {"name": "not-free", "expression": "!has(object.metadata.labels)"},
            ],
        ),
        denied(cm("bad", data={"k": "v", "l": "w"})),
        post(CM, cm("other", data={"k": "v", "l": "w"})),
        post(CM, cm("b", data={"k": "v"})),
    ),
    applied(
        "the request, its user and the namespace",
        policy(
            "request.operation == 'CREATE' || object.data != oldObject.data",
            "request.namespace == '$ns' && request.resource.resource == 'configmaps'",
            "request.kind.kind == 'ConfigMap' && request.kind.version == 'v1'",
            "request.userInfo.username != 'nobody'",
            "namespaceObject.metadata.name == '$ns' && namespaceObject.status.phase == 'Active'",
            "request.dryRun || object.metadata.name != 'dry'",
            "!has(request.subResource) || request.subResource == ''",
            "oldObject == null || oldObject.metadata.name == object.metadata.name",
            "request.name != 'bad'",
        ),
        denied(BAD),
        post(CM, cm("a")),
        post(f"{CM}?dryRun=All", cm("dry")),
        post(CM, cm("dry")),
        patch(f"{CM}/a", {"metadata": {"labels": {"x": "y"}}}),
        patch(f"{CM}/a", {"data": {"x": "y"}}),
    ),
    applied(
        "deletion",
        policy(
            "oldObject.metadata.name != 'kept' && object == null",
            rule={**RULE, "operations": ["DELETE"]},
        ),
        Step("DELETE", f"{CM}/kept?dryRun=All", until=answered(422)),
        delete(f"{CM}/gone"),
        before=[post(CM, cm("kept")), post(CM, cm("gone"))],
    ),
    applied(
        "errors of expressions",
        policy("object.data['k'] == 'v'", "object.metadata.labels.x / 0 == 1"),
        denied(cm("bad", data={"l": "v"})),
        post(CM, cm("a", data={"k": "w"})),
    ),
    applied(
        "errors are ignored",
        policy("object.data['k'] == 'v'", "object.metadata.name != 'bad'", failurePolicy="Ignore"),
        denied(BAD),
        post(CM, cm("a")),
    ),
    applied(
        "warnings",
        policy("object.metadata.name != 'bad'"),
        post(f"{CM}?dryRun=All", BAD, until=lambda reply: bool(reply.warnings)),
        post(CM, cm("a")),
        bound=binding("Warn", "Audit"),
    ),
    applied(
        "selectors and names",
        policy("false"),
        denied(cm("bad") | {"metadata": {"name": "bad", "labels": {"team": "x"}}}),
        post(CM, cm("free")),
        post(CM, cm("bad") | {"metadata": {"name": "other", "labels": {"team": "x"}}}),
        bound=binding(
            matchResources={
                "objectSelector": {"matchLabels": {"team": "x"}},
                "excludeResourceRules": [{**RULE, "resourceNames": ["other"]}],
            }
        ),
    ),
    # One case per kind of parameter: when its last policy is gone, the real server stops following
    # the kind, and finds no objects of it for a later policy.
    applied(
        "a parameter",
        policy(
            "!has(object.data) || object.data.size() <= int(params.metadata.labels.most)",
            paramKind={"apiVersion": "v1", "kind": "ServiceAccount"},
        ),
        post(
            f"{CM}?dryRun=All",
            cm("bad", data={"k": "v", "l": "w"}),
            until=lambda reply: "failed expression" in str(reply.body),
        ),
        post(CM, cm("a", data={"k": "v"})),
        Step("DELETE", f"{ACCOUNTS}/limits"),
        post(
            f"{CM}?dryRun=All",
            cm("b"),
            until=lambda reply: "no params found" in str(reply.body),
        ),
        before=[post(ACCOUNTS, {"metadata": {"name": "limits", "labels": {"most": "1"}}})],
        bound=binding(paramRef={"name": "limits", "parameterNotFoundAction": "Deny"}),
    ),
    applied(
        "the authorizer",
        policy(
            "!authorizer.group('').resource('secrets').namespace('$ns').check('get').allowed()"
            " || object.metadata.name != 'bad'",
            "authorizer.serviceAccount('$ns', 'x').group('').resource('pods').namespace('$ns')"
            ".check('get').allowed() == false",
        ),
        denied(BAD),
        post(CM, cm("good")),
    ),
    applied(
        "a status and a binding of a pod",
        policy(
            "object.metadata.name != 'bad'",
            rule={**RULE, "resources": ["configmaps", "namespaces/status", "pods/binding"]},
        ),
        denied(BAD),
        post(
            f"{NS}/pods",
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "bad"},
                "spec": {"containers": [{"name": "m", "image": "i"}]},
            },
        ),
        post(
            f"{NS}/pods/bad/binding",
            {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": "bad"},
                "target": {"kind": "Node", "name": "n"},
            },
        ),
    ),
    applied(
        "connections",
        policy(
            "object.kind != 'PodExecOptions' || object.command != ['rm']",
            "object.kind != 'PodAttachOptions' || !has(object.stdin)",
            "object.kind != 'PodPortForwardOptions' || !(80 in object.ports)",
            "object.kind != 'PodProxyOptions' || !object.path.startsWith('/admin')",
            "oldObject == null && request.kind.kind == object.kind && request.name != 'none'",
            rule={
                **RULE,
                "operations": ["CONNECT"],
                "resources": ["pods/exec", "pods/attach", "pods/portforward", "pods/proxy"],
            },
        ),
        get(f"{PODS}/a/exec?command=rm", until=answered(422)),
        get(f"{PODS}/a/exec?command=ls"),
        post(f"{PODS}/a/exec?command=rm", None),
        get(f"{PODS}/a/attach?stdin=true"),
        get(f"{PODS}/a/attach"),
        get(f"{PODS}/a/portforward?ports=80"),
        get(f"{PODS}/a:80/proxy/admin/x"),
        get(f"{PODS}/none/exec?command=ls"),
        get(f"{PODS}/a/log"),
        before=[post(PODS, pod())],
    ),
    applied(
        "a scale",
        policy(
            "object.spec.replicas != 3 || oldObject.spec.replicas != 2",
            "request.kind.kind == 'Scale' && request.subResource == 'scale'",
            rule={
                **RULE,
                "apiGroups": ["apps"],
                "operations": ["UPDATE"],
                "resources": ["deployments/scale"],
            },
        ),
        patch(f"{DEPLOYMENTS}/a/scale?dryRun=All", {"spec": {"replicas": 3}}, until=answered(422)),
        patch(f"{DEPLOYMENTS}/a/scale", {"spec": {"replicas": 4}}),
        patch(f"{DEPLOYMENTS}/a/scale", {"spec": {"replicas": 3}}),
        patch(f"{DEPLOYMENTS}/a/scale", {"spec": {"replicas": -1}}),
        before=[post(DEPLOYMENTS, deployment(replicas=2))],
    ),
    applied(
        "options and the resource of the request",
        policy(
            "request.options.kind == request.operation.substring(0, 1) +"
            " request.operation.substring(1).lowerAscii() + 'Options'",
            "!has(request.options.fieldManager) || request.options.fieldManager != 'bad'",
            "!has(request.options.gracePeriodSeconds) || request.options.gracePeriodSeconds < 9",
            "authorizer.requestResource.check('create').allowed()",
            "authorizer.requestResource.namespace('x').check('get').reason() == ''",
            rule={**RULE, "operations": ["*"]},
        ),
        post(f"{CM}?dryRun=All&fieldManager=bad", BAD, until=answered(422)),
        post(f"{CM}?fieldManager=good", cm("a")),
        patch(f"{CM}/a?fieldManager=bad", {"data": {"a": "b"}}),
        delete(f"{CM}/a?gracePeriodSeconds=9"),
        delete(f"{CM}/a?gracePeriodSeconds=1"),
    ),
    applied(
        "a namespace and its conditions",
        policy(
            "object.metadata.labels.x != 'bad' && namespaceObject == null",
            "request.namespace == '$ns' && request.name == '$ns'",
            rule={**RULE, "resources": ["namespaces"]},
            matchConditions=[{"name": "a", "expression": "namespaceObject == null"}],
        ),
        patch(f"{NS}?dryRun=All", {"metadata": {"labels": {"x": "bad"}}}, until=answered(422)),
        patch(NS, {"metadata": {"labels": {"x": "good"}}}),
    ),
    refused(
        "expressions that do not compile",
        policy("object.", name="$ns-a"),
        policy("nothing == 1", name="$ns-b"),
        policy("request.nothing == 1", name="$ns-c"),
        policy("'text'", name="$ns-d"),
        policy({"expression": "true", "messageExpression": "1"}, name="$ns-e"),
        policy("variables.x", name="$ns-f", variables=[{"name": "y", "expression": "true"}]),
        policy("params.x", name="$ns-g"),
        policy("true", name="$ns-h", matchConditions=[{"name": "x", "expression": "1"}]),
        policy("true", name="$ns-i", variables=[{"name": "y", "expression": "variables.z"}]),
        policy({"expression": "true", "messageExpression": "authorizer.group('')"}, name="$ns-j"),
    ),
    refused(
        "the types of variables",
        *(
            policy(text, name=f"$ns-{i}", variables=[{"name": "x", "expression": value}])
            for i, (value, text) in enumerate(
                (
                    ("1", "variables.x == 'a'"),
                    ("'a'", "variables.x + 1 == 2"),
                    ("true", "variables.x.startsWith('a')"),
                    ("['a']", "variables.x.all(y, y + 1 == 2)"),
                    ("['a']", "1 in variables.x"),
                    ("{'a': 1}", "variables.x['a'] == 'b'"),
                    ("{'a': ['b']}", "variables.x == 1"),
                    ("1.5", "variables.x == 'a'"),
                    ("duration('1s')", "variables.x == 'a'"),
                    ("request.userInfo.groups", "variables.x[0] == 1"),
                )
            )
        ),
    ),
    applied(
        "variables of all types",
        policy(
            "variables.number == 1 && variables.dyn == 'bad' && variables.texts[0] == 'a'",
            "variables.map['a'] == 1 && variables.user.username != '' && variables.none == null",
            "variables.lists[0][0] == 1 && variables.numbers[1] == 'one'",
            "variables.text != 'bad'",
            "variables.since > timestamp('2000-01-01T00:00:00Z') && variables.empty.size() == 0",
            variables=[
                {"name": "number", "expression": "1"},
                {"name": "dyn", "expression": "object.metadata.name"},
                {"name": "texts", "expression": "['a', 'b']"},
                {"name": "map", "expression": "{'a': 1}"},
                {"name": "user", "expression": "request.userInfo"},
                {"name": "none", "expression": "null"},
                {"name": "lists", "expression": "[[1]]"},
                {"name": "numbers", "expression": "{1: 'one'}"},
                {"name": "text", "expression": "string(object.metadata.name)"},
                {"name": "since", "expression": "timestamp('2020-01-01T00:00:00Z')"},
                {"name": "empty", "expression": "[]"},
            ],
        ),
        denied(BAD),
        post(CM, cm("other")),
    ),
    applied(
        "an authorizer with selectors",
        policy(
            "!authorizer.group('').resource('pods').namespace('$ns').fieldSelector('a=b')"
            ".labelSelector('c=d').check('list').allowed() || object.metadata.name != 'bad'",
        ),
        denied(BAD),
        post(CM, cm("good")),
    ),
    refused(
        "malformed policies",
        policy(name="$ns-a"),
        policy({"expression": " "}, name="$ns-b"),
        policy({"expression": "true", "reason": "Other", "message": "a\nb"}, name="$ns-c"),
        policy("true", name="$ns-d", failurePolicy="Other"),
        policy("true", name="$ns-e", matchConstraints={}),
        policy("true", name="$ns-f", matchConstraints={"resourceRules": [{}]}),
        policy("true", name="$ns-g", rule={**RULE, "operations": ["*", "CREATE"], "scope": "x"}),
        policy("true", name="$ns-h", variables=[{"name": "a-b", "expression": "true"}]),
        policy("true", name="$ns-i", paramKind={}),
    ),
    refused(
        "malformed bindings",
        binding(name="$ns-a", policyName=""),
        binding("Deny", "Warn", name="$ns-b"),
        binding("Other", "Audit", "Audit", name="$ns-c"),
        binding(name="$ns-d", validationActions=[]),
        binding(name="$ns-e", paramRef={}),
        binding(
            name="$ns-f", paramRef={"name": "x", "selector": {}, "parameterNotFoundAction": "x"}
        ),
    ),
]
