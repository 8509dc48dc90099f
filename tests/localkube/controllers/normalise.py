"""Objects of two clusters made comparable: what differs between any two runs is taken out.

Hashes of templates are named by the revision they belong to, generated suffixes are cut, times,
uids, addresses and versions are replaced; lists of objects are sorted by what is left.
"""

from __future__ import annotations

import json
import re
from typing import Any

Raw = dict[str, Any]

_TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$")
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_MINUTE = re.compile(r"(?<=-)\d{8}(?=\b)")
"""The time in the name of a cron job's job."""
_ADDRESS = re.compile(r"^\d+\.\d+\.\d+\.\d+$")
_SUFFIX = re.compile(r"(?<=-)[bcdfghjklmnpqrstvwxz2456789]{5}(?= |$)")
_DROPPED = {
    "endpoints.kubernetes.io/last-change-trigger-time",
    "resourceVersion",
    "managedFields",
    "generation",
    "observedGeneration",
    "uid",
}
# What the API servers themselves add, differently on purpose.
_NOT_OURS = (
    "tolerations",
    "volumes",
    "serviceAccount",
    "serviceAccountName",
    "volumeMounts",
    "kubernetes.io/pvc-protection",
)
_REVISION = "deployment.kubernetes.io/revision"
_HASH = "pod-template-hash"
# Of stateful sets and of daemon sets.
_REVISION_HASHES = ("controller.kubernetes.io/hash", "controller-revision-hash")


def hashes(sets: list[Raw], revisions: list[Raw]) -> dict[str, str]:
    """The template hashes, named by revision."""
    of_sets = {
        one["metadata"]["labels"][_HASH]: f"<hash {one['metadata']['annotations'][_REVISION]}>"
        for one in sets
        if _HASH in one["metadata"].get("labels", {})
    }
    return of_sets | {
        one["metadata"]["labels"][label]: f"<hash {one['revision']}>"
        for one in revisions
        for label in _REVISION_HASHES
        if label in one["metadata"]["labels"]
    }


def normalised(objects: list[Raw], named: dict[str, str], namespace: str) -> list[Raw]:
    """Sorted and without accidents."""
    plain = [_clean(one, {**named, namespace: "<ns>"}) for one in objects]
    return sorted(plain, key=lambda one: json.dumps(one, sort_keys=True))


def _clean(value: Any, named: dict[str, str]) -> Any:
    if isinstance(value, dict):
        cleaned = {
            key: _clean(inner, named)
            for key, inner in value.items()
            if key not in _DROPPED and key not in _NOT_OURS
        }
        # The API servers differ in which zero values of Go they send.
        return {key: inner for key, inner in cleaned.items() if inner not in (None, "", {}, [])}
    if isinstance(value, list):
        rows = [_clean(inner, named) for inner in value if inner not in _NOT_OURS]
        # The order of conditions and endpoints tells nothing.
        return sorted(rows, key=lambda one: json.dumps(one, sort_keys=True))
    return _text(value, named) if isinstance(value, str) else value


def _text(text: str, named: dict[str, str]) -> str:
    if _TIME.match(text):
        return "<time>"
    if _ADDRESS.match(text):
        return "<address>"
    text = _SUFFIX.sub("<any>", _MINUTE.sub("<minute>", _UID.sub("<uid>", text)))
    for one, name in named.items():
        text = text.replace(one, name)
    return text
