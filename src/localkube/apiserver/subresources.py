"""Subresources: status, scale, binding, eviction, ephemeralcontainers, finalize.

Each is one write of the object through `Verbs.change`, with the same conflicts and admission as any
other write. Streams (log, exec, attach, proxy) are in `streams`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kubekit.objects.meta import timestamp
from localkube.apiserver import api_errors, causes, codec
from localkube.apiserver.admission import preconditions
from localkube.apiserver.apply.managed_fields import VERSION, owners_of_object, owners_of_scale
from localkube.apiserver.apply.request import apply_as, as_requested, updated, writer_of
from localkube.apiserver.http import bodies
from localkube.apiserver.http.requests import Answer, Call, json_answer
from localkube.apiserver.kinds import disruption_budgets as budgets, pods
from localkube.apiserver.kinds.field_rules import NOT_NEGATIVE
from localkube.apiserver.patches import read_patch
from localkube.apiserver.resource import Resource
from localkube.apiserver.schema.decoding import check_body, check_name, check_shape

if TYPE_CHECKING:
    from datetime import datetime

    from kubekit.objects.meta import Raw
    from localkube.apiserver.verbs import Verbs

_SCALE_PATHS = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}

_BODIES = {
    "scale": Resource("autoscaling", "v1", "scales", "Scale"),
    "binding": Resource("", "v1", "bindings", "Binding"),
    "eviction": Resource("policy", "v1", "evictions", "Eviction"),
}
_DONE = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


async def serve(verbs: Verbs, call: Call) -> Answer:
    """Answer a call whose route names a subresource."""
    if call.route.subresource not in call.resource.subresources:
        if call.resource.custom:
            raise preconditions.object_not_found(call)
        raise api_errors.path_not_found()
    match call.route.subresource, call.route.verb:
        case "status" | "ephemeralcontainers", "get":
            return await verbs.get(call)
        case "status" | "ephemeralcontainers" | "finalize", "update":
            return await verbs.update(call)
        case "status" | "ephemeralcontainers", "patch":
            return await verbs.patch(call)
        case "scale", "get":
            obj = codec.decode((await verbs.get(call)).body)
            return json_answer(_scale_of(call.resource, obj))
        case "scale", "update" | "patch":
            return await _scale(verbs, call)
        case "binding", "create":
            return await _bind(verbs, call)
        case "eviction", "create":
            return await _evict(verbs, call)
        case _:
            raise api_errors.method_not_allowed()


async def _bind(verbs: Verbs, call: Call) -> Answer:
    """Bind a pod to its node; the node name and the condition are written in one update."""
    binding = _checked(call)
    node = _target(call, binding.get("target") or {})
    now = timestamp(verbs.clock())

    await verbs.change(call, lambda pod: pods.bind(pod, node, binding["metadata"], now))
    return json_answer(_DONE, 201)


async def _evict(verbs: Verbs, call: Call) -> Answer:
    """Delete a pod unless a disruption budget forbids it."""
    options = _checked(call).get("deleteOptions") or {}
    now = timestamp(verbs.clock())
    pod = codec.decode(verbs.read(call).value)
    if not pods.can_be_evicted_freely(pod):
        await _take_disruption(verbs, call, pod, now)

    def mark(pod: Raw) -> Raw:
        preconditions.check_preconditions(call, options, pod)
        return pods.mark_evicted(pod, now)

    # Marked first: the pod's last state then tells that it was evicted.
    await verbs.change(call, mark)
    route = call.route._replace(verb="delete", subresource="")
    await verbs.delete(Call(route, call.resource, call.query, codec.dump(options)))
    return json_answer(_DONE, 201)


async def _take_disruption(verbs: Verbs, call: Call, pod: Raw, now: str) -> None:
    """Count the eviction in the budget that selects the pod; raises if the budget forbids it."""
    found = budgets.protecting(verbs.store, pod)
    if len(found) > 1:
        message = "This pod has more than one PodDisruptionBudget, which the eviction subresource"
        raise api_errors.error("", f"{message} does not support.")
    if not found or budgets.costs_nothing(found[0], pod):
        return

    name = pod["metadata"]["name"]
    write = Call.internal(budgets.PDBS, "update", found[0], "status", agent="kube-apiserver")
    write = replace(write, query=call.query)
    await verbs.change(write, lambda budget: budgets.take_disruption(budget, name, now))


def _checked(call: Call, body: Raw | None = None) -> Raw:
    """The body of a subresource, checked to be of its kind and for this object."""
    body = bodies.read(call.body, call.content_type) if body is None else body
    resource = _BODIES[call.route.subresource]
    # Old clients still send v1beta1, whose fields are the same.
    if resource.kind == "Eviction" and body.get("apiVersion") == "policy/v1beta1":
        body["apiVersion"] = resource.api_version
    check_body(replace(call, resource=resource), body)
    check_shape(resource.api_version, resource.kind, body)
    check_name(call, body["metadata"])
    return body


def _target(call: Call, target: Raw) -> str:
    """The node that a binding names."""
    found = []
    if target.get("kind") not in (None, "", "Node"):
        found.append(causes.not_supported("target.kind", target["kind"], ("Node", "<empty>")))
    if not target.get("name"):
        found.append(causes.required("target.name"))
    api_errors.raise_if_invalid("", "Binding", call.route.name, found)
    return str(target["name"])


# -- scale ---------------------------------------------------------------------------------------


async def _scale(verbs: Verbs, call: Call) -> Answer:
    resource = call.resource
    sent_scale = None if call.route.verb == "patch" else _checked(call)
    path = _path(resource, "specReplicasPath")
    elements = tuple(f"f:{name}" for name in path.split("."))

    def rescale(obj: Raw) -> Raw:
        meta = obj["metadata"]
        entries = meta.get("managedFields") or []
        live = _scale_of(resource, obj)
        live["metadata"]["managedFields"] = owners_of_scale(entries, elements)
        scale, owners = _written(call, live, sent_scale, verbs.clock())
        replicas = (scale.get("spec") or {}).get("replicas", 0)
        if replicas < 0:
            raise _negative(call, replicas)
        meta["resourceVersion"] = scale["metadata"].get("resourceVersion")
        meta["managedFields"] = owners_of_object(entries, owners, elements, resource.api_version)
        codec.put(obj, path, replicas)
        return obj

    # Written as the object itself, so that the change of the spec increases the generation.
    route = call.route._replace(subresource="")
    plain = Call(route, resource, call.query, user=call.user, warnings=call.warnings)

    changed = await verbs.change(plain, rescale, as_requested)
    return json_answer(_scale_of(resource, codec.decode(changed.body)))


def _written(call: Call, live: Raw, sent: Raw | None, now: datetime) -> tuple[Raw, list[Raw]]:
    """The Scale after a request, and the owners of its fields."""
    writer = writer_of(call, now)._replace(version=VERSION, reset={})
    of = _BODIES["scale"].field_type
    if sent is None:  # a patch applies to the scale of the object as it is in this try
        patch = read_patch(call)
        if patch.is_apply:
            scale, owners = apply_as(call, live, patch.body, writer, of)
            return _checked(call, scale), owners
        sent = _checked(call, patch.patched(live, None))
    # Go leaves a zero out, so that nobody owns it.
    spec = {name: value for name, value in (sent.get("spec") or {}).items() if value}
    return sent, updated(live, {**sent, "spec": spec}, None, writer, of)


def _negative(call: Call, replicas: int) -> Exception:
    resource = call.resource
    group, kind, field, detail = "autoscaling", "Scale", "spec.replicas", NOT_NEGATIVE
    if resource.custom:
        group, kind = resource.group, resource.kind
        field = f".{_path(resource, 'specReplicasPath')}"
        detail = "should be a non-negative integer"
    cause = causes.invalid(field, replicas, detail)
    return api_errors.invalid(group, kind, call.route.name, [cause])


def _path(resource: Resource, which: str) -> str:
    return str((resource.scale or _SCALE_PATHS).get(which, "")).lstrip(".")


def _scale_of(resource: Resource, obj: Raw) -> Raw:
    """The Scale view of an object."""
    meta = obj["metadata"]
    scale: Raw = {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {
            k: meta[k]
            for k in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
            if k in meta
        },
        "spec": {},
        "status": {"replicas": codec.at(obj, _path(resource, "statusReplicasPath")) or 0},
    }
    replicas = codec.at(obj, _path(resource, "specReplicasPath"))
    if replicas:
        scale["spec"]["replicas"] = replicas
    if resource.scale:
        path = _path(resource, "labelSelectorPath")
        selector = codec.text(codec.at(obj, path)) if path else ""
    else:
        labels = codec.at(obj, "spec.selector.matchLabels") or {}
        selector = ",".join(f"{k}={v}" for k, v in sorted(labels.items()))
    if selector:
        scale["status"]["selector"] = selector
    return scale
