"""What batch jobs may not be.

Pure; called by `kinds.py`, for changes by `immutable.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.local.apiserver import status
from muster.local.apiserver.admission.validation import pods
from muster.local.apiserver.admission.validation.containers import one_of
from muster.local.apiserver.admission.validation.workloads import natural
from muster.local.apiserver.choosing import chooses

if TYPE_CHECKING:
    from collections.abc import Iterator

    from muster.api.meta import Raw
    from muster.local.apiserver.status import Cause

_NUMBERS = (
    "parallelism",
    "completions",
    "backoffLimit",
    "activeDeadlineSeconds",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)
_MODES = ("NonIndexed", "Indexed")
_OF_INDEXED = ("backoffLimitPerIndex", "maxFailedIndexes", "successPolicy")
_INDEXED = "requires indexed completion mode"
_RULES = "spec.successPolicy.rules"


def check(job: Raw) -> list[Cause]:
    """What is wrong with a job."""
    spec: Raw = job["spec"]
    causes = [] if spec.get("selector") else [status.required("spec.selector")]
    causes += natural(spec, *_NUMBERS)
    causes += one_of(spec, "completionMode", _MODES, "spec")
    causes += _indexes(spec)
    replaced = ("Failed",) if spec.get("podFailurePolicy") else ("Failed", "TerminatingOrFailed")
    causes += one_of(spec, "podReplacementPolicy", replaced, "spec")
    template = spec["template"]
    labels = template["metadata"].get("labels")
    if not spec.get("selector") or not chooses(spec["selector"], labels or {}):
        told = "`selector` does not match template `labels`"
        causes.append(status.bad_value("spec.template.metadata.labels", labels, told))
    causes += pods.check(template["spec"], "spec.template.spec")
    if template["spec"].get("restartPolicy") not in ("OnFailure", "Never"):
        field, value = "spec.template.spec.restartPolicy", template["spec"].get("restartPolicy")
        if value == "Always":
            causes.append(status.not_supported(field, value, ("OnFailure", "Never")))
        else:
            causes.append(status.required(field, 'valid values: "OnFailure", "Never"'))
    return causes


def _indexes(spec: Raw) -> Iterator[Cause]:
    """What only a job has whose pods are numbered."""
    indexed, many = spec.get("completionMode") == "Indexed", spec.get("completions")
    if indexed and many is None:
        yield status.required("spec.completions", "when completion mode is Indexed")
    most = spec.get("maxFailedIndexes")
    if most is not None and spec.get("backoffLimitPerIndex") is None:
        told = "when maxFailedIndexes is specified"
        yield status.required("spec.backoffLimitPerIndex", told)
    if not indexed:
        yield from (
            status.bad_value(f"spec.{field}", spec[field], _INDEXED)
            for field in _OF_INDEXED
            if spec.get(field) is not None
        )
        return
    if most is not None and many is not None and most > many:
        told = "must be less than or equal to completions"
        yield status.bad_value("spec.maxFailedIndexes", most, told)
    if spec.get("successPolicy") is not None:
        yield from _success(spec["successPolicy"].get("rules") or [], many or 0)


def _success(rules: list[Raw], many: int) -> Iterator[Cause]:
    if not rules:
        told = "at least one rules must be specified when the successPolicy is specified"
        yield status.required(_RULES, told)
    for i, rule in enumerate(rules):
        path = f"{_RULES}[{i}]"
        count, indexes = rule.get("succeededCount"), rule.get("succeededIndexes")
        if count is None and indexes is None:
            told = "at least one of succeededCount or succeededIndexes must be specified"
            yield status.required(path, told)
        if indexes is not None and (wrong := _wrong_indexes(indexes, many)):
            told = f"error parsing succeededIndexes: {wrong}"
            yield status.bad_value(f"{path}.succeededIndexes", indexes, told)
        if count is not None and count > many:
            told = f"must be less than or equal to {many} (the number of specified completions)"
            yield status.bad_value(f"{path}.succeededCount", count, told)


def _wrong_indexes(indexes: str, many: int) -> str:
    """What is wrong with `0,2-4`: it must be of numbers that grow, and of few enough."""
    last = -1
    for span in indexes.split(","):
        for text in span.split("-"):
            if not text.isdecimal():
                return f'cannot convert string to integer for index: "{text}"'
            if int(text) >= many:
                return f'too large index: "{text}"'
            if int(text) <= last:
                return f"non-increasing order, previous: {last}, current: {text}"
            last = int(text)
    return ""


def check_change(new: Raw, old: Raw) -> Iterator[Cause]:
    """How many pods a job needs stays, unless they are numbered and all run at once."""
    many, before = new.get("completions"), old.get("completions")
    if many == before:
        return
    if new.get("completionMode") != "Indexed" or None in (many, before):
        yield status.bad_value("spec.completions", many, "field is immutable")
    elif many != new.get("parallelism"):
        told = "can only be modified in tandem with spec.parallelism"
        yield status.bad_value("spec.completions", many, told)
