"""What batch jobs may not be.

Pure; called by `kinds.py`, for changes by `immutable.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.local.apiserver import api_errors
from muster.local.apiserver.kinds import pod_spec
from muster.local.apiserver.kinds.deployment import natural
from muster.local.apiserver.kinds.pod_containers import one_of
from muster.local.apiserver.objects import selector_matches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from muster.api.meta import Raw
    from muster.local.apiserver.api_errors import Cause

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
    causes = [] if spec.get("selector") else [api_errors.required("spec.selector")]
    causes += natural(spec, *_NUMBERS)
    causes += one_of(spec, "completionMode", _MODES, "spec")
    causes += _indexes(spec)
    replaced = ("Failed",) if spec.get("podFailurePolicy") else ("Failed", "TerminatingOrFailed")
    causes += one_of(spec, "podReplacementPolicy", replaced, "spec")
    template = spec["template"]
    labels = template["metadata"].get("labels")
    if not spec.get("selector") or not selector_matches(spec["selector"], labels or {}):
        told = "`selector` does not match template `labels`"
        causes.append(api_errors.invalid_value("spec.template.metadata.labels", labels, told))
    causes += pod_spec.check_pod_spec(template["spec"], "spec.template.spec")
    if template["spec"].get("restartPolicy") not in ("OnFailure", "Never"):
        field, value = "spec.template.spec.restartPolicy", template["spec"].get("restartPolicy")
        if value == "Always":
            causes.append(api_errors.not_supported(field, value, ("OnFailure", "Never")))
        else:
            causes.append(api_errors.required(field, 'valid values: "OnFailure", "Never"'))
    return causes


def _indexes(spec: Raw) -> Iterator[Cause]:
    """What only a job has whose pods are numbered."""
    indexed, many = spec.get("completionMode") == "Indexed", spec.get("completions")
    if indexed and many is None:
        yield api_errors.required("spec.completions", "when completion mode is Indexed")
    most = spec.get("maxFailedIndexes")
    if most is not None and spec.get("backoffLimitPerIndex") is None:
        told = "when maxFailedIndexes is specified"
        yield api_errors.required("spec.backoffLimitPerIndex", told)
    if not indexed:
        yield from (
            api_errors.invalid_value(f"spec.{field}", spec[field], _INDEXED)
            for field in _OF_INDEXED
            if spec.get(field) is not None
        )
        return
    if most is not None and many is not None and most > many:
        told = "must be less than or equal to completions"
        yield api_errors.invalid_value("spec.maxFailedIndexes", most, told)
    if spec.get("successPolicy") is not None:
        yield from _success(spec["successPolicy"].get("rules") or [], many or 0)


def _success(rules: list[Raw], many: int) -> Iterator[Cause]:
    if not rules:
        told = "at least one rules must be specified when the successPolicy is specified"
        yield api_errors.required(_RULES, told)
    for i, rule in enumerate(rules):
        path = f"{_RULES}[{i}]"
        count, indexes = rule.get("succeededCount"), rule.get("succeededIndexes")
        if count is None and indexes is None:
            told = "at least one of succeededCount or succeededIndexes must be specified"
            yield api_errors.required(path, told)
        if indexes is not None and (wrong := _wrong_indexes(indexes, many)):
            told = f"error parsing succeededIndexes: {wrong}"
            yield api_errors.invalid_value(f"{path}.succeededIndexes", indexes, told)
        if count is not None and count > many:
            told = f"must be less than or equal to {many} (the number of specified completions)"
            yield api_errors.invalid_value(f"{path}.succeededCount", count, told)


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


def check_update(new: Raw, old: Raw) -> Iterator[Cause]:
    """How many pods a job needs stays, unless they are numbered and all run at once."""
    many, before = new.get("completions"), old.get("completions")
    if many == before:
        return
    if new.get("completionMode") != "Indexed" or None in (many, before):
        yield api_errors.invalid_value("spec.completions", many, "field is immutable")
    elif many != new.get("parallelism"):
        told = "can only be modified in tandem with spec.parallelism"
        yield api_errors.invalid_value("spec.completions", many, told)
