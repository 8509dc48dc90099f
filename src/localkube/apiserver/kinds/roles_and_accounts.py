"""Roles and their bindings, in a namespace or in the cluster; service accounts and what pods get.

`access.escalation` checks that the writer of a role has the permissions that its rules grant. A
pod that names no account gets `default`. Every container gets the token, the CA and the namespace
at a fixed path, unless the pod or the account says otherwise, or the container has a mount there.
"""

from __future__ import annotations

import random
from functools import partial
from typing import TYPE_CHECKING

from kubekit.objects.meta import SUFFIX_LETTERS
from localkube.apiserver import api_errors, causes, codec, rules
from localkube.apiserver.admission import names
from localkube.apiserver.kinds import pod_resources
from localkube.apiserver.kinds.field_rules import (
    check_name,
    check_required,
    each,
    ensure_map,
    fill,
    one_of,
)
from localkube.apiserver.resource import Resource
from localkube.apiserver.views.cells import AGE, CREATED_AT, NAME, Cell, rows, text

if TYPE_CHECKING:
    from datetime import datetime

    from kubekit.objects.meta import Raw
    from localkube.apiserver.causes import Causes
    from localkube.apiserver.store.collection import ObjectReader


GROUP = "rbac.authorization.k8s.io"
# -- Role ----------------------------------------------------------------------------------------

_REQUIRED = {
    "apiGroups": "resource rules must supply at least one api group",
    "resources": "resource rules must supply at least one resource",
}
_RESOURCE_FIELDS = ("apiGroups", "resources", "resourceNames")


def _check_role(role: Raw, *, namespaced: bool) -> Causes:
    for path, rule in each(role, "", "rules"):
        yield from _check_rule(rule, path, namespaced=namespaced)
    aggregation = role.get("aggregationRule")
    if aggregation is None:
        return
    if not aggregation.get("clusterRoleSelectors"):
        detail = "at least one clusterRoleSelector required if aggregationRule is non-nil"
        yield causes.required("aggregationRule.clusterRoleSelectors", detail)
    for path, selector in each(aggregation, "aggregationRule", "clusterRoleSelectors"):
        problems = [*names.check_labels(selector.get("matchLabels") or {}, f"{path}.matchLabels")]
        yield from problems
        if problems:
            yield causes.invalid(path, None, "invalid label selector.")


def _check_rule(rule: Raw, path: str, *, namespaced: bool) -> Causes:
    if not rule.get("verbs"):
        yield causes.required(f"{path}.verbs", "verbs must contain at least one value")
    urls = rule.get("nonResourceURLs")
    if not urls:
        yield from (
            causes.required(f"{path}.{field}", detail)
            for field, detail in _REQUIRED.items()
            if not rule.get(field)
        )
        return
    field = f"{path}.nonResourceURLs"
    if namespaced:
        yield causes.invalid(field, urls, "namespaced rules cannot apply to non-resource URLs")
    if any(rule.get(other) for other in _RESOURCE_FIELDS):
        detail = "rules cannot apply to both regular resources and non-resource URLs"
        yield causes.invalid(field, urls, detail)


def _role_strategy(*, namespaced: bool) -> rules.Strategy:
    return rules.Strategy(
        checks=rules.Checks(
            always=partial(_check_role, namespaced=namespaced),
            name=names.check_path_segment,
        ),
        admission=rules.Admission(grants=True),
        table=rules.Table(NAME | CREATED_AT),
    )


ROLES = Resource(
    GROUP, "v1", "roles", "Role", create_on_update=True, strategy=_role_strategy(namespaced=True)
)
CLUSTER_ROLES = Resource(
    GROUP, "v1", "clusterroles", "ClusterRole", False, create_on_update=True,
    strategy=_role_strategy(namespaced=False),
)  # fmt: skip


# -- RoleBinding ---------------------------------------------------------------------------------

_SUBJECT_GROUPS = {"ServiceAccount": "", "User": GROUP, "Group": GROUP}


def _defaults(binding: Raw) -> None:
    fill(ensure_map(binding, "roleRef"), apiGroup=GROUP)
    if not binding.get("subjects"):
        binding.pop("subjects", None)
    for subject in binding.get("subjects") or ():
        if subject.get("kind") in ("User", "Group"):
            fill(subject, apiGroup=GROUP)


def _check_binding(binding: Raw, *, kinds: tuple[str, ...]) -> Causes:
    role: Raw = binding.get("roleRef") or {}
    yield from one_of(role, "apiGroup", (GROUP,), "roleRef")
    if role.get("kind") not in kinds:
        yield causes.not_supported("roleRef.kind", role.get("kind") or "", kinds)
    yield from check_name(role, "roleRef", names.check_path_segment)
    for path, subject in each(binding, "", "subjects"):
        yield from _check_subject(subject, path, namespaced="Role" in kinds)


