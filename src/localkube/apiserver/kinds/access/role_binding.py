"""RoleBinding and ClusterRoleBinding: defaults, checks of role and subjects, columns."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from localkube.apiserver.admission import names
from localkube.apiserver.api_errors import Causes, invalid_value, not_supported, required
from localkube.apiserver.kinds.access.role import GROUP
from localkube.apiserver.kinds.fields import check_name, each, ensure_map, fill, one_of
from localkube.apiserver.resource import Resource, Strategy
from localkube.apiserver.views.cells import AGE, NAME, Cell, rows, text

if TYPE_CHECKING:
    from datetime import datetime

    from kubekit.objects.meta import Raw

_SUBJECT_GROUPS = {"ServiceAccount": "", "User": GROUP, "Group": GROUP}


def _defaults(binding: Raw) -> None:
    fill(ensure_map(binding, "roleRef"), apiGroup=GROUP)
    if not binding.get("subjects"):
        binding.pop("subjects", None)
    for subject in binding.get("subjects") or ():
        if subject.get("kind") in ("User", "Group"):
            fill(subject, apiGroup=GROUP)


def _check(binding: Raw, *, kinds: tuple[str, ...]) -> Causes:
    role: Raw = binding.get("roleRef") or {}
    yield from one_of(role, "apiGroup", (GROUP,), "roleRef")
    if role.get("kind") not in kinds:
        yield not_supported("roleRef.kind", role.get("kind") or "", kinds)
    yield from check_name(role, "roleRef", names.check_path_segment)
    for path, subject in each(binding, "", "subjects"):
        yield from _check_subject(subject, path, namespaced="Role" in kinds)


def _check_subject(subject: Raw, path: str, *, namespaced: bool) -> Causes:
    kind, name = str(subject.get("kind") or ""), str(subject.get("name") or "")
    if not name:
        yield required(f"{path}.name")
    if kind not in _SUBJECT_GROUPS:
        yield not_supported(f"{path}.kind", kind, tuple(_SUBJECT_GROUPS))
        return
    if name and kind == "ServiceAccount":
        yield from names.invalid_values(f"{path}.name", name, names.check_subdomain(name))
    group = _SUBJECT_GROUPS[kind]
    if (subject.get("apiGroup") or "") != group:
        yield not_supported(f"{path}.apiGroup", subject.get("apiGroup"), (group,))
    if kind == "ServiceAccount" and not namespaced and not subject.get("namespace"):
        yield required(f"{path}.namespace")


def _check_update(new: Raw, old: Raw) -> Causes:
    # Who may change subjects must not thereby change the rights that are granted.
    if new.get("roleRef") != old.get("roleRef"):
        yield invalid_value("roleRef", new.get("roleRef"), "cannot change roleRef")


def _role(binding: Raw, now: datetime) -> str:
    return f"{text(binding, 'roleRef.kind')}/{text(binding, 'roleRef.name')}"


def _subjects(kind: str) -> Cell:
    """The column of the subjects of a kind; service accounts are shown with their namespace."""

    def cell(binding: Raw, now: datetime) -> str:
        subjects = [s for s in rows(binding, "subjects") if text(s, "kind") == kind]
        if kind == "ServiceAccount":
            return ", ".join(f"{text(s, 'namespace')}/{text(s, 'name')}" for s in subjects)
        return ", ".join(text(s, "name") for s in subjects)

    return cell


def _strategy(*kinds: str) -> Strategy:
    return Strategy(
        defaults=_defaults,
        check=partial(_check, kinds=kinds),
        check_name=names.check_path_segment,
        check_update=_check_update,
        grants=True,
        columns=NAME
        | {"Role": _role}
        | AGE
        | {f"{kind}s+": _subjects(kind) for kind in ("User", "Group", "ServiceAccount")},
    )


ROLE_BINDINGS = Resource(
    GROUP, "v1", "rolebindings", "RoleBinding", create_on_update=True,
    strategy=_strategy("Role", "ClusterRole"),
)  # fmt: skip
CLUSTER_ROLE_BINDINGS = Resource(
    GROUP, "v1", "clusterrolebindings", "ClusterRoleBinding", False, create_on_update=True,
    strategy=_strategy("ClusterRole"),
)  # fmt: skip
