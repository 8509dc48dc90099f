"""What objects answer to besides their verbs: status, scale, binding, eviction, finalize.

Called by `serve.py` for paths with a subresource. Each is one guarded write on the object, through
`Verbs.change`, so the rules for conflicts and admission are those of every other write. Streams
(log, exec, attach, port-forward, proxy) are in `streams.py`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from muster.api.meta import timestamp
from muster.local.apiserver import api_errors, objects
from muster.local.apiserver.admission import preconditions
from muster.local.apiserver.http import bodies
from muster.local.apiserver.http.requests import Answer, Call, json_answer
from muster.local.apiserver.kinds.pod_disruption_budget import check_budgets
from muster.local.apiserver.patch import merge_patch
from muster.local.apiserver.patch.json_patch import json_patch
from muster.local.apiserver.patch.server_side_apply import APPLY_MEDIA_TYPE, check_apply
from muster.local.apiserver.registry import Resource
from muster.local.apiserver.schema.decoding import check_shape

if TYPE_CHECKING:
    from muster.api.meta import Raw
    from muster.local.apiserver.verbs import Verbs

_SCALE_OF = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}

_TAKEN = {
    "scale": Resource("autoscaling", "v1", "scales", "Scale"),
    "binding": Resource("", "v1", "bindings", "Binding"),
    "eviction": Resource("policy", "v1", "evictions", "Eviction"),
}

_EVICTED = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "EvictionByEvictionAPI",
    "message": "Eviction API: evicting",
}
_DONE = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


class Subresources:
    """The subresources, over the same verbs."""

    def __init__(self, verbs: Verbs) -> None:
        self._verbs = verbs

    async def serve(self, call: Call) -> Answer:
        """Answer a call whose route names a subresource."""
        name, verb = call.route.subresource, call.route.verb
        if name not in call.resource.subresources:
            if call.resource.custom:
                raise api_errors.not_found(
                    call.resource.group, call.resource.plural, call.route.name
                )
            raise api_errors.path_not_found()
        if name == "status":
            return await self._status(call)
        if name == "scale":
            return await self._scale(call)
        if name == "binding" and verb == "create":
            return await self._bind(call)
        if name == "eviction" and verb == "create":
            return await self._evict(call)
        if name == "finalize" and verb == "update":
            return await self._verbs.update(call)  # without finalizers it is gone
        raise api_errors.method_not_allowed()

    async def _status(self, call: Call) -> Answer:
        match call.route.verb:
            case "get":
                return await self._verbs.get(call)
            case "update":
                return await self._verbs.update(call)
            case "patch":
                return await self._verbs.patch(call)
            case _:
                raise api_errors.method_not_allowed()

    # -- scale -----------------------------------------------------------------------------------

    async def _scale(self, call: Call) -> Answer:
        if call.route.verb == "get":
            obj = objects.decode(self._verbs.read(call).value)
            return json_answer(_scale_of(call.resource, obj))
        if call.route.verb not in ("update", "patch"):
            raise api_errors.method_not_allowed()
        sent = None if call.route.verb == "patch" else _sent(call)

        def rescale(old: Raw) -> Raw:
            scale = _scale_of(call.resource, old)
            wanted = _checked(call, _patched(call, scale)) if sent is None else sent
            replicas = (wanted.get("spec") or {}).get("replicas", 0)
            if replicas < 0 and call.resource.custom:
                field = f".{_path(call.resource, 'specReplicasPath')}"
                cause = api_errors.invalid_value(
                    field, replicas, "should be a non-negative integer"
                )
                resource = call.resource
                raise api_errors.invalid(resource.group, resource.kind, call.route.name, [cause])
            if replicas < 0:
                cause = api_errors.invalid_value(
                    "spec.replicas", replicas, "must be greater than or equal to 0"
                )
                raise api_errors.invalid("autoscaling", "Scale", call.route.name, [cause])
            new = objects.decode(objects.dump(old))
            version = wanted["metadata"].get("resourceVersion")
            new["metadata"]["resourceVersion"] = version
            _put(new, _path(call.resource, "specReplicasPath"), replicas)
            return new

        route = call.route._replace(subresource="")
        plain = Call(route, call.resource, call.query, accept=call.accept, said=call.said)
        changed = await self._verbs.change(plain, rescale)
        return json_answer(_scale_of(call.resource, objects.decode(changed.body)))

    # -- pods ------------------------------------------------------------------------------------

    async def _bind(self, call: Call) -> Answer:
        """Give a pod its node: once, to the pod that was meant, all in one write."""
        binding = _sent(call)
        meta = binding["metadata"]
        node = _target(call, binding.get("target") or {})
        now = timestamp(self._verbs.clock())

        def bind(old: Raw) -> Raw:
            self._check_bindable(call, old, meta.get("uid") or "")
            new = objects.decode(objects.dump(old))
            new["spec"]["nodeName"] = node
            for name in ("annotations", "labels"):
                if meta.get(name):
                    new["metadata"][name] = (new["metadata"].get(name) or {}) | meta[name]
            _set_condition(new, {"type": "PodScheduled", "status": "True"}, now)
            return new

        await self._verbs.change(call, bind)
        return json_answer(_DONE, 201)

    def _check_bindable(self, call: Call, pod: Raw, uid: str) -> None:
        name, meta = call.route.name, pod["metadata"]
        if uid and uid != meta["uid"]:
            why = (
                f"Precondition failed: UID in precondition: {uid}, UID in object meta:"
                f" {meta['uid']}"
            )
        elif "deletionTimestamp" in meta:
            why = f"pod {name} is being deleted, cannot be assigned to a host"
        elif pod["spec"].get("nodeName"):
            why = f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"'
        elif pod["spec"].get("schedulingGates"):
            why = f"pod {name} has non-empty .spec.schedulingGates"
        else:
            return
        resource = "pods" if uid and uid != meta["uid"] else "pods/binding"
        raise api_errors.conflict("", resource, name, why)

    async def _evict(self, call: Call) -> Answer:
        """Delete a pod if no disruption budget objects."""
        eviction = _sent(call)
        pod = objects.decode(self._verbs.read(call).value)
        if not _dispensable(pod):
            check_budgets(self._verbs.store, pod)
        options: Raw = eviction.get("deleteOptions") or {}
        now = timestamp(self._verbs.clock())

        def tell(old: Raw) -> Raw:
            preconditions.check_preconditions(call, options, old)
            new = objects.decode(objects.dump(old))
            _set_condition(new, _EVICTED, now)
            return new

        await self._verbs.change(call, tell)
        route = call.route._replace(verb="delete", subresource="")
        await self._verbs.delete(Call(route, call.resource, call.query, objects.dump(options)))
        return json_answer(_DONE, 201)


def _sent(call: Call) -> Raw:
    """What is sent to a subresource that takes objects of a kind of its own."""
    return _checked(call, bodies.read(call.body, call.content_type))


def _checked(call: Call, body: Raw) -> Raw:
    """It must be of that kind, and about this object."""
    kind = _TAKEN[call.route.subresource]
    if kind.kind == "Eviction" and body.get("apiVersion") == "policy/v1beta1":  # it is the same
        body["apiVersion"] = kind.api_version
    preconditions.check_body(replace(call, resource=kind), body)
    check_shape(kind.api_version, kind.kind, body)
    preconditions.check_name(call, body["metadata"])
    return body


def _patched(call: Call, scale: Raw) -> Raw:
    """A scale with a patch, in which nothing is a list."""
    change = bodies.read_patch(call.body, call.content_type, bodies.PATCHES)
    kind = bodies.media_type(call.content_type)
    if kind == "application/json-patch+json":
        return json_patch(scale, change)
    if kind == APPLY_MEDIA_TYPE:
        check_apply(call, change)
    merged: Raw = merge_patch.merge(scale, change)
    return merged


def _target(call: Call, target: Raw) -> str:
    """The node a binding names."""
    causes = []
    if target.get("kind") not in (None, "", "Node"):
        causes.append(api_errors.not_supported("target.kind", target["kind"], ("Node", "<empty>")))
    if not target.get("name"):
        causes.append(api_errors.required("target.name"))
    if causes:
        raise api_errors.invalid("", "Binding", call.route.name, causes)
    return str(target["name"])


def _dispensable(pod: Raw) -> bool:
    """Whether evicting the pod disturbs nobody: it has ended, or never started."""
    phase = pod.get("status", {}).get("phase")
    return phase in ("Succeeded", "Failed", "Pending") or "deletionTimestamp" in pod["metadata"]


def _set_condition(pod: Raw, condition: Raw, now: str) -> None:
    conditions = pod.setdefault("status", {}).setdefault("conditions", [])
    full = {**condition, "lastProbeTime": None, "lastTransitionTime": now}
    for i, old in enumerate(conditions):
        if old["type"] == condition["type"]:
            conditions[i] = full
            return
    conditions.append(full)


def _path(resource: Resource, which: str) -> str:
    return str((resource.scale or _SCALE_OF).get(which, "")).lstrip(".")


def _scale_of(resource: Resource, obj: Raw) -> Raw:
    """The Scale view of an object."""
    meta = obj["metadata"]
    shown: Raw = {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {
            k: meta[k]
            for k in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
            if k in meta
        },
        "spec": {},
        "status": {"replicas": objects.at(obj, _path(resource, "statusReplicasPath")) or 0},
    }
    replicas = objects.at(obj, _path(resource, "specReplicasPath"))
    if replicas:
        shown["spec"]["replicas"] = replicas
    selector = _selector_text(resource, obj)
    if selector:
        shown["status"]["selector"] = selector
    return shown


def _selector_text(resource: Resource, obj: Raw) -> str:
    if resource.scale:
        path = _path(resource, "labelSelectorPath")
        return objects.text(objects.at(obj, path)) if path else ""
    labels = objects.at(obj, "spec.selector.matchLabels") or {}
    return ",".join(f"{k}={v}" for k, v in sorted(labels.items()))


def _put(obj: Raw, path: str, value: object) -> None:
    *parents, last = path.split(".")
    for name in parents:
        obj = obj.setdefault(name, {})
    obj[last] = value
