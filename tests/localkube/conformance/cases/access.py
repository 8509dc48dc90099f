"""Roles and bindings, reviews of access and of tokens."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.localkube.conformance.cases.server_side_apply import APPLY
from tests.localkube.conformance.cases.steps import (
    CM,
    NS,
    PODS,
    SVC,
    answered,
    cm,
    delete,
    get,
    pod,
    post,
)
from tests.localkube.conformance.transcript import Case, Step

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ROLES, BINDINGS = f"{RBAC}/namespaces/$ns/roles", f"{RBAC}/namespaces/$ns/rolebindings"
ACCOUNTS = f"{NS}/serviceaccounts"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/$ns/leases"
MAY = "/apis/authorization.k8s.io/v1"
WHO = "/apis/authentication.k8s.io/v1"
ACCOUNT = "system:serviceaccount:$ns:a"


def rule(verbs: str, resources: str, names: str = "", groups: str = "") -> dict[str, Any]:
    fields: dict[str, Any] = {
        "verbs": verbs.split(),
        "apiGroups": groups.split(" "),
        "resources": resources.split(),
    }
    return fields | ({"resourceNames": names.split()} if names else {})


def role(*rules: dict[str, Any], name: str = "r") -> Step:
    return post(ROLES, {"metadata": {"name": name}, "rules": list(rules)})


def bind(*subjects: dict[str, Any], to: str = "Role", named: str = "r", name: str = "b") -> Step:
    group = "rbac.authorization.k8s.io"
    referred = {"apiGroup": group, "kind": to, "name": named}
    return post(
        BINDINGS, {"metadata": {"name": name}, "roleRef": referred, "subjects": list(subjects)}
    )


ME = {"kind": "ServiceAccount", "name": "a", "namespace": "$ns"}


def group(name: str) -> dict[str, Any]:
    return {"kind": "Group", "name": name, "apiGroup": "rbac.authorization.k8s.io"}


def tried(*steps: tuple[str, str, *tuple[Any, ...]], user: str = ACCOUNT) -> list[Step]:
    return [replace(Step(*step), user=user) for step in steps]


def may(user: str = "", **attributes: str) -> Step:
    spec = {"resourceAttributes": attributes}
    return post(f"{MAY}/selfsubjectaccessreviews", {"spec": spec}, user=user)


def service(name: str) -> dict[str, Any]:
    ports = [{"port": 80}]
    return {"metadata": {"name": name}, "spec": {"ports": ports, "clusterIP": "None"}}


def applied(name: str, **more: Any) -> tuple[str, str, Any, str]:
    return "PATCH", f"{CM}/{name}?fieldManager=x", cm(name, **more), APPLY


RIGHTS = [
    Case(
        "nothing without a role",
        tried(
            ("GET", "/api/v1/pods"),
            ("GET", PODS),
            ("GET", f"{PODS}/x"),
            ("GET", f"{PODS}?watch=1"),
            ("GET", f"{PODS}?fieldSelector=metadata.name%3Dx"),
            ("GET", f"{PODS}/x/log"),
            ("GET", f"{PODS}/x/exec?command=y"),
            ("POST", f"{PODS}/x/eviction", {}),
            ("DELETE", PODS),
            ("DELETE", f"{PODS}/x"),
            ("POST", PODS, pod()),
            ("PUT", f"{PODS}/x", pod("x")),
            ("PATCH", f"{PODS}/x", {}),
            ("GET", "/api/v1/namespaces"),
            ("GET", "/api/v1/namespaces/$ns"),
            ("GET", "/api/v1/nodes/x"),
            ("GET", "/apis/apps/v1/deployments"),
            ("GET", "/apis/none.example/v1/namespaces/$ns/things"),
            ("GET", "/metrics"),
            ("POST", "/somewhere", {}),
            ("POST", f"{ACCOUNTS}/a/token", {}),
        ),
    ),
    Case(
        "what a role gives, and no more",
        [
            post(CM, cm("one")),
            post(PODS, pod("p")),
            role(
                rule("get list watch", "pods"),
                rule("get", "pods/log"),
                rule("get patch", "configmaps", "one"),
            ),
            bind(ME),
            Step("GET", PODS, user=ACCOUNT, until=answered(200)),
            *tried(
                ("GET", f"{PODS}/p"),
                ("GET", f"{PODS}/p/status"),
                ("GET", "/api/v1/pods"),
                ("GET", "/api/v1/namespaces/default/pods"),
                ("DELETE", f"{PODS}/p"),
                ("POST", PODS, pod("q")),
                ("GET", f"{CM}/one"),
                ("GET", f"{CM}/two"),
                ("GET", CM),
                ("GET", f"{CM}?fieldSelector=metadata.name%3Done"),
                ("PATCH", f"{CM}/one", {}),
            ),
            *tried(("GET", PODS), user="system:serviceaccount:$ns:b"),
            *tried(("GET", PODS), user="a"),
        ],
    ),
    Case(
        "stars, subresources of anything, groups and users",
        [
            role(rule("*", "*/status"), rule("list", "*", groups="*"), name="r"),
            bind(group("system:serviceaccounts:$ns")),
            role(rule("get", "secrets"), name="s"),
            bind(
                {"kind": "User", "name": "jo", "apiGroup": RBAC.split("/")[2]}, named="s", name="c"
            ),
            Step("GET", PODS, user=ACCOUNT, until=answered(200)),
            Step("GET", f"{NS}/secrets/none", user="jo", until=answered(404)),
            *tried(
                ("GET", "/apis/apps/v1/namespaces/$ns/deployments"),
                ("GET", f"{PODS}/none/status"),
                ("GET", f"{PODS}/none"),
                ("GET", f"{NS}/secrets/none"),
                ("GET", f"{SVC}/none/status"),
            ),
            *tried(("GET", PODS), user="jo"),
        ],
    ),
    Case(
        "roles that are not there",
        [
            bind(ME, named="none"),
            Step("GET", f"{CM}/x", user=ACCOUNT, until=lambda r: "RBAC" in r.body["message"]),
            may(ACCOUNT, verb="list", resource="pods", namespace="$ns"),
            post(f"{MAY}/selfsubjectrulesreviews", {"spec": {"namespace": "$ns"}}, user="nobody"),
        ],
        ("managed-fields",),
    ),
    Case(
        "a cluster role bound in a namespace",
        [
            bind(ME, to="ClusterRole", named="cluster-admin"),
            Step("GET", PODS, user=ACCOUNT, until=answered(200)),
            *tried(
                ("POST", CM, cm()),
                ("DELETE", f"{CM}/a"),
                ("GET", "/api/v1/nodes"),
                ("GET", "/metrics"),
                ("GET", "/api/v1/namespaces/$ns"),
            ),
        ],
    ),
    Case(
        "exec needs the right to create",
        [
            post(PODS, pod("p")),
            role(rule("get", "pods/exec pods/attach"), rule("list", "pods")),
            bind(ME),
            Step("GET", PODS, user=ACCOUNT, until=answered(200)),
            *tried(("GET", f"{PODS}/p/exec?command=x"), ("POST", f"{PODS}/p/exec?command=x")),
        ],
    ),
    Case(
        "an apply or an update that creates needs the right to create",
        [
            post(CM, cm("there")),
            role(
                rule("get list patch update", "configmaps services"),
                rule("create", "configmaps", names="named"),
                rule("patch update", "leases", groups="coordination.k8s.io"),
            ),
            bind(ME),
            Step("GET", CM, user=ACCOUNT, until=answered(200)),
            *tried(
                applied("there", data={"k": "v"}),
                applied("new", data={"k": "v"}),
                applied("named", data={"k": "v"}),
                applied("Not.Valid!", data={"k": "v"}),
                ("PUT", f"{CM}/other", cm("other")),
                ("PUT", f"{SVC}/new", service("new")),
                ("PUT", f"{SVC}/new", service("new") | {"spec": {}}),
                ("PUT", f"{LEASES}/new", {"metadata": {"name": "new"}}),
                ("PUT", f"{LEASES}/new?dryRun=All", {"metadata": {"name": "new"}}),
                ("PUT", f"{LEASES}/new", {"metadata": {"name": "new"}, "spec": {"x": 1}}),
            ),
            get(CM),
            get(SVC),
        ],
    ),
]

ASKED = {"verb": "list", "resource": "pods", "namespace": "$ns"}
THEY: tuple[tuple[dict[str, Any], dict[str, str]], ...] = (
    ({"user": "jo"}, {}),
    ({"groups": ["system:masters"]}, {}),
    ({}, {}),
    ({"user": "jo"}, {"namespace": "other"}),
)

PATHS: tuple[dict[str, dict[str, str]], ...] = (
    {"nonResourceAttributes": {"verb": "get", "path": "/api"}},
    {"nonResourceAttributes": {"verb": "get", "path": "/metrics"}},
    {"nonResourceAttributes": {"verb": "get", "path": "/apis/x/y"}},
    {"nonResourceAttributes": {}, "resourceAttributes": {}},
    {},
)

REVIEWS = [
    Case(
        "may I",
        [
            may(verb="delete", resource="pods"),
            may(ACCOUNT, verb="list", resource="pods", namespace="$ns"),
            role(rule("list", "pods")),
            bind(ME),
            Step("GET", PODS, user=ACCOUNT, until=answered(200)),
            may(ACCOUNT, verb="list", resource="pods", namespace="$ns"),
            may(ACCOUNT, verb="list", resource="pods"),
            may(ACCOUNT, verb="get", resource="pods", subresource="log", namespace="$ns"),
            *(
                post(f"{MAY}/selfsubjectaccessreviews", {"spec": spec}, user=ACCOUNT)
                for spec in PATHS
            ),
        ],
        ("managed-fields",),
    ),
    Case(
        "may they",
        [
            post(f"{MAY}/{place}", {"spec": {"resourceAttributes": ASKED | attributes, **who}})
            for place in ("subjectaccessreviews", "namespaces/$ns/localsubjectaccessreviews")
            for who, attributes in THEY
        ],
        ("managed-fields",),
    ),
    Case(
        "who am I",
        [
            post(f"{WHO}/selfsubjectreviews", {}),
            post(f"{WHO}/selfsubjectreviews", {}, user=ACCOUNT),
            post(f"{WHO}/selfsubjectreviews", {}, user="jo"),
            post(f"{WHO}/selfsubjectreviews", {}, user="system:anonymous"),
            post(f"{WHO}/tokenreviews", {"spec": {"token": "x"}}),
            post(f"{WHO}/tokenreviews", {"spec": {}}),
            post(f"{MAY}/selfsubjectrulesreviews", {"spec": {}}),
        ],
        ("managed-fields",),
    ),
]

TOKENS = [
    Case(
        "tokens on request",
        [
            post(ACCOUNTS, {"metadata": {"name": "a"}}),
            post(f"{ACCOUNTS}/a/token", {}),
            post(f"{ACCOUNTS}/a/token", {"spec": {"audiences": ["x"], "expirationSeconds": 700}}),
            post(f"{ACCOUNTS}/a/token", {"spec": {"expirationSeconds": 10}}),
            post(f"{ACCOUNTS}/a/token", {"spec": {"expirationSeconds": 2**33}}),
            post(PODS, pod("p", {"serviceAccountName": "a"})),
            post(PODS, pod("q", {"serviceAccountName": "b"})),
            *(
                post(
                    f"{ACCOUNTS}/a/token",
                    {"spec": {"boundObjectRef": {"apiVersion": "v1", "kind": kind, "name": name}}},
                )
                for kind, name in (("Pod", "p"), ("Pod", "q"), ("Pod", "none"), ("Job", "x"))
            ),
            post(f"{ACCOUNTS}/none/token", {}),
            get(f"{ACCOUNTS}/a/token"),
            delete(f"{ACCOUNTS}/a"),
        ],
        ("managed-fields",),
    ),
]

OURS, OTHERS = "https://kubernetes.default.svc", ["foo", "bar"]


def reviewed(token: str, *audiences: str) -> Step:
    return post(f"{WHO}/tokenreviews", {"spec": {"token": token, "audiences": [*audiences]}})


TOKENS += [
    Case(
        "tokens under review",
        [
            post(ACCOUNTS, {"metadata": {"name": "a"}}),
            post(f"{ACCOUNTS}/a/token", {}),
            post(f"{ACCOUNTS}/a/token", {"spec": {"audiences": ["foo"]}}),
            post(f"{ACCOUNTS}/a/token", {"spec": {"audiences": [OURS, "bar", "foo"]}}),
            *(
                reviewed(f"$token.{number}", *audiences)
                for number in (1, 2, 3)
                for audiences in ((), (OURS,), ("foo",), OTHERS, (OURS, *OTHERS), ("none",), ("",))
            ),
            reviewed("x", "foo"),
            post(f"{WHO}/selfsubjectreviews", {}),
        ],
        ("managed-fields",),
    ),
]


CASES = [*RIGHTS, *REVIEWS, *TOKENS]
