"""What roles and their bindings may not be.

Pure; called by `kinds.py`. What somebody may give away is another question, see `escalation.py`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from muster.local.apiserver import api_errors
from muster.local.apiserver.admission import names
from muster.local.apiserver.kinds.pod_containers import one_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from muster.api.meta import Raw
    from muster.local.apiserver.api_errors import Cause

_GROUP = "rbac.authorization.k8s.io"
_NEEDED = {
    "apiGroups": "resource rules must supply at least one api group",
    "resources": "resource rules must supply at least one resource",
}
_ABOUT_RESOURCES = ("apiGroups", "resources", "resourceNames")
_SUBJECTS = {"ServiceAccount": "", "User": _GROUP, "Group": _GROUP}


def _role(role: Raw, *, namespaced: bool) -> Iterator[Cause]:
    for i, rule in enumerate(role.get("rules") or ()):
        yield from _rule(rule, f"rules[{i}]", namespaced=namespaced)
    joined = role.get("aggregationRule")
    if joined is None:
        return
    path = "aggregationRule.clusterRoleSelectors"
    if not joined.get("clusterRoleSelectors"):
        told = "at least one clusterRoleSelector required if aggregationRule is non-nil"
        yield api_errors.required(path, told)
    for i, selector in enumerate(joined.get("clusterRoleSelectors") or ()):
        wrong = names.check_labels(selector.get("matchLabels") or {}, f"{path}[{i}].matchLabels")
        yield from wrong
        if wrong:
            yield api_errors.invalid_value(f"{path}[{i}]", None, "invalid label selector.")


def _rule(rule: Raw, path: str, *, namespaced: bool) -> Iterator[Cause]:
    if not rule.get("verbs"):
        yield api_errors.required(f"{path}.verbs", "verbs must contain at least one value")
    urls = rule.get("nonResourceURLs")
    if not urls:
        yield from (
            api_errors.required(f"{path}.{field}", told)
            for field, told in _NEEDED.items()
            if not rule.get(field)
        )
        return
    field = f"{path}.nonResourceURLs"
    if namespaced:
        told = "namespaced rules cannot apply to non-resource URLs"
        yield api_errors.invalid_value(field, urls, told)
    if any(rule.get(other) for other in _ABOUT_RESOURCES):
        told = "rules cannot apply to both regular resources and non-resource URLs"
        yield api_errors.invalid_value(field, urls, told)


def _binding(binding: Raw, *, kinds: tuple[str, ...]) -> Iterator[Cause]:
    role: Raw = binding.get("roleRef") or {}
    yield from one_of(role, "apiGroup", (_GROUP,), "roleRef")
    if role.get("kind") not in kinds:
        yield api_errors.not_supported("roleRef.kind", role.get("kind") or "", kinds)
    name = str(role.get("name") or "")
    if not name:
        yield api_errors.required("roleRef.name")
    yield from (
        api_errors.invalid_value("roleRef.name", name, told)
        for told in names.check_path_segment(name)
    )
    for i, subject in enumerate(binding.get("subjects") or ()):
        yield from _subject(subject, f"subjects[{i}]", namespaced="Role" in kinds)


def _subject(subject: Raw, path: str, *, namespaced: bool) -> Iterator[Cause]:
    kind, name = str(subject.get("kind") or ""), str(subject.get("name") or "")
    if not name:
        yield api_errors.required(f"{path}.name")
    if kind not in _SUBJECTS:
        yield api_errors.not_supported(f"{path}.kind", kind, tuple(_SUBJECTS))
        return
    if name and kind == "ServiceAccount":
        wrong = names.check_subdomain(name)
        yield from (api_errors.invalid_value(f"{path}.name", name, told) for told in wrong)
    group = _SUBJECTS[kind]
    if (subject.get("apiGroup") or "") != group:
        yield api_errors.not_supported(f"{path}.apiGroup", subject.get("apiGroup"), (group,))
    if kind == "ServiceAccount" and not namespaced and not subject.get("namespace"):
        yield api_errors.required(f"{path}.namespace")


RULES: dict[str, Callable[[Raw], Iterator[Cause]]] = {
    f"roles.{_GROUP}": partial(_role, namespaced=True),
    f"clusterroles.{_GROUP}": partial(_role, namespaced=False),
    f"rolebindings.{_GROUP}": partial(_binding, kinds=("Role", "ClusterRole")),
    f"clusterrolebindings.{_GROUP}": partial(_binding, kinds=("ClusterRole",)),
}
