"""Rules for names, labels, annotations, owner references and finalizers of any kind.

Causes have Kubernetes' exact wording, because people paste it into search engines.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from localkube.apiserver import causes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kubekit.objects.meta import Raw
    from localkube.apiserver.causes import Cause

Rule = Callable[[str], list[str]]
"""The problems of a text; none if it follows the rule."""

# Kubernetes' own patterns: the messages below quote them.
_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_OLD_LABEL = r"[a-z]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = rf"({_QUALIFIED})?"

_RULES = {
    _OLD_LABEL: (
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an"
        " alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or"
        f" 'abc-123', regex used for validation is '{_OLD_LABEL}')"
    ),
    _LABEL: (
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and"
        " must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex"
        f" used for validation is '{_LABEL}')"
    ),
    _SUBDOMAIN: (
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or"
        " '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex"
        f" used for validation is '{_SUBDOMAIN}')"
    ),
    _QUALIFIED: (
        "must consist of alphanumeric characters, '-', '_' or '.', and must start and"
        " end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex"
        f" used for validation is '{_QUALIFIED}')"
    ),
    _VALUE: (
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or"
        " '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or"
        " 'my_value',  or '12345', regex used for validation is"
        f" '{_VALUE}')"
    ),
}


def _matches(pattern: str, longest: int, unit: str = "characters") -> Rule:
    compiled = re.compile(pattern)

    def check(text: str) -> list[str]:
        problems = []
        if len(text) > longest:
            problems.append(f"must be no more than {longest} {unit}")
        if not compiled.fullmatch(text):
            problems.append(_RULES[pattern])
        return problems

    return check


check_subdomain = _matches(_SUBDOMAIN, 253)
check_plain_label = _matches(_LABEL, 63)
"""One part of a domain name, without the extra hint about dots that `check_label` gives."""
check_dns1035_label = _matches(_OLD_LABEL, 63)
"""One part of a domain name that begins with a letter."""
check_label_value = _matches(_VALUE, 63, "bytes")
_key_prefix = _matches(_SUBDOMAIN, 253, "bytes")
_key_name = _matches(_QUALIFIED, 63, "bytes")


def check_label(text: str) -> list[str]:
    """One part of a domain name."""
    problems = check_plain_label(text)
    # A valid domain name with dots gets the short hint instead of the rule.
    if problems and "." in text and not check_subdomain(text):
        return [p for p in problems if p != _RULES[_LABEL]] + ["must not contain dots"]
    return problems


def check_path_segment(text: str) -> list[str]:
    """Names of RBAC objects: any text that can be one part of a path."""
    if text in (".", ".."):
        return [f"may not be '{text}'"]
    return [f"may not contain '{sign}'" for sign in "/%" if sign in text]


def invalid_values(field: str, value: object, problems: list[str]) -> list[Cause]:
    """A cause for each rule that the value of a field breaks."""
    return [causes.invalid(field, value, problem) for problem in problems]


def check_labels(labels: dict[str, Any], field: str = "metadata.labels") -> Iterator[Cause]:
    """The causes for invalid labels."""
    for key, value in labels.items():
        yield from invalid_values(field, key, check_key(key))
        is_text = isinstance(value, str)
        problems = check_label_value(value) if is_text else ["must be a string"]
        yield from invalid_values(field, value, problems)


def check_key(key: str) -> list[str]:
    """The problems of a label or annotation key: `[prefix/]name`."""
    prefix, slash, name = key.partition("/")
    if "/" in name:
        more = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a valid label key {_RULES[_QUALIFIED]} {more}"]
    name = name if slash else prefix
    problems = []
    if slash:
        of_prefix = _key_prefix(prefix) if prefix else ["must be non-empty"]
        problems = [f"prefix part {text}" for text in of_prefix]
    if not name:
        problems.append("name part must be non-empty")
    return problems + [f"name part {text}" for text in _key_name(name)]


UNQUALIFIED = "name is neither a standard finalizer name nor is it fully qualified"
_STANDARD = frozenset({"foregroundDeletion", "orphan", "kubernetes"})
_MAX_ANNOTATIONS = 256 * 1024


def check_metadata(check_name: Rule, meta: Raw) -> Iterator[Cause]:
    """The causes for invalid metadata; `check_name` is the kind's rule for names."""
    prefix, name = str(meta.get("generateName") or ""), str(meta.get("name") or "")
    body = prefix.removesuffix("-")  # the suffix follows the dash, so the name ends well
    if body:
        yield from invalid_values("metadata.generateName", prefix, check_name(body))
    if not name:
        yield causes.required("metadata.name", "name or generateName is required")
    else:
        yield from invalid_values("metadata.name", name, check_name(name))
    yield from check_labels(meta.get("labels") or {})
    annotations = meta.get("annotations") or {}
    for key in annotations:
        yield from invalid_values("metadata.annotations", key, check_key(key))
    if sum(len(k) + len(v) for k, v in annotations.items()) > _MAX_ANNOTATIONS:
        yield causes.too_long("metadata.annotations", _MAX_ANNOTATIONS)
    yield from _owners(meta.get("ownerReferences") or [])
    yield from _finalizers(meta.get("finalizers") or [])


def _finalizers(finalizers: list[str]) -> Iterator[Cause]:
    for i, name in enumerate(finalizers):
        problems = check_key(name)
        yield from invalid_values("metadata.finalizers", name, problems)
        if not problems and "/" not in name and name not in _STANDARD:
            yield causes.invalid(f"metadata.finalizers[{i}]", name, UNQUALIFIED)
    if {"orphan", "foregroundDeletion"} <= set(finalizers):
        detail = "finalizer orphan and foregroundDeletion cannot be both set"
        yield causes.invalid("metadata.finalizers", finalizers, detail)


def _owners(owners: list[Raw]) -> Iterator[Cause]:
    path = "metadata.ownerReferences"
    for owner in owners:
        yield from (
            causes.invalid(f"{path}.{f}", "", f"{f} must not be empty")
            for f in ("apiVersion", "kind", "name", "uid")
            if not owner.get(f)
        )
        version = str(owner.get("apiVersion") or "")
        if version.count("/") > 1:
            detail = f"unexpected GroupVersion string: {version}"
            yield causes.invalid(f"{path}.apiVersion", version, detail)
        if (version, owner.get("kind")) == ("v1", "Event"):
            yield causes.invalid(path, owner, "/v1, Kind=Event is disallowed from being an owner")
    controllers = [o for o in owners if o.get("controller")]
    if len(controllers) > 1:
        first, second = (f"{o.get('kind')}/{o.get('name')}" for o in controllers[:2])
        detail = (
            "Only one reference can have Controller set to true."
            f' Found "true" in references for {first} and {second}'
        )
        yield causes.invalid(path, owners, detail)
