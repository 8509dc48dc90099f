"""Pod: defaults, first status, what an update may change, binding, eviction, deletion, columns.

The parts of a spec, which templates have too, are in `pod_spec`, `pod_containers` and
`pod_resources`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kubekit.objects import status_column
from kubekit.objects.core import Pod
from kubekit.objects.kinds import convert
from kubekit.objects.meta import MAX_SECONDS
from localkube.apiserver import api_errors, causes, codec, rules
from localkube.apiserver.codec import at
from localkube.apiserver.kinds import (
    pod_containers,
    pod_resources,
    pod_spec,
    priority_classes,
    quotas_and_limit_ranges,
    roles_and_accounts,
)
from localkube.apiserver.kinds.field_rules import check_address, ensure_map, fill
from localkube.apiserver.kinds.quotas_and_limit_ranges import pod_violations
from localkube.apiserver.resource import Resource
from localkube.apiserver.views import cells

if TYPE_CHECKING:
    from datetime import datetime

    from kubekit.objects.meta import Raw
    from localkube.apiserver.causes import Causes
    from localkube.apiserver.store.collection import ObjectReader


_MUTABLE_FIELDS = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions"
    " to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it"
    " was previously negative)"
)
_MAX_DEADLINE = 2**31 - 1
_GATED = {
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}
_EVICTED = {
    "reason": "EvictionByEvictionAPI",
    "message": "Eviction API: evicting",
}
_FINISHED = ("Succeeded", "Failed")


# -- defaults and status -------------------------------------------------------------------------


def _defaults(pod: Raw) -> None:
    spec = ensure_map(pod, "spec")
    pod_spec.complete_spec(spec)
    pod_resources.complete_requests(spec)
    fill(spec, enableServiceLinks=True)
    # The real server's encoder leaves a false `hostNetwork` out.
    if spec.get("hostNetwork") is False:
        del spec["hostNetwork"]


def _finish_create(pod: Raw, now: str) -> None:
    """Give the pod its first status."""
    if pod["spec"]["terminationGracePeriodSeconds"] < 0:
        pod["spec"]["terminationGracePeriodSeconds"] = 1
    pod["status"] = {"phase": "Pending", "qosClass": pod_resources.qos_class(pod["spec"])}
    if pod["spec"].get("schedulingGates"):
        _set_condition(pod, "PodScheduled", "False", now, _GATED)


def _finish_update(new: Raw, old: Raw, subresource: str) -> None:
    """Keep the fields that admission set: a client need not repeat them."""
    if subresource == pod_containers.SUBRESOURCE:
        pod_containers.keep_all_but_ephemeral(new, old)
    spec = new["spec"]
    fill(spec, **{name: old["spec"].get(name) for name in ("priority", "preemptionPolicy")})
    if not subresource:
        pod_spec.tolerate_short_outages(spec)
    status = ensure_map(new, "status")
    if status.get("podIP") and not status.get("podIPs"):
        status["podIPs"] = [{"ip": status["podIP"]}]
    elif status.get("podIPs"):
        fill(status, podIP=status["podIPs"][0].get("ip"))
    fill(status, qosClass=old.get("status", {}).get("qosClass"))
    if spec.get("nodeName") and not old["spec"].get("nodeName"):
        status.pop("nominatedNodeName", None)  # it has a node now


def _set_condition(pod: Raw, type_: str, status: str, now: str, extra: Raw | None = None) -> Raw:
    condition = {
        "type": type_,
        "status": status,
        **(extra or {}),
        "lastProbeTime": None,
        "lastTransitionTime": now,
    }
    conditions = pod.setdefault("status", {}).setdefault("conditions", [])
    types = [old["type"] for old in conditions]
    place = types.index(type_) if type_ in types else len(types)
    conditions[place : place + 1] = [condition]
    return pod


# -- checks --------------------------------------------------------------------------------------


def _check(pod: Raw) -> Causes:
    spec = pod["spec"]
    yield from pod_spec.check_pod_spec(spec, "spec")
    if spec.get("schedulingGates") and spec.get("nodeName"):
        detail = "cannot be set until all schedulingGates have been cleared"
        yield causes.forbidden("spec.nodeName", detail)


def _check_create(pod: Raw) -> Causes:
    if pod["spec"].get("ephemeralContainers"):
        yield causes.forbidden("spec.ephemeralContainers", "cannot be set on create")


def _complete_create(pod: Raw, store: ObjectReader) -> None:
    roles_and_accounts.complete_pod(pod, store)
    complete_scheduling(pod, store)


def complete_scheduling(pod: Raw, store: ObjectReader) -> None:
    priority_classes.set_priority(pod, store)
    pod_spec.tolerate_short_outages(pod["spec"])


def _admit_create(pod: Raw, store: ObjectReader, now: datetime) -> None:
    if pod["spec"].get("overhead") and not pod["spec"].get("runtimeClassName"):
        why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
        raise api_errors.forbidden_pod(pod, why)


def _check_update(new_pod: Raw, old_pod: Raw) -> Causes:
    new, old = new_pod["spec"], old_pod["spec"]
    if new == old:
        return  # most updates change labels, owners or finalizers
    problems = list(_check_deadline(new, old))
    yield from problems
    if problems:
        return
    before, after = (
        [t | {"tolerationSeconds": None} for t in spec.get("tolerations") or ()]
        for spec in (old, new)
    )
    if any(toleration not in after for toleration in before):
        detail = "existing toleration can not be modified except its tolerationSeconds"
        yield causes.forbidden("spec.tolerations", detail)
    # A scheduler may have looked at the pod already, so it can lose gates but never gain one.
    gates = {gate.get("name") for gate in old.get("schedulingGates") or ()}
    for i, gate in enumerate(new.get("schedulingGates") or ()):
        if gate.get("name") not in gates:
            detail = f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'"
            yield causes.forbidden(f"spec.schedulingGates[{i}].name", detail)
    gated = bool(gates)
    unchanged = _fixed_part(new, gated=gated) == _fixed_part(old, gated=gated)
    # Controllers such as Kueue restrict the nodes of a gated pod before they release it.
    if not unchanged or (gated and not _is_narrower(new, old)):
        yield causes.forbidden("spec", _MUTABLE_FIELDS)


def _check_status_update(new: Raw, old: Raw) -> Causes:
    node = at(new, "status.nominatedNodeName")
    if new["spec"].get("nodeName") and node and node != at(old, "status.nominatedNodeName"):
        detail = "may not be set on pods that are already bound to a node"
        yield causes.forbidden("status.nominatedNodeName", detail)
    for field in ("podIPs", "hostIPs"):
        addresses = [row.get("ip", "") for row in at(new, f"status.{field}") or ()]
        for index, address in enumerate(addresses):
            yield from check_address(address, f"status.{field}[{index}]")
        if field == "hostIPs" and addresses and addresses[0] != at(new, "status.hostIP"):
            detail = "must be equal to `hostIP`"
            yield causes.invalid("status.hostIPs[0].ip", addresses[0], detail)


def _check_deadline(new_spec: Raw, old_spec: Raw) -> Causes:
    """The cause for a deadline that is removed or made later; a new or an earlier one is valid."""
    new, old = new_spec.get("activeDeadlineSeconds"), old_spec.get("activeDeadlineSeconds")
    problem = ""
    if new is None:
        problem = "must not update from a positive integer to nil value" if old is not None else ""
    elif not 0 <= new <= _MAX_DEADLINE:
        problem = f"must be between 0 and {_MAX_DEADLINE}, inclusive"
    elif old is not None and old < new:
        problem = "must be less than or equal to previous value"
    if problem:
        yield causes.invalid("spec.activeDeadlineSeconds", new, problem)


def _fixed_part(spec: Raw, *, gated: bool) -> Raw:
    """The spec without the fields that an update may change."""
    fixed = codec.copy(spec)
    for container in pod_resources.containers_of(fixed):
        container.pop("image", None)
    for name in ("activeDeadlineSeconds", "tolerations", "schedulingGates"):
        fixed.pop(name, None)
    if gated:
        fixed.pop("nodeSelector", None)
        (fixed.get("affinity") or {}).pop("nodeAffinity", None)
        if not fixed.get("affinity"):
            fixed.pop("affinity", None)
    return fixed


def _is_narrower(new: Raw, old: Raw) -> bool:
    """Whether a gated pod selects a part of the nodes it selected, and no others."""
    new_terms, old_terms = _node_terms(new), _node_terms(old)
    new_labels, old_labels = new.get("nodeSelector") or {}, old.get("nodeSelector") or {}
    if not old_labels.items() <= new_labels.items():
        return False
    # Terms are alternatives, so an additional term would select more nodes.
    same_count = len(old_terms) == len(new_terms)
    return not old_terms or (same_count and all(map(_includes, new_terms, old_terms)))


def _node_terms(spec: Raw) -> list[Raw]:
    path = f"affinity.nodeAffinity.{pod_spec.REQUIRED}.nodeSelectorTerms"
    return at(spec, path) or []


def _includes(new: Raw, old: Raw) -> bool:
    fields = ("matchExpressions", "matchFields")
    return all(row in (new.get(field) or ()) for field in fields for row in old.get(field) or ())


# -- binding, eviction, deletion -----------------------------------------------------------------


def bind(pod: Raw, node: str, meta: Raw, now: str) -> Raw:
    """The pod with its node, changed in place, and with the metadata of the Binding."""
    _check_binding(pod, meta.get("uid") or "")
    pod["spec"]["nodeName"] = node
    for name in ("annotations", "labels"):
        if meta.get(name):
            pod["metadata"][name] = (pod["metadata"].get(name) or {}) | meta[name]
    return _set_condition(pod, "PodScheduled", "True", now)


def _check_binding(pod: Raw, uid: str) -> None:
    """Raise the conflict about a pod that cannot be bound."""
    meta, spec = pod["metadata"], pod["spec"]
    resource, name, why = "pods/binding", str(meta["name"]), ""
    if uid and uid != meta["uid"]:
        resource, why = "pods", api_errors.precondition_failed("UID", uid, meta["uid"])
    elif "deletionTimestamp" in meta:
        why = f"pod {name} is being deleted, cannot be assigned to a host"
    elif spec.get("nodeName"):
        why = f'pod {name} is already assigned to node "{spec["nodeName"]}"'
    elif spec.get("schedulingGates"):
        why = f"pod {name} has non-empty .spec.schedulingGates"
    if why:
        raise api_errors.conflict("", resource, name, why)


def mark_evicted(pod: Raw, now: str) -> Raw:
    """The pod, changed in place, with the reason why it is about to be deleted."""
    return _set_condition(pod, "DisruptionTarget", "True", now, _EVICTED)


def can_be_evicted_freely(pod: Raw) -> bool:
    """Whether no budget protects the pod: it has ended, never started, or is being deleted."""
    phase = pod.get("status", {}).get("phase")
    return phase in (*_FINISHED, "Pending") or "deletionTimestamp" in pod["metadata"]


def _grace(pod: Raw, options: Raw) -> int:
    """The seconds that a pod gets to stop: none if it runs on no node or has ended."""
    spec, phase = pod.get("spec", {}), pod.get("status", {}).get("phase")
    if not spec.get("nodeName") or phase in _FINISHED:
        return 0
    seconds = options.get("gracePeriodSeconds")
    if seconds is None:
        seconds = spec.get("terminationGracePeriodSeconds", 30)
    # A pod of an older database may have any grace period.
    return min(max(int(seconds), 0), MAX_SECONDS)


# -- columns -------------------------------------------------------------------------------------

_ENDED = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}


def _ready(pod: Raw, now: datetime) -> str:
    total = len(cells.rows(pod, "spec.containers")) + len(_sidecars(pod))
    return f"{sum(bool(s.get('ready')) for s in _running(pod))}/{total}"


def _row_conditions(pod: Raw) -> list[Raw]:
    """The condition of a row whose pod has ended."""
    phase = cells.text(pod, "status.phase")
    if phase not in _ENDED:
        return []
    return [{"type": "Completed", "status": "True", "reason": phase, "message": _ENDED[phase]}]


def _gates(pod: Raw, now: datetime) -> str:
    gates = cells.rows(pod, "spec.readinessGates")
    ready = sum(cells.condition_is_true(pod, cells.text(gate, "conditionType")) for gate in gates)
    return f"{ready}/{len(gates)}" if gates else cells.NONE


def _read(pod: Raw) -> Pod:
    """The pod as a struct; an empty pod if a field has a wrong type, so that its row prints."""
    try:
        return convert(pod, Pod)
    except msgspec.ValidationError:
        return Pod()


def _sidecars(pod: Raw) -> set[str]:
    """The names of the init containers that keep running next to the main containers."""
    init = cells.rows(pod, "spec.initContainers")
    return {cells.text(c, "name") for c in init if cells.text(c, "restartPolicy") == "Always"}


def _running(pod: Raw) -> list[Raw]:
    """Statuses of the containers that run together: sidecars and main containers."""
    init, sidecars = cells.rows(pod, "status.initContainerStatuses"), _sidecars(pod)
    return [s for s in init if cells.text(s, "name") in sidecars] + cells.rows(
        pod, "status.containerStatuses"
    )


def _restarts(pod: Raw, now: datetime) -> str:
    """Of the running containers or, until the pod is initialized, of its init containers."""
    if cells.condition_is_true(pod, "Initialized") or not status_column.init_word(_read(pod)):
        statuses = _running(pod)
    else:
        statuses = cells.rows(pod, "status.initContainerStatuses")
    count = sum(cells.number(s, "restartCount") for s in statuses)
    times = [cells.text(s, "lastState.terminated.finishedAt") for s in statuses]
    last = max(times, default="")
    return f"{count} ({cells.age(last, now)} ago)" if count and last else str(count)


_COLUMNS = (
    cells.NAME
    | {
        "Ready": _ready,
        "Status": lambda pod, now: status_column.status_column(_read(pod)),
        "Restarts": _restarts,
    }
    | cells.AGE
    | {
        "IP+": cells.text_at("status.podIP", cells.NONE),
        "Node+": cells.text_at("spec.nodeName", cells.NONE),
        "Nominated Node+": cells.text_at("status.nominatedNodeName", cells.NONE),
        "Readiness Gates+": _gates,
    }
)

PODS = Resource(
    "", "v1", "pods", "Pod", short=("po",), categories=("all",),
    subresources=frozenset(
        {
            "status", "binding", "eviction", "log", "exec", "attach", "portforward", "proxy",
            pod_containers.SUBRESOURCE,
        }
    ),
    fields=(
        "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName",
        "spec.hostNetwork", "status.phase", "status.podIP", "status.nominatedNodeName",
    ),
    strategy=rules.Strategy(
        status=rules.Status(
            keeps={
                "f:metadata": {"f:deletionTimestamp": {}, "f:ownerReferences": {}},
                "f:spec": {},
            },
        ),
        completion=rules.Completion(
            defaults=_defaults,
            finish_create=_finish_create,
            finish_update=_finish_update,
            complete_create=_complete_create,
        ),
        checks=rules.Checks(
            always=_check,
            create=_check_create,
            update=_check_update,
            status=_check_status_update,
            spec=pod_containers.check_ephemeral_change,
        ),
        admission=rules.Admission(create=_admit_create),
        generation="spec",
        deletion=rules.Deletion(grace=_grace, answer="object"),
        quota=rules.Quota(
            charge=pod_resources.charge,
            matches_scope=quotas_and_limit_ranges.matches_scope,
            unspecified=pod_resources.unspecified,
        ),
        ranges=rules.Ranges(complete=True, violations=pod_violations),
        table=rules.Table(columns=_COLUMNS, conditions=_row_conditions),
    ),
)  # fmt: skip
