"""StatefulSet: defaults, checks, the fields that may change, columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from localkube.apiserver.admission import names
from localkube.apiserver.api_errors import (
    Causes,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from localkube.apiserver.kinds import fields
from localkube.apiserver.kinds.pods import pod_template
from localkube.apiserver.kinds.storage import persistent_volume_claim
from localkube.apiserver.resource import Resource, Strategy
from localkube.apiserver.views.cells import AGE, NAME, ready_replicas

if TYPE_CHECKING:
    from kubekit.objects.meta import Raw

_POLICIES = ("OrderedReady", "Parallel")
_RETENTION = ("Retain", "Delete")
_UPDATE = "spec.updateStrategy"
_CHANGEABLE = (
    "replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy", "minReadySeconds",
)  # fmt: skip
_FIXED = (
    f"updates to statefulset spec for fields other than"
    f" {', '.join(repr(name) for name in _CHANGEABLE[:-1])} and {_CHANGEABLE[-1]!r} are forbidden"
)


def _defaults(stateful_set: Raw) -> None:
    spec = fields.fill(
        fields.ensure_map(stateful_set, "spec"),
        podManagementPolicy="OrderedReady",
        replicas=1,
        revisionHistoryLimit=10,
    )
    strategy = fields.ensure_map(spec, "updateStrategy")
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
        fields.ensure_map(strategy, "rollingUpdate")
    if strategy["type"] == "RollingUpdate" and strategy.get("rollingUpdate") is not None:
        fields.fill(strategy["rollingUpdate"], partition=0)
        # Behind a feature gate that is off by default: a real server drops it.
        strategy["rollingUpdate"].pop("maxUnavailable", None)
    fields.fill(
        fields.ensure_map(spec, "persistentVolumeClaimRetentionPolicy"),
        whenDeleted="Retain",
        whenScaled="Retain",
    )
    pod_template.complete_template(spec)
    for claim in spec.get("volumeClaimTemplates") or ():
        fields.fill(claim, apiVersion="v1", kind="PersistentVolumeClaim")
        persistent_volume_claim.complete_claim(claim)
    fields.fill(fields.ensure_map(stateful_set, "status"), replicas=0, availableReplicas=0)


# -- checks --------------------------------------------------------------------------------------


def _check(stateful_set: Raw) -> Causes:
    spec: Raw = stateful_set["spec"]
    policy = spec.get("podManagementPolicy")
    if policy not in _POLICIES:
        detail = "must be 'OrderedReady' or 'Parallel'"
        yield invalid_value("spec.podManagementPolicy", policy, detail)
    yield from _check_update_strategy(spec["updateStrategy"])
    retention = spec["persistentVolumeClaimRetentionPolicy"]
    for field in ("whenDeleted", "whenScaled"):
        if retention.get(field) not in _RETENTION:
            path = f"spec.persistentVolumeClaimRetentionPolicy.{field}"
            yield not_supported(path, retention.get(field), _RETENTION)
    yield from fields.check_not_negative(spec, "replicas", "minReadySeconds")
    start = (spec.get("ordinals") or {}).get("start") or 0
    if start < 0:
        yield invalid_value("spec.ordinals.start", start, fields.NOT_NEGATIVE)
    yield from _check_selector(spec)
    yield from pod_template.check_template(_with_claims(spec))
    if spec["template"]["spec"].get("activeDeadlineSeconds") is not None:
        detail = "activeDeadlineSeconds in StatefulSet is not Supported"
        yield forbidden_field("spec.template.spec.activeDeadlineSeconds", detail)


def _check_create(stateful_set: Raw) -> Causes:
    spec: Raw = stateful_set["spec"]
    for index, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
        for cause in persistent_volume_claim.check_claim(claim):
            yield cause._replace(field=f"spec.volumeClaimTemplates[{index}].{cause.field}")
    service = spec.get("serviceName")
    if service:
        yield from names.invalid_values("spec.serviceName", service, names.check_label(service))


def _check_update_strategy(strategy: Raw) -> Causes:
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
    if kind == "OnDelete" and rolling is not None:
        detail = "only allowed for updateStrategy 'RollingUpdate'"
        yield invalid_value(f"{_UPDATE}.rollingUpdate", rolling, detail)
    elif kind == "RollingUpdate":
        yield from fields.check_not_negative(
            rolling or {}, "partition", path=f"{_UPDATE}.rollingUpdate"
        )
    elif kind != "OnDelete":
        yield invalid_value(_UPDATE, strategy, "must be 'RollingUpdate' or 'OnDelete'")


def _check_selector(spec: Raw) -> Causes:
    selector = spec.get("selector")
    if selector is None:
        yield required("spec.selector")
        yield from pod_template.check_template_labels(spec, None)
    elif not (selector.get("matchLabels") or selector.get("matchExpressions")):
        yield invalid_value("spec.selector", selector, "empty selector is invalid for statefulset")
    else:
        yield from pod_template.check_template_labels(spec, None)


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
        yield forbidden_field("spec", _FIXED)


STATEFUL_SETS = Resource(
    "apps", "v1", "statefulsets", "StatefulSet", short=("sts",), categories=("all",),
    subresources=frozenset({"status", "scale"}),
    strategy=Strategy(
        check_name=names.check_label,
        defaults=_defaults,
        check=_check,
        check_create=_check_create,
        check_update=_check_update,
        generation="spec",
        columns=NAME | {"Ready": ready_replicas} | AGE | {
            name: cell for name, cell in pod_template.COLUMNS.items() if name != "Selector+"
        },
    ),
)  # fmt: skip
