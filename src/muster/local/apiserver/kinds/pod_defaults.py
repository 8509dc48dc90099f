"""What the server fills in where a pod, or a template of pods, says nothing.

Pure; called by `defaults.py`, for the status by `pod_changes.py`.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from muster.api.quantity import Amount, parse_quantity
from muster.local.apiserver.kinds.fields import ensure_map, fill, fill_zeros, maps_in

if TYPE_CHECKING:
    from muster.api.meta import Raw

_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_OF_PODS = ("cpu", "memory")
_TOKEN_SECONDS = 3600


def complete(pod: Raw) -> None:
    """Complete a pod."""
    spec = ensure_map(pod, "spec")
    complete_spec(spec)
    for container in _containers(spec):
        _requests_from_limits(container)
    _requests_of_all(spec)
    fill(spec, enableServiceLinks=True)
    if spec.get("hostNetwork") is False:
        del spec["hostNetwork"]


def pod_status(pod: Raw) -> None:
    """Complete what a node reports about a pod."""
    status = ensure_map(pod, "status")
    if status.get("podIP") and not status.get("podIPs"):
        status["podIPs"] = [{"ip": status["podIP"]}]
    elif status.get("podIPs"):
        fill(status, podIP=status["podIPs"][0].get("ip"))


def complete_spec(spec: Raw, restart: str = "Always") -> None:
    """Complete a pod's spec, or a template's."""
    fill(
        spec,
        restartPolicy=restart,
        terminationGracePeriodSeconds=30,
        dnsPolicy="ClusterFirst",
        securityContext={},
        schedulerName="default-scheduler",
    )
    if spec.get("serviceAccountName") is None and spec.get("serviceAccount") is not None:
        spec["serviceAccountName"] = spec["serviceAccount"]
    if spec.get("serviceAccountName"):
        spec["serviceAccount"] = spec["serviceAccountName"]
    for container in _containers(spec):
        _container(container, host_network=bool(spec.get("hostNetwork")))
    for volume in maps_in(spec.get("volumes")):
        _volume(volume)


def _container(container: Raw, *, host_network: bool) -> None:
    image = container.get("image")
    untagged = isinstance(image, str) and ":" not in image.rpartition("/")[2]
    latest = isinstance(image, str) and (untagged or image.endswith(":latest")) and "@" not in image
    fill(
        container,
        resources={},
        terminationMessagePath="/dev/termination-log",
        terminationMessagePolicy="File",
        imagePullPolicy="Always" if latest else "IfNotPresent",
    )
    for port in maps_in(container.get("ports")):
        fill(port, protocol="TCP")
        if host_network:
            fill(port, hostPort=port.get("containerPort"))
    for variable in maps_in(container.get("env")):
        _reference(variable.get("valueFrom"))
    for probe in _PROBES:
        if isinstance(container.get(probe), dict):
            _probe(container[probe])
    if isinstance(container.get("lifecycle"), dict):
        for handler in container["lifecycle"].values():
            _handler(handler)


def _reference(source: Any) -> None:
    """A field, or an amount, of the pod itself."""
    if not isinstance(source, dict):
        return
    if isinstance(source.get("fieldRef"), dict):
        fill(source["fieldRef"], apiVersion="v1")
    if isinstance(source.get("resourceFieldRef"), dict):
        fill(source["resourceFieldRef"], divisor="0")


def _probe(probe: Raw) -> None:
    _handler(probe)
    if isinstance(probe.get("grpc"), dict):
        fill(probe["grpc"], service="")
    fill_zeros(probe, timeoutSeconds=1, periodSeconds=10, successThreshold=1, failureThreshold=3)


def _handler(handler: Any) -> None:
    if isinstance(handler, dict) and isinstance(handler.get("httpGet"), dict):
        fill(handler["httpGet"], path="/", scheme="HTTP")


def _requests_from_limits(container: Raw) -> None:
    """A limit without a request is also the request."""
    resources = container.get("resources")
    if isinstance(resources, dict) and isinstance(resources.get("limits"), dict):
        for name, amount in resources["limits"].items():
            ensure_map(resources, "requests").setdefault(name, amount)


def _requests_of_all(spec: Raw) -> None:
    """What a whole pod has a limit of, it asks for: as much as its containers do, or the limit."""
    resources = spec.get("resources")
    limits = resources.get("limits") if isinstance(resources, dict) else None
    if not isinstance(resources, dict) or not isinstance(limits, dict) or not limits:
        return
    asked = ensure_map(resources, "requests")
    for name, amount in _asked(spec).items():
        if name in _OF_PODS:
            asked.setdefault(name, str(amount))
    for name, value in limits.items():
        if name in _OF_PODS or name.startswith("hugepages-"):
            asked.setdefault(name, value)


def _asked(spec: Raw) -> dict[str, Amount]:
    """What the containers ask for together: those that run at once, or one that prepares them."""
    lasting: defaultdict[str, Amount] = defaultdict(Amount)
    most: dict[str, Amount] = {}
    for container in maps_in(spec.get("initContainers")):
        beside = container.get("restartPolicy") == "Always"
        for name, value in _requests(container).items():
            peak = lasting[name] + parse_quantity(value)
            most[name] = max(most.get(name, Amount()), peak)
            lasting[name] = peak if beside else lasting[name]
    for container in maps_in(spec.get("containers")):
        for name, value in _requests(container).items():
            lasting[name] += parse_quantity(value)
    return {name: max(lasting[name], most.get(name, Amount())) for name in lasting}


def _requests(container: Raw) -> Raw:
    found = (container.get("resources") or {}).get("requests")
    return found if isinstance(found, dict) else {}


def _containers(spec: Raw) -> list[Raw]:
    return maps_in(spec.get("containers")) + maps_in(spec.get("initContainers"))


def _volume(volume: Raw) -> None:
    for kind in ("configMap", "secret", "projected", "downwardAPI"):
        if isinstance(volume.get(kind), dict):
            fill(volume[kind], defaultMode=420)
    for source in [volume, *maps_in((volume.get("projected") or {}).get("sources"))]:
        for item in maps_in((source.get("downwardAPI") or {}).get("items")):
            _reference(item)
        if isinstance(source.get("serviceAccountToken"), dict):
            fill(source["serviceAccountToken"], expirationSeconds=_TOKEN_SECONDS)
    if isinstance(volume.get("hostPath"), dict):
        fill(volume["hostPath"], type="")
    if not any(key for key in volume if key != "name"):
        volume["emptyDir"] = {}
