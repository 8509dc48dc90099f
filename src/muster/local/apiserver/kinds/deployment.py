"""What deployments, replica sets and disruption budgets may not be.

Pure; called by `kinds.py`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from muster.local.apiserver import api_errors, objects
from muster.local.apiserver.kinds import pod_spec
from muster.local.apiserver.objects import selector_matches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from muster.api.meta import Raw
    from muster.local.apiserver.api_errors import Cause

_STRATEGIES = ("Recreate", "RollingUpdate")
_ROLLING = "spec.strategy.rollingUpdate"


def deployment(deployment: Raw) -> Iterator[Cause]:
    """What is wrong with a deployment."""
    spec: Raw = deployment["spec"]
    yield from natural(spec, "replicas")
    yield from _selector(spec)
    yield from _template(spec)
    yield from _strategy(spec.get("strategy") or {})
    yield from natural(spec, "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds")
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and deadline <= (spec.get("minReadySeconds") or 0):
        told = "must be greater than minReadySeconds"
        yield api_errors.invalid_value("spec.progressDeadlineSeconds", deadline, told)


def replica_set(replica_set: Raw) -> Iterator[Cause]:
    """What is wrong with a replica set."""
    spec: Raw = replica_set["spec"]
    yield from natural(spec, "replicas", "minReadySeconds")
    yield from _selector(spec)
    yield from _template(spec)


def _template(spec: Raw) -> Iterator[Cause]:
    path, template = "spec.template.spec", spec["template"]["spec"]
    yield from pod_spec.check_pod_spec(template, path)
    if template["restartPolicy"] != "Always":
        restart = template["restartPolicy"]
        yield api_errors.not_supported(f"{path}.restartPolicy", restart, ("Always",))


def _strategy(strategy: Raw) -> Iterator[Cause]:
    rolling = strategy.get("rollingUpdate")
    if strategy.get("type") not in _STRATEGIES:
        yield api_errors.not_supported("spec.strategy", strategy, _STRATEGIES)
    elif strategy["type"] == "Recreate" and rolling is not None:
        told = "may not be specified when strategy `type` is 'Recreate'"
        yield api_errors.forbidden_field(_ROLLING, told)
    elif strategy["type"] == "RollingUpdate":
        yield from _rolling(rolling or {})


def _rolling(rolling: Raw) -> Iterator[Cause]:
    """There must be one more, or one less, than asked for while they are replaced."""
    missing, extra = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    wrong = _share(missing)
    if wrong:
        yield api_errors.invalid_value(f"{_ROLLING}.maxUnavailable", missing, wrong)
    if told := _share(extra, most=None):
        yield api_errors.invalid_value(f"{_ROLLING}.maxSurge", extra, told)
        wrong = told
    if not wrong and missing in (0, "0%") and extra in (0, "0%"):
        told = "may not be 0 when `maxSurge` is 0"
        yield api_errors.invalid_value(f"{_ROLLING}.maxUnavailable", missing, told)


def _selector(spec: Raw) -> list[Cause]:
    selector = spec.get("selector")
    labels = spec["template"]["metadata"].get("labels")
    if selector is None:
        return [api_errors.required("spec.selector")]
    if not (selector.get("matchLabels") or selector.get("matchExpressions")):
        told = "empty selector is invalid for deployment"
        return [api_errors.invalid_value("spec.selector", selector, told)]
    if selector_matches(selector, labels or {}):
        return []
    told = "`selector` does not match template `labels`"
    return [api_errors.invalid_value("spec.template.metadata.labels", labels or {}, told)]


def natural(spec: Raw, *fields: str) -> list[Cause]:
    """The fields of a spec that are below nothing."""
    told = "must be greater than or equal to 0"
    return [
        api_errors.invalid_value(f"spec.{field}", spec[field], told)
        for field in fields
        if (spec.get(field) or 0) < 0
    ]


def budget(budget: Raw) -> list[Cause]:
    """What is wrong with a disruption budget."""
    spec: Raw = budget.get("spec") or {}
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        told = "minAvailable and maxUnavailable cannot be both set"
        return [api_errors.invalid_value("spec", objects.dump(spec).decode(), told)]
    return [
        api_errors.invalid_value(f"spec.{field}", spec[field], told)
        for field in ("minAvailable", "maxUnavailable")
        if spec.get(field) is not None and (told := _share(spec[field]))
    ]


def _share(value: int | str, most: int | None = 100) -> str:
    """What is wrong with so many, or so many percent."""
    if isinstance(value, int):
        return "" if value >= 0 else "must be greater than or equal to 0"
    if not re.fullmatch("[0-9]{1,9}%", value):
        return (
            "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%', "
            " or '93%', regex used for validation is '[0-9]+%')"
        )
    return "" if most is None or int(value[:-1]) <= most else f"must not be greater than {most}%"