def _check_subject(subject: Raw, path: str, *, namespaced: bool) -> Causes:
    kind, name = str(subject.get("kind") or ""), str(subject.get("name") or "")
    yield from check_required(subject, path, "name")
    if kind not in _SUBJECT_GROUPS:
        yield causes.not_supported(f"{path}.kind", kind, tuple(_SUBJECT_GROUPS))
        return
    if name and kind == "ServiceAccount":
        yield from names.invalid_values(f"{path}.name", name, names.check_subdomain(name))
    group = _SUBJECT_GROUPS[kind]
    if (subject.get("apiGroup") or "") != group:
        yield causes.not_supported(f"{path}.apiGroup", subject.get("apiGroup"), (group,))
    if kind == "ServiceAccount" and not namespaced and not subject.get("namespace"):
        yield causes.required(f"{path}.namespace")


def _check_update(new: Raw, old: Raw) -> Causes:
    # Who may change subjects must not thereby change the rights that are granted.
    if new.get("roleRef") != old.get("roleRef"):
        yield causes.invalid("roleRef", new.get("roleRef"), "cannot change roleRef")


def _subjects(kind: str) -> Cell:
    """The column of the subjects of a kind; service accounts are shown with their namespace."""

    def cell(binding: Raw, now: datetime) -> str:
        subjects = [s for s in rows(binding, "subjects") if text(s, "kind") == kind]
        if kind == "ServiceAccount":
            return ", ".join(f"{text(s, 'namespace')}/{text(s, 'name')}" for s in subjects)
        return ", ".join(text(s, "name") for s in subjects)

    return cell


def _binding_strategy(*kinds: str) -> rules.Strategy:
    return rules.Strategy(
        completion=rules.Completion(defaults=_defaults),
        checks=rules.Checks(
            always=partial(_check_binding, kinds=kinds),
            name=names.check_path_segment,
            update=_check_update,
        ),
        admission=rules.Admission(grants=True),
        table=rules.Table(
            NAME
            | {"Role": lambda b, now: f"{text(b, 'roleRef.kind')}/{text(b, 'roleRef.name')}"}
            | AGE
            | {f"{kind}s+": _subjects(kind) for kind in ("User", "Group", "ServiceAccount")}
        ),
    )


ROLE_BINDINGS = Resource(
    GROUP, "v1", "rolebindings", "RoleBinding", create_on_update=True,
    strategy=_binding_strategy("Role", "ClusterRole"),
)  # fmt: skip
CLUSTER_ROLE_BINDINGS = Resource(
    GROUP, "v1", "clusterrolebindings", "ClusterRoleBinding", False, create_on_update=True,
    strategy=_binding_strategy("ClusterRole"),
)  # fmt: skip


# -- ServiceAccount ------------------------------------------------------------------------------

TOKEN_DIRECTORY = "/var/run/secrets/kubernetes.io/serviceaccount"
_VOLUME = "kube-api-access-"
_LIFETIME = 3607
"""Seconds. An odd number, as on a real cluster, marks tokens that the pod did not ask for."""
_MIRROR = "kubernetes.io/config.mirror"

SERVICE_ACCOUNTS = Resource(
    "", "v1", "serviceaccounts", "ServiceAccount", short=("sa",),
    subresources=frozenset({"token"}),
    strategy=rules.Strategy(deletion=rules.Deletion(answer="object")),
)  # fmt: skip


def complete_pod(pod: Raw, store: ObjectReader) -> None:
    """Give a new pod its account and what the account brings; 403 if there is no such account."""
    spec, meta = pod["spec"], pod["metadata"]
    if _MIRROR in (meta.get("annotations") or {}):
        return  # a node agent has made it, and it has no account
    name = spec.get("serviceAccountName") or "default"
    spec["serviceAccountName"] = spec["serviceAccount"] = name
    account = _account(pod, name, store)
    automount = spec.get("automountServiceAccountToken")
    if automount is None:
        automount = account.get("automountServiceAccountToken")
    if automount is not False:
        _mount_token(spec)
    if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
        spec["imagePullSecrets"] = account["imagePullSecrets"]


def _account(pod: Raw, name: str, store: ObjectReader) -> Raw:
    namespace = pod["metadata"]["namespace"]
    entry = store.get(codec.key(SERVICE_ACCOUNTS, namespace, name))
    if entry is None:
        account = f"{namespace}/{name}"
        why = f'error looking up service account {account}: serviceaccount "{name}" not found'
        raise api_errors.forbidden_pod(pod, why)
    return codec.decode(entry.value)


def _mount_token(spec: Raw) -> None:
    volumes = spec.get("volumes") or []
    name = _VOLUME + "".join(random.choices(SUFFIX_LETTERS, k=5))
    needed = False
    for container in pod_resources.containers_of(spec):
        mounts = container.get("volumeMounts") or []
        if not any(mount.get("mountPath") == TOKEN_DIRECTORY for mount in mounts):
            mount = {"name": name, "readOnly": True, "mountPath": TOKEN_DIRECTORY}
            container["volumeMounts"] = [*mounts, mount]
            needed = True
    if needed:
        spec["volumes"] = [*volumes, {"name": name, "projected": _projected()}]


def _projected() -> Raw:
    namespace = {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
    ca = [{"key": "ca.crt", "path": "ca.crt"}]
    return {
        "defaultMode": 0o644,
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": _LIFETIME, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": ca}},
            {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": namespace}]}},
        ],
    }
