"""The kinds of apps: Deployment, ReplicaSet, DaemonSet, StatefulSet and ControllerRevision.

For each: defaults, checks, columns. What their templates and selectors share is in `pod_templates`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubekit.objects.annotation_values import read_integer
from kubekit.objects.quantity import MAX_INT64
from localkube.apiserver import causes, rules
from localkube.apiserver.admission import names
from localkube.apiserver.kinds import volumes_and_claims
from localkube.apiserver.kinds.field_rules import (
    check_int_or_percent,
    check_not_negative,
    ensure_map,
    fill,
)
from localkube.apiserver.kinds.pod_templates import (
    check_selector,
    check_template,
    columns,
    complete_template,
)
from localkube.apiserver.resource import Resource
from localkube.apiserver.views.cells import (
    AGE,
    NAME,
    NONE,
    number_at,
    pairs_at,
    ready_replicas,
    rows,
    text,
)

if TYPE_CHECKING:
    from datetime import datetime

    from kubekit.objects.meta import Raw
    from localkube.apiserver.causes import Causes


# -- Deployment ----------------------------------------------------------------------------------

_STRATEGIES = ("Recreate", "RollingUpdate")
_DEPLOYMENT_ROLLING = "spec.strategy.rollingUpdate"


def _complete_deployment(deployment: Raw) -> None:
    spec = ensure_map(deployment, "spec")
    fill(spec, replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600)
    strategy = fill(ensure_map(spec, "strategy"), type="RollingUpdate")
    if strategy.get("type") == "RollingUpdate":
        fill(ensure_map(strategy, "rollingUpdate"), maxUnavailable="25%", maxSurge="25%")
    complete_template(spec)
    fill(deployment, status={})


def _check_deployment(deployment: Raw) -> Causes:
    spec: Raw = deployment["spec"]
    yield from check_not_negative(spec, "replicas")
    yield from _check_pods(spec)
    yield from _check_strategy(spec.get("strategy") or {})
    yield from check_not_negative(
        spec, "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"
    )
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and deadline <= (spec.get("minReadySeconds") or 0):
        detail = "must be greater than minReadySeconds"
        yield causes.invalid("spec.progressDeadlineSeconds", deadline, detail)


def _check_pods(spec: Raw) -> Causes:
    """The selector and the template of a deployment or a replica set."""
    if spec.get("selector") is None:
        yield causes.required("spec.selector")
    else:
        yield from check_selector(spec, "deployment", {})
    yield from check_template(spec)


def _check_template_of(spec: Raw, kind: str) -> Causes:
    """The template of a set whose pods have no deadline."""
    yield from check_template(spec)
    if spec["template"]["spec"].get("activeDeadlineSeconds") is not None:
        detail = f"activeDeadlineSeconds in {kind} is not Supported"
        yield causes.forbidden("spec.template.spec.activeDeadlineSeconds", detail)


def _check_strategy(strategy: Raw) -> Causes:
    rolling = strategy.get("rollingUpdate")
    if strategy.get("type") not in _STRATEGIES:
        yield causes.not_supported("spec.strategy", strategy, _STRATEGIES)
    elif strategy["type"] == "Recreate" and rolling is not None:
        detail = "may not be specified when strategy `type` is 'Recreate'"
        yield causes.forbidden(_DEPLOYMENT_ROLLING, detail)
    elif strategy["type"] == "RollingUpdate":
        yield from _check_deployment_rolling(rolling or {})


def _check_deployment_rolling(rolling: Raw) -> Causes:
    """While pods are replaced there must be more, or fewer, of them than requested."""
    missing, extra = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    problems = [
        *check_int_or_percent(missing, f"{_DEPLOYMENT_ROLLING}.maxUnavailable"),
        *check_int_or_percent(extra, f"{_DEPLOYMENT_ROLLING}.maxSurge", most=None),
    ]
    yield from problems
    if not problems and missing in (0, "0%") and extra in (0, "0%"):
        detail = "may not be 0 when `maxSurge` is 0"
        yield causes.invalid(f"{_DEPLOYMENT_ROLLING}.maxUnavailable", missing, detail)


DEPLOYMENTS = Resource(
    "apps", "v1", "deployments", "Deployment", short=("deploy",), categories=("all",),
    subresources=frozenset({"status", "scale"}),
    strategy=rules.Strategy(
        status=rules.Status(keeps={"f:metadata": {"f:labels": {}}, "f:spec": {}}),
        completion=rules.Completion(defaults=_complete_deployment),
        checks=rules.Checks(always=_check_deployment, immutable=("spec.selector",)),
        generation="spec",
        generation_metadata="annotations",
        table=rules.Table(NAME | {
            "Ready": ready_replicas,
            "Up-to-date": number_at("status.updatedReplicas"),
            "Available": number_at("status.availableReplicas"),
        } | AGE | columns()),
    ),
)  # fmt: skip


# -- ReplicaSet ----------------------------------------------------------------------------------


def _complete_replica_set(replica_set: Raw) -> None:
    complete_template(fill(ensure_map(replica_set, "spec"), replicas=1))
    fill(replica_set, status={"replicas": 0})


def _check_replica_set(replica_set: Raw) -> Causes:
    spec: Raw = replica_set["spec"]
    yield from check_not_negative(spec, "replicas", "minReadySeconds")
    yield from _check_pods(spec)


REPLICA_SETS = Resource(
    "apps", "v1", "replicasets", "ReplicaSet", short=("rs",), categories=("all",),
    subresources=frozenset({"status", "scale"}), fields=("status.replicas",),
    strategy=rules.Strategy(
        completion=rules.Completion(defaults=_complete_replica_set),
        checks=rules.Checks(always=_check_replica_set, immutable=("spec.selector",)),
        generation="spec",
        table=rules.Table(NAME | {
            "Desired": number_at("spec.replicas"),
            "Current": number_at("status.replicas"),
            "Ready": number_at("status.readyReplicas"),
        } | AGE | columns()),
    ),
)  # fmt: skip


# -- DaemonSet -----------------------------------------------------------------------------------

_TYPES = ("RollingUpdate", "OnDelete")
_DAEMON_SET_UPDATE = "spec.updateStrategy"
_DAEMON_SET_ROLLING = f"{_DAEMON_SET_UPDATE}.rollingUpdate"
# Only the server counts the templates; controllers label pods with the number.
_GENERATION = "deprecated.daemonset.template.generation"
_FILLED = (
    "currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady",
)  # fmt: skip
_COUNTS = (
    *_FILLED, "observedGeneration", "updatedNumberScheduled", "numberAvailable",
    "numberUnavailable", "collisionCount",
)  # fmt: skip


def _complete_daemon_set(daemon_set: Raw) -> None:
    spec = fill(ensure_map(daemon_set, "spec"), revisionHistoryLimit=10)
    strategy = fill(ensure_map(spec, "updateStrategy"), type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        fill(ensure_map(strategy, "rollingUpdate"), maxUnavailable=1, maxSurge=0)
    complete_template(spec)
    fill(ensure_map(daemon_set, "status"), **dict.fromkeys(_FILLED, 0))
    fill(ensure_map(daemon_set["metadata"], "annotations"), **{_GENERATION: "0"})


def _count_templates(new: Raw, old: Raw | None) -> None:
    """Write the number of the template; that of a new set comes from its writer."""
    annotations = (new if old is None else old)["metadata"].get("annotations") or {}
    number = read_integer(str(annotations.get(_GENERATION) or ""), MAX_INT64) or 0
    if old is None:
        number = max(1, number)
    elif new["spec"]["template"] != old["spec"]["template"]:
        number += 1
    new["metadata"]["annotations"][_GENERATION] = str(number)


def _check_daemon_set(daemon_set: Raw) -> Causes:
    spec: Raw = daemon_set["spec"]
    yield from check_selector(spec, "daemonset", None)
    yield from _check_template_of(spec, "DaemonSet")
    yield from check_not_negative(spec, "minReadySeconds")
    strategy = spec["updateStrategy"]
    if strategy["type"] not in _TYPES:
        yield causes.not_supported(_DAEMON_SET_UPDATE, strategy, _TYPES)
    elif strategy["type"] == "RollingUpdate":
        yield from _check_daemon_set_rolling(strategy["rollingUpdate"])
    yield from check_not_negative(spec, "revisionHistoryLimit")


def _check_daemon_set_rolling(rolling: Raw) -> Causes:
    """An update either takes pods away first or adds pods first."""
    used = []
    for name in ("maxUnavailable", "maxSurge"):
        value = rolling[name]
        yield from check_int_or_percent(value, f"{_DAEMON_SET_ROLLING}.{name}")
        used.append(_amount(value) != 0)
    if all(used):
        detail = "may not be set when maxUnavailable is non-zero"
        yield causes.invalid(f"{_DAEMON_SET_ROLLING}.maxSurge", rolling["maxSurge"], detail)
    elif not any(used):
        yield causes.required(
            f"{_DAEMON_SET_ROLLING}.maxUnavailable", "cannot be 0 when maxSurge is 0"
        )


def _amount(value: int | str) -> int:
    """The number without its percent sign; a text that has none counts as 0."""
    digits = value[:-1] if isinstance(value, str) and value.endswith("%") else value
    return digits if isinstance(digits, int) else read_integer(digits) or 0


def _uncounted(daemon_set: Raw) -> Raw:
    """The set as a row shows it: without the count of its templates, as on a real server."""
    meta = dict(daemon_set["metadata"])
    annotations = meta.pop("annotations", None) or {}
    shown = {key: value for key, value in annotations.items() if key != _GENERATION}
    return {"metadata": meta | ({"annotations": shown} if shown else {})}


DAEMON_SETS = Resource(
    "apps", "v1", "daemonsets", "DaemonSet", short=("ds",), categories=("all",),
    subresources=frozenset({"status"}),
    strategy=rules.Strategy(
        completion=rules.Completion(
            defaults=_complete_daemon_set,
            finish_create=lambda new, now: _count_templates(new, None),
            finish_update=lambda new, old, subresource: _count_templates(new, old),
        ),
        checks=rules.Checks(
            always=_check_daemon_set,
            status=lambda new, old: check_not_negative(new["status"], *_COUNTS, path="status"),
            immutable=("spec.selector",),
        ),
        generation="spec",
        table=rules.Table(
            columns=NAME | {
                "Desired": number_at("status.desiredNumberScheduled"),
                "Current": number_at("status.currentNumberScheduled"),
                "Ready": number_at("status.numberReady"),
                "Up-to-date": number_at("status.updatedNumberScheduled"),
                "Available": number_at("status.numberAvailable"),
                "Node Selector": pairs_at("spec.template.spec.nodeSelector"),
            } | AGE | columns(),
            shown=_uncounted,
        ),
    ),
)  # fmt: skip


# -- StatefulSet ---------------------------------------------------------------------------------

_POLICIES = ("OrderedReady", "Parallel")
_RETENTION = ("Retain", "Delete")
_STATEFUL_SET_UPDATE = "spec.updateStrategy"
_CHANGEABLE = (
    "replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy", "minReadySeconds",
)  # fmt: skip
_FIXED = (
    f"updates to statefulset spec for fields other than"
    f" {', '.join(repr(name) for name in _CHANGEABLE[:-1])} and {_CHANGEABLE[-1]!r} are forbidden"
)


def _complete_stateful_set(stateful_set: Raw) -> None:
    spec = ensure_map(stateful_set, "spec")
    fill(spec, podManagementPolicy="OrderedReady", replicas=1, revisionHistoryLimit=10)
    strategy = ensure_map(spec, "updateStrategy")
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
        ensure_map(strategy, "rollingUpdate")
    if strategy["type"] == "RollingUpdate" and strategy.get("rollingUpdate") is not None:
        fill(strategy["rollingUpdate"], partition=0)
        # Behind a feature gate that is off by default: a real server drops it.
        strategy["rollingUpdate"].pop("maxUnavailable", None)
    retention = ensure_map(spec, "persistentVolumeClaimRetentionPolicy")
    fill(retention, whenDeleted="Retain", whenScaled="Retain")
    complete_template(spec)
    for claim in spec.get("volumeClaimTemplates") or ():
        fill(claim, apiVersion="v1", kind="PersistentVolumeClaim")
        volumes_and_claims.complete_claim(claim)
    fill(ensure_map(stateful_set, "status"), replicas=0, availableReplicas=0)


def _check_stateful_set(stateful_set: Raw) -> Causes:
    spec: Raw = stateful_set["spec"]
    policy = spec.get("podManagementPolicy")
    if policy not in _POLICIES:
        detail = "must be 'OrderedReady' or 'Parallel'"
        yield causes.invalid("spec.podManagementPolicy", policy, detail)
    yield from _check_stateful_set_strategy(spec["updateStrategy"])
    retention = spec["persistentVolumeClaimRetentionPolicy"]
    for field in ("whenDeleted", "whenScaled"):
        if retention.get(field) not in _RETENTION:
            path = f"spec.persistentVolumeClaimRetentionPolicy.{field}"
            yield causes.not_supported(path, retention.get(field), _RETENTION)
    yield from check_not_negative(spec, "replicas", "minReadySeconds")
    yield from check_not_negative(spec.get("ordinals") or {}, "start", path="spec.ordinals")
    if spec.get("selector") is None:
        yield causes.required("spec.selector")
    yield from check_selector(spec, "statefulset", None)
    yield from _check_template_of(_with_claims(spec), "StatefulSet")


def _check_create(stateful_set: Raw) -> Causes:
    spec: Raw = stateful_set["spec"]
    for index, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
        for cause in volumes_and_claims.check_claim(claim):
            yield cause._replace(field=f"spec.volumeClaimTemplates[{index}].{cause.field}")
    service = spec.get("serviceName")
    if service:
        yield from names.invalid_values("spec.serviceName", service, names.check_label(service))


def _check_stateful_set_strategy(strategy: Raw) -> Causes:
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
    if kind == "OnDelete" and rolling is not None:
        detail = "only allowed for updateStrategy 'RollingUpdate'"
        yield causes.invalid(f"{_STATEFUL_SET_UPDATE}.rollingUpdate", rolling, detail)
    elif kind == "RollingUpdate":
        path = f"{_STATEFUL_SET_UPDATE}.rollingUpdate"
        yield from check_not_negative(rolling or {}, "partition", path=path)
    elif kind != "OnDelete":
        yield causes.invalid(
            _STATEFUL_SET_UPDATE, strategy, "must be 'RollingUpdate' or 'OnDelete'"
        )


def _with_claims(spec: Raw) -> Raw:
    """The spec with a volume for each claim's template: containers may mount it."""
    claims = [
        {"name": name, "persistentVolumeClaim": {"claimName": name}}
        for claim in spec.get("volumeClaimTemplates") or ()
        for name in [(claim.get("metadata") or {}).get("name") or ""]
    ]
    claimed = {volume["name"] for volume in claims}
    template = spec["template"]
    others = [v for v in template["spec"].get("volumes") or () if v.get("name") not in claimed]
    inner = {**template["spec"], "volumes": [*claims, *others]}
    inner = {k: v for k, v in inner.items() if k not in ("subdomain", "hostname")}
    return {**spec, "template": {**template, "spec": inner}}


