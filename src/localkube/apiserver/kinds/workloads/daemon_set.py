"""DaemonSet: defaults, checks, the count of its templates, columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubekit.objects.annotation_values import read_integer
from kubekit.objects.quantity import MAX_INT64
from localkube.apiserver.api_errors import (
    Causes,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from localkube.apiserver.kinds import fields
from localkube.apiserver.kinds.pods import pod_template
from localkube.apiserver.resource import Resource, Strategy
from localkube.apiserver.views.cells import AGE, NAME, number_at, pairs
from localkube.apiserver.views.cells import fields as map_at

if TYPE_CHECKING:
    from datetime import datetime

    from kubekit.objects.meta import Raw

_TYPES = ("RollingUpdate", "OnDelete")
_UPDATE = "spec.updateStrategy"
_ROLLING = f"{_UPDATE}.rollingUpdate"
# Only the server counts the templates; controllers label pods with the number.
_GENERATION = "deprecated.daemonset.template.generation"
_COUNTS = (
    "currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady",
)  # fmt: skip
_ALL_COUNTS = (
    *_COUNTS, "observedGeneration", "updatedNumberScheduled", "numberAvailable",
    "numberUnavailable", "collisionCount",
)  # fmt: skip


def _defaults(daemon_set: Raw) -> None:
    spec = fields.fill(fields.ensure_map(daemon_set, "spec"), revisionHistoryLimit=10)
    strategy = fields.fill(fields.ensure_map(spec, "updateStrategy"), type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        fields.fill(fields.ensure_map(strategy, "rollingUpdate"), maxUnavailable=1, maxSurge=0)
    pod_template.complete_template(spec)
    fields.fill(fields.ensure_map(daemon_set, "status"), **dict.fromkeys(_COUNTS, 0))
    fields.fill(fields.ensure_map(daemon_set["metadata"], "annotations"), **{_GENERATION: "0"})


def _finish_create(daemon_set: Raw, now: str) -> None:
    daemon_set["metadata"]["annotations"][_GENERATION] = str(max(1, _generation(daemon_set)))


def _finish_update(new: Raw, old: Raw, subresource: str) -> None:
    changed = new["spec"]["template"] != old["spec"]["template"]
    new["metadata"]["annotations"][_GENERATION] = str(_generation(old) + changed)


def _generation(daemon_set: Raw) -> int:
    text = str((daemon_set["metadata"].get("annotations") or {}).get(_GENERATION) or "")
    return read_integer(text, MAX_INT64) or 0


# -- checks --------------------------------------------------------------------------------------


def _check(daemon_set: Raw) -> Causes:
    spec: Raw = daemon_set["spec"]
    selector = spec.get("selector")
    if selector is not None and not (
        selector.get("matchLabels") or selector.get("matchExpressions")
    ):
        yield invalid_value("spec.selector", selector, "empty selector is invalid for daemonset")
    else:
        yield from pod_template.check_template_labels(spec, None)
    yield from pod_template.check_template(spec)
    if spec["template"]["spec"].get("activeDeadlineSeconds") is not None:
        detail = "activeDeadlineSeconds in DaemonSet is not Supported"
        yield forbidden_field("spec.template.spec.activeDeadlineSeconds", detail)
    yield from fields.check_not_negative(spec, "minReadySeconds")
    yield from _check_update_strategy(spec["updateStrategy"])
    yield from fields.check_not_negative(spec, "revisionHistoryLimit")


def _check_update_strategy(strategy: Raw) -> Causes:
    if strategy["type"] not in _TYPES:
        yield not_supported(_UPDATE, strategy, _TYPES)
    elif strategy["type"] == "RollingUpdate":
        yield from _check_rolling(strategy["rollingUpdate"])


def _check_rolling(rolling: Raw) -> Causes:
    """An update either takes pods away first or adds pods first."""
    used = {}
    for name in ("maxUnavailable", "maxSurge"):
        value = rolling[name]
        problem = fields.int_or_percent_problem(value)
        if problem:
            yield invalid_value(f"{_ROLLING}.{name}", value, problem)
        used[name] = _amount(value) != 0
    if all(used.values()):
        detail = "may not be set when maxUnavailable is non-zero"
        yield invalid_value(f"{_ROLLING}.maxSurge", rolling["maxSurge"], detail)
    elif not any(used.values()):
        yield required(f"{_ROLLING}.maxUnavailable", "cannot be 0 when maxSurge is 0")


def _amount(value: int | str) -> int:
    """The number without its percent sign; a text that has none counts as 0."""
    digits = value[:-1] if isinstance(value, str) and value.endswith("%") else value
    return digits if isinstance(digits, int) else read_integer(digits) or 0


def _check_status(new: Raw, old: Raw) -> Causes:
    yield from fields.check_not_negative(new["status"], *_ALL_COUNTS, path="status")


def _uncounted(daemon_set: Raw) -> Raw:
    """The set as a row shows it: without the count of its templates, as on a real server."""
    meta = daemon_set["metadata"]
    shown = {k: v for k, v in (meta.get("annotations") or {}).items() if k != _GENERATION}
    others = {name: value for name, value in meta.items() if name != "annotations"}
    return {"metadata": others | ({"annotations": shown} if shown else {})}


def _node_selector(daemon_set: Raw, now: datetime) -> str:
    return pairs(map_at(daemon_set, "spec.template.spec.nodeSelector"))


DAEMON_SETS = Resource(
    "apps", "v1", "daemonsets", "DaemonSet", short=("ds",), categories=("all",),
    subresources=frozenset({"status"}),
    strategy=Strategy(
        defaults=_defaults,
        finish_create=_finish_create,
        finish_update=_finish_update,
        check=_check,
        check_status_update=_check_status,
        immutable=("spec.selector",),
        generation="spec",
        columns=NAME | {
            "Desired": number_at("status.desiredNumberScheduled"),
            "Current": number_at("status.currentNumberScheduled"),
            "Ready": number_at("status.numberReady"),
            "Up-to-date": number_at("status.updatedNumberScheduled"),
            "Available": number_at("status.numberAvailable"),
            "Node Selector": _node_selector,
        } | AGE | pod_template.COLUMNS,
        row_object=_uncounted,
    ),
)  # fmt: skip
