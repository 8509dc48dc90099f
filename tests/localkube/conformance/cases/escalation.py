"""Nobody grants, or takes, more rights than they have."""

from __future__ import annotations

from typing import Any

from tests.localkube.conformance.cases.access import (
    ACCOUNT,
    BINDINGS,
    ME,
    RBAC,
    ROLES,
    bind,
    role,
    rule,
    tried,
)
from tests.localkube.conformance.cases.steps import answered, post
from tests.localkube.conformance.transcript import MERGE, Case, Step

GROUP = "rbac.authorization.k8s.io"
ALL_OF_RBAC = "roles rolebindings"


def role_body(name: str, *rules: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": name}, "rules": list(rules)}


def to(kind: str, name: str, called: str = "x") -> dict[str, Any]:
    referred = {"apiGroup": GROUP, "kind": kind, "name": name}
    return {"metadata": {"name": called}, "roleRef": referred, "subjects": [ME]}


def empowered(*rules: dict[str, Any]) -> list[Step]:
    """The account may write roles and bindings, and these things.

    The real server sees new rights a little later, and roles in the order of their creation:
    roles that it is to know as well come before.
    """
    writes = rule("get create update patch delete", ALL_OF_RBAC, groups=GROUP)
    heard = Step("GET", f"{ROLES}/r", user=ACCOUNT, until=answered(200))
    return [role(writes, *rules), bind(ME), heard]


CASES = [
    Case(
        "a role with more rights than its writer has",
        [
            *empowered(rule("get list", "pods")),
            *tried(
                ("POST", ROLES, role_body("same", rule("get", "pods"))),
                ("POST", ROLES, role_body("named", rule("get", "pods", names="a"))),
                ("POST", ROLES, role_body("more", rule("get delete", "pods"))),
                ("POST", ROLES, role_body("all", rule("*", "*", groups="*"))),
                ("POST", ROLES, role_body("other", rule("get", "secrets configmaps"))),
                ("POST", ROLES, role_body("sub", rule("get", "pods/log"))),
                ("POST", ROLES, role_body("none")),
                ("PATCH", f"{ROLES}/r", {"rules": [rule("*", "*", groups="*")]}, MERGE),
                ("PATCH", f"{ROLES}/r", {"metadata": {"labels": {"a": "b"}}}, MERGE),
                ("PUT", f"{ROLES}/same", role_body("same", rule("get watch", "pods"))),
                ("PUT", f"{ROLES}/same", role_body("same", rule("list", "pods"))),
                ("PUT", f"{ROLES}/new", role_body("new", rule("get watch", "pods"))),
            ),
        ],
        ("zero-values", "managed-fields"),
    ),
    Case(
        "a role by a user who may escalate",
        [
            *empowered(rule("escalate", "roles", groups=GROUP)),
            *tried(("POST", ROLES, role_body("more", rule("get delete", "pods")))),
        ],
    ),
    Case(
        "a binding to more rights than its writer has",
        [
            role(rule("get", "pods"), name="less"),
            role(rule("delete", "pods"), name="more"),
            *empowered(rule("get list", "pods")),
            *tried(
                ("POST", BINDINGS, to("Role", "less", "u")),
                ("POST", BINDINGS, to("Role", "more", "v")),
                ("POST", BINDINGS, to("ClusterRole", "cluster-admin", "c")),
                ("POST", BINDINGS, to("Role", "no-such", "d")),
                ("POST", BINDINGS, to("ClusterRole", "no-such", "d")),
                ("PUT", f"{BINDINGS}/e", to("Role", "more", "e")),
                ("PATCH", f"{BINDINGS}/u", {"metadata": {"labels": {"a": "b"}}}, MERGE),
            ),
            post(BINDINGS, to("Role", "no-such", "f")),
            *tried(
                ("PATCH", f"{BINDINGS}/u", {"subjects": []}, MERGE),
                ("PATCH", f"{BINDINGS}/f", {"subjects": []}, MERGE),
                ("PATCH", f"{BINDINGS}/f", {"metadata": {"labels": {"a": "b"}}}, MERGE),
            ),
        ],
    ),
    Case(
        "a binding by a user who may bind",
        [
            role(rule("delete", "pods"), name="more"),
            role(rule("delete", "secrets"), name="other"),
            *empowered(rule("bind", "roles", names="more", groups=GROUP)),
            *tried(
                ("POST", BINDINGS, to("Role", "more", "v")),
                ("POST", BINDINGS, to("Role", "other", "w")),
            ),
        ],
    ),
    Case(
        "cluster roles from within a namespace",
        [
            *empowered(rule("get list", "pods")),
            *tried(("POST", f"{RBAC}/clusterroles", role_body("$ns", rule("get", "pods")))),
        ],
    ),
]
