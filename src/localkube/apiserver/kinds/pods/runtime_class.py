"""RuntimeClass: checks, columns, and the fields that it gives to pods that name it.

All pods of the local cluster run in the same way, so the handler has no effect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubekit.objects.quantity import parse_amount
from localkube.apiserver import api_errors, codec
from localkube.apiserver.admission import names
from localkube.apiserver.api_errors import Causes, invalid_value
from localkube.apiserver.kinds import fields
from localkube.apiserver.kinds.pods import pod_resources, pod_scheduling
from localkube.apiserver.resource import Resource, Strategy
from localkube.apiserver.views import cells

if TYPE_CHECKING:
    from kubekit.errors import StatusError
    from kubekit.objects.meta import Raw
    from localkube.apiserver.store.changes import ObjectReader


def complete(pod: Raw, store: ObjectReader) -> None:
    """Give a new pod that names a class its overhead, node selector and tolerations."""
    spec, runtime_class = pod["spec"], _class_of(pod, store)
    if overhead := codec.at(runtime_class, "overhead.podFixed"):
        if spec.get("overhead") and not _same_amounts(spec["overhead"], overhead):
            why = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
            raise _forbidden(pod, why)
        spec["overhead"] = dict(overhead)
    scheduling = runtime_class.get("scheduling") or {}
    for key, value in (scheduling.get("nodeSelector") or {}).items():
        own = fields.ensure_map(spec, "nodeSelector").setdefault(key, value)
        if own != value:
            where = f"runtimeClass.scheduling.nodeSelector[{key}] = {value}"
            why = f"conflict: {where}; pod.spec.nodeSelector[{key}] = {own}"
            raise _forbidden(pod, why)
    tolerations = spec.get("tolerations") or []
    added = [t for t in scheduling.get("tolerations") or () if t not in tolerations]
    if added:
        spec["tolerations"] = [*tolerations, *added]


def check_overhead(pod: Raw, store: ObjectReader) -> None:
    """Refuse an overhead that no class defines."""
    named = pod["spec"].get("runtimeClassName")
    if not named or not codec.at(_class_of(pod, store), "overhead.podFixed"):
        why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
        raise _forbidden(pod, why)


def _class_of(pod: Raw, store: ObjectReader) -> Raw:
    name = pod["spec"]["runtimeClassName"]
    entry = store.get(codec.key(RUNTIME_CLASSES, "", name))
    if entry is None:
        raise _forbidden(pod, f'pod rejected: RuntimeClass "{name}" not found')
    return codec.decode(entry.value)


def _same_amounts(one: Raw, other: Raw) -> bool:
    def amounts(overhead: Raw) -> dict[str, int]:
        return {name: parse_amount(name, value) for name, value in overhead.items()}

    return amounts(one) == amounts(other)


def _forbidden(pod: Raw, why: str) -> StatusError:
    meta = pod["metadata"]  # the name is generated later
    return api_errors.forbidden("", "pods", meta.get("name") or meta.get("generateName"), why)


def _check(runtime_class: Raw) -> Causes:
    if not runtime_class.get("handler"):
        yield api_errors.required("handler")
    else:
        handler = runtime_class["handler"]
        yield from names.invalid_values("handler", handler, names.check_label(handler))
    for name, value in (codec.at(runtime_class, "overhead.podFixed") or {}).items():
        if pod_resources.is_negative(value):
            yield invalid_value(f"overhead.limits[{name}]", str(value), fields.NOT_NEGATIVE)
    scheduling = runtime_class.get("scheduling") or {}
    yield from names.check_labels(scheduling.get("nodeSelector") or {}, "scheduling.nodeSelector")
    for where, toleration in fields.each(scheduling, "scheduling", "tolerations"):
        yield from pod_scheduling.check_toleration(toleration, where)


RUNTIME_CLASSES = Resource(
    "node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", False,
    strategy=Strategy(
        check=_check,
        immutable=("handler",),
        columns=cells.NAME | {"Handler": cells.text_at("handler")} | cells.AGE,
    ),
)  # fmt: skip
