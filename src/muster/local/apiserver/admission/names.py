"""What may be called what: names, namespaces, labels.

Pure. Called by `admit.py` on every write. Each check gives the causes found, worded as Kubernetes
words them, because people paste these sentences into search engines.

What metadata may not say, of any kind.

Pure; called by `admit.py` on every write.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from muster.local.apiserver import api_errors
from muster.local.apiserver.api_errors import Cause, invalid_value, required

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from muster.api.meta import Raw
    from muster.local.apiserver.api_errors import Cause


_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_OLD_LABEL = r"[a-z]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = rf"({_QUALIFIED})?"

_SAYS = {
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
        "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and"
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


def _matches(pattern: str, longest: int) -> Callable[[str], list[str]]:
    compiled = re.compile(pattern)

    def check(text: str) -> list[str]:
        wrong = []
        if len(text) > longest:
            wrong.append(f"must be no more than {longest} characters")
        if not compiled.fullmatch(text):
            wrong.append(_SAYS[pattern])
        return wrong

    return check


_subdomain = _matches(_SUBDOMAIN, 253)
_one_label = _matches(_LABEL, 63)
_old_label = _matches(_OLD_LABEL, 63)
_qualified = _matches(_QUALIFIED, 63)
_value = _matches(_VALUE, 63)


def _label(text: str) -> list[str]:
    """One part of a domain name."""
    wrong = _one_label(text)
    if wrong and "." in text and not _subdomain(text):
        return [w for w in wrong if w != _SAYS[_LABEL]] + ["must not contain dots"]
    return wrong


def _segment(text: str) -> list[str]:
    """RBAC objects may be called anything that fits into a path."""
    if text in (".", ".."):
        return [f"may not be '{text}'"]
    return [f"may not contain '{sign}'" for sign in "/%" if sign in text]


_BY_RESOURCE: dict[str, Callable[[str], list[str]]] = {
    "namespaces": _label,
    "services": _label,
    "roles.rbac.authorization.k8s.io": _segment,
    "clusterroles.rbac.authorization.k8s.io": _segment,
    "rolebindings.rbac.authorization.k8s.io": _segment,
    "clusterrolebindings.rbac.authorization.k8s.io": _segment,
}


def check_name(resource: str, name: str) -> list[Cause]:
    """What is wrong with the name of an object of this resource."""
    if not name:
        return [required("metadata.name", "name or generateName is required")]
    check = _BY_RESOURCE.get(resource, _subdomain)
    return [invalid_value("metadata.name", name, text) for text in check(name)]


def check_prefix(resource: str, prefix: str) -> list[Cause]:
    """What is wrong with the beginning of a name that is to be generated."""
    check = _BY_RESOURCE.get(resource, _subdomain)
    body = prefix.removesuffix("-") if prefix.endswith("-") else prefix
    wrong = check(body) if body else []
    return [invalid_value("metadata.generateName", prefix, text) for text in wrong]


def check_labels(labels: dict[str, Any], field: str = "metadata.labels") -> list[Cause]:
    """What is wrong with the labels."""
    causes = []
    for key, value in labels.items():
        causes += [invalid_value(field, key, text) for text in check_key(key)]
        if not isinstance(value, str):
            causes.append(invalid_value(field, value, "must be a string"))
        else:
            causes += [invalid_value(field, value, text) for text in _value(value)]
    return causes


def check_key(key: str) -> list[str]:
    """What is wrong with a label or annotation key: `[prefix/]name`."""
    prefix, slash, name = key.rpartition("/")
    wrong = [f"prefix part {text}" for text in _subdomain(prefix)] if slash else []
    if not name:
        wrong.append("name part must be non-empty")
    return wrong + _qualified(name)


def check_label(text: str) -> list[str]:
    """What is wrong with one part of a domain name."""
    return _label(text)


def check_plain_label(text: str) -> list[str]:
    """The same, in fields where dots are no mistake of their own."""
    return _one_label(text)


def check_dns1035_label(text: str) -> list[str]:
    """The same, where it must begin with a letter."""
    return _old_label(text)


def check_subdomain(text: str) -> list[str]:
    """What is wrong with a domain name."""
    return _subdomain(text)


def check_path_segment(text: str) -> list[str]:
    """What is wrong with a part of a path."""
    return _segment(text)


UNQUALIFIED = "name is neither a standard finalizer name nor is it fully qualified"
_STANDARD = frozenset({"foregroundDeletion", "orphan", "kubernetes"})
_ANNOTATIONS = 256 * 1024


def check_metadata(collection: str, meta: Raw) -> Iterator[Cause]:
    """What is wrong with the metadata of an object in this collection."""
    given = str(meta.get("generateName") or "")
    yield from check_prefix(collection, given)
    yield from check_name(collection, str(meta.get("name") or ""))
    yield from check_labels(meta.get("labels") or {})
    annotations = meta.get("annotations") or {}
    for key in annotations:
        yield from (
            api_errors.invalid_value("metadata.annotations", key, told) for told in check_key(key)
        )
    if sum(len(k) + len(v) for k, v in annotations.items()) > _ANNOTATIONS:
        told = f"Too long: may not be more than {_ANNOTATIONS} bytes"
        yield api_errors.Cause("metadata.annotations", "FieldValueTooLong", told)
    yield from _owners(meta.get("ownerReferences") or [])
    yield from _finalizers(meta.get("finalizers") or [])


def _finalizers(finalizers: list[str]) -> Iterator[Cause]:
    for i, name in enumerate(finalizers):
        wrong = check_key(name)
        yield from (api_errors.invalid_value("metadata.finalizers", name, told) for told in wrong)
        if not wrong and "/" not in name and name not in _STANDARD:
            yield api_errors.invalid_value(f"metadata.finalizers[{i}]", name, UNQUALIFIED)
    if {"orphan", "foregroundDeletion"} <= set(finalizers):
        told = "finalizer orphan and foregroundDeletion cannot be both set"
        yield api_errors.invalid_value("metadata.finalizers", finalizers, told)


def _owners(owners: list[Raw]) -> Iterator[Cause]:
    path = "metadata.ownerReferences"
    for owner in owners:
        yield from (
            api_errors.invalid_value(f"{path}.{f}", "", f"{f} must not be empty")
            for f in ("apiVersion", "kind", "name", "uid")
            if not owner.get(f)
        )
        version = str(owner.get("apiVersion") or "")
        if version.count("/") > 1:
            told = f"unexpected GroupVersion string: {version}"
            yield api_errors.invalid_value(f"{path}.apiVersion", version, told)
        if (version, owner.get("kind")) == ("v1", "Event"):
            yield api_errors.invalid_value(
                path, owner, "/v1, Kind=Event is disallowed from being an owner"
            )
    controllers = [o for o in owners if o.get("controller")]
    if len(controllers) > 1:
        first, second = (f"{o.get('kind')}/{o.get('name')}" for o in controllers[:2])
        told = (
            "Only one reference can have Controller set to true."
            f' Found "true" in references for {first} and {second}'
        )
        yield api_errors.invalid_value(path, owners, told)