def _check_update(new: Raw, old: Raw) -> Causes:
    before = {k: v for k, v in old["spec"].items() if k not in _CHANGEABLE}
    if before != {k: v for k, v in new["spec"].items() if k not in _CHANGEABLE}:
        yield causes.forbidden("spec", _FIXED)


STATEFUL_SETS = Resource(
    "apps", "v1", "statefulsets", "StatefulSet", short=("sts",), categories=("all",),
    subresources=frozenset({"status", "scale"}),
    strategy=rules.Strategy(
        checks=rules.Checks(
            name=names.check_label,
            always=_check_stateful_set,
            create=_check_create,
            update=_check_update,
        ),
        completion=rules.Completion(defaults=_complete_stateful_set),
        generation="spec",
        table=rules.Table(NAME | {"Ready": ready_replicas} | AGE | {
            name: cell for name, cell in columns().items() if name != "Selector+"
        }),
    ),
)  # fmt: skip


# -- ControllerRevision --------------------------------------------------------------------------


def _check_revision(revision: Raw) -> Causes:
    """The causes for an invalid former state of a workload, which a rollback returns to."""
    if revision.get("data") is None:
        yield causes.required("data", "data is mandatory")
    yield from check_not_negative(revision, "revision", path="")


def _controller(revision: Raw, now: datetime) -> str:
    for owner in rows(revision, "metadata.ownerReferences"):
        if owner.get("controller"):
            group = text(owner, "apiVersion").partition("/")[0]
            return f"{text(owner, 'kind').lower()}.{group}/{text(owner, 'name')}"
    return NONE


CONTROLLER_REVISIONS = Resource(
    "apps", "v1", "controllerrevisions", "ControllerRevision",
    strategy=rules.Strategy(
        checks=rules.Checks(always=_check_revision, immutable=("data",)),
        table=rules.Table(
            NAME | {"Controller": _controller, "Revision": number_at("revision")} | AGE
        ),
    ),
)  # fmt: skip
