"""Tables of objects with missing or unusual fields."""

from __future__ import annotations

from typing import Any

from tests.localkube.conformance.cases.steps import NS, PODS, SVC, delete, get, patch, pod, post
from tests.localkube.conformance.transcript import Case, Step

TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
DEPLOYMENTS = "/apis/apps/v1/namespaces/$ns/deployments"
REPLICA_SETS = "/apis/apps/v1/namespaces/$ns/replicasets"
BATCH_JOBS = "/apis/batch/v1/namespaces/$ns/jobs"
ENDPOINTS = f"{NS}/endpoints"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/$ns/endpointslices"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/namespaces/$ns/rolebindings"
EVENTS = f"{NS}/events"
RUN = {"containers": [{"name": "c", "image": "a:1"}]}
TEMPLATE = {"metadata": {"labels": {"a": "b", "team": "x"}}, "spec": RUN}
EXPRESSIONS = [
    {"key": "z", "operator": "NotIn", "values": ["q", "p"]},
    {"key": "team", "operator": "Exists"},
    {"key": "y", "operator": "DoesNotExist"},
    {"key": "a", "operator": "In", "values": ["b"]},
]


def table(path: str) -> Step:
    return get(path, accept=TABLE)


def node(name: str, labels: dict[str, str] | None = None, **status: Any) -> list[Step]:
    """A node, its row, and its end: nodes are everybody's."""
    place, body = "/api/v1/nodes", {"metadata": {"name": name, "labels": labels}, "status": status}
    return [post(place, body), table(f"{place}/{name}"), delete(f"{place}/{name}")]


def endpoints(name: str, **subset: Any) -> Step:
    body = {"metadata": {"name": name}, "subsets": [subset]}
    return post(ENDPOINTS, body)


def binding(name: str, *subjects: dict[str, str]) -> list[Step]:
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}
    body = {"metadata": {"name": name}, "subjects": [*subjects], "roleRef": role}
    return [post(BINDINGS, body), table(f"{BINDINGS}/{name}")]


def status_of(name: str, **status: Any) -> list[Step]:
    return [patch(f"{PODS}/{name}/status", {"status": status}), table(f"{PODS}/{name}")]


SIDECAR = {"name": "i", "image": "a:1", "restartPolicy": "Always"}
FAILED_SIDECAR = {
    "name": "i",
    "restartCount": 2,
    "state": {"waiting": {"reason": "CrashLoopBackOff"}},
}
RUNNING = {"name": "c", "ready": True, "state": {"running": {}}}
IP = [{"ip": "10.0.0.1"}]
PRINTED = ("column-descriptions", "zero-values")

CASES = [
    Case(
        "nodes with little status",
        [
            *node("a-$ns", addresses=[{"address": "1.2.3.4"}]),
            *node("b-$ns", addresses=[{"type": "InternalIP"}]),
            *node("c-$ns", addresses=[{}]),
            *node("d-$ns", conditions=[{"status": "True"}]),
            *node("e-$ns", conditions=[{"type": "Ready"}]),
            *node("f-$ns", nodeInfo={}),
        ],
        PRINTED,
    ),
    Case(
        "nodes and their roles",
        [
            *node("a-$ns", {"kubernetes.io/role": "gpu"}),
            *node("b-$ns", {"kubernetes.io/role": "x", "node-role.kubernetes.io/a": "1"}),
            *node("c-$ns", {"kubernetes.io/role": ""}),
            *node("d-$ns", {"node-role.kubernetes.io/b": "", "node-role.kubernetes.io/a": ""}),
        ],
        PRINTED,
    ),
    Case(
        "endpoints without addresses",
        [
            endpoints("a", addresses=IP, ports=[{"name": "x"}]),
            endpoints("b", addresses=[{"hostname": "x"}], ports=[{"port": 1}]),
            endpoints("c", addresses=IP),
            endpoints("d", ports=[{"port": 1}]),
            endpoints("e", addresses=IP, ports=[{"name": "x", "port": 1}, {"port": 2}]),
            endpoints("f", addresses=[{"ip": "nowhere"}], ports=[{"port": 70000}]),
            endpoints("g", notReadyAddresses=IP, ports=[{"port": 1, "protocol": "tcp"}]),
            endpoints("h", addresses=[{"ip": "127.0.0.1"}], ports=[{"port": 1}]),
            endpoints("i"),
            post(ENDPOINTS, {"metadata": {"name": "j"}}),
            table(ENDPOINTS),
        ],
        (*PRINTED, "wording"),
    ),
    Case(
        "bindings with several subjects",
        [
            *binding("a", {"kind": "User"}),
            *binding("b", {"kind": "ServiceAccount", "name": "x"}),
            *binding("c", {"kind": "ServiceAccount", "namespace": "x"}),
            *binding("d", {"kind": "Robot", "name": "x"}),
            *binding("e", {"name": "x"}),
            *binding("f", {"kind": "User", "name": "x", "apiGroup": "apps"}),
            *binding("g", {"kind": "Group", "name": "x"}, {"kind": "User", "name": "y"}),
            *binding("h", {"kind": "ServiceAccount", "name": "X_", "namespace": "x"}),
            *binding("i", {"kind": "User", "name": "x", "namespace": "y"}),
            table(BINDINGS),
        ],
        PRINTED,
    ),
    Case(
        "endpoint slices with few fields",
        [
            post(SLICES, {"metadata": {"name": "a"}, "addressType": "IPv4", "endpoints": []}),
            post(
                SLICES,
                {
                    "metadata": {"name": "b"},
                    "addressType": "IPv4",
                    "endpoints": [{"addresses": ["10.0.0.1"]}],
                    "ports": [{}],
                },
            ),
            table(SLICES),
        ],
        PRINTED,
    ),
    Case(
        "pods with readiness gates",
        [
            post(
                PODS,
                pod(
                    spec={
                        "readinessGates": [{"conditionType": "x/a"}, {"conditionType": "x/b"}],
                    }
                ),
            ),
            table(f"{PODS}/a"),
            *status_of("a", conditions=[{"type": "x/a", "status": "True"}]),
            *status_of("a", conditions=[{"type": "x/b", "status": "True"}]),
            *status_of("a", conditions=[{"type": "x/b", "status": "False"}]),
        ],
        PRINTED,
    ),
    Case(
        "rows of finished pods",
        [
            post(PODS, pod("a")),
            table(f"{PODS}/a"),
            *status_of("a", phase="Succeeded"),
            *status_of("a", phase="Failed"),
            *status_of("a", phase="Failed", reason="Evicted"),
            *status_of("a", phase="Unknown"),
            table(PODS),
        ],
        PRINTED,
    ),
    Case(
        "pods with few container statuses",
        [
            post(PODS, pod("a", {"initContainers": [{"name": "i", "image": "a:1"}]})),
            *status_of("a", initContainerStatuses=[{"name": "i"}]),
            *status_of("a", initContainerStatuses=[{"restartCount": 1}]),
            *status_of("a", initContainerStatuses=[{"state": {"terminated": {}}}]),
            *status_of("a", containerStatuses=[{"state": {"terminated": {}}}]),
            *status_of("a", podIPs=[{"ip": "10.0.0.7"}]),
        ],
        (*PRINTED, "wording"),
    ),
    Case(
        "the status of pods that are deleted, gated or have a failed sidecar",
        [
            post(PODS, pod("gated", {"schedulingGates": [{"name": "x/a"}]})),
            table(f"{PODS}/gated"),
            post(PODS, pod("kept", finalizers=["x/y"])),
            *status_of("kept", phase="Running"),
            delete(f"{PODS}/kept"),
            table(f"{PODS}/kept"),
            *status_of("kept", phase="Succeeded"),
            *status_of("kept", phase="Failed", reason="Evicted"),
            *status_of("kept", phase="Running", reason="NodeLost"),
            patch(f"{PODS}/kept", {"metadata": {"finalizers": None}}),
            post(PODS, pod("side", {"initContainers": [SIDECAR]})),
            *status_of("side", initContainerStatuses=[FAILED_SIDECAR]),
            *status_of("side", conditions=[{"type": "Initialized", "status": "True"}]),
            *status_of("side", containerStatuses=[RUNNING]),
        ],
        (*PRINTED, "wording"),
    ),
    Case(
        "selectors in tables",
        [
            *(
                step
                for place in (DEPLOYMENTS, REPLICA_SETS)
                for name, selector in (
                    ("a", {"matchLabels": {"a": "b"}, "matchExpressions": EXPRESSIONS}),
                    ("b", {"matchExpressions": EXPRESSIONS[:2]}),
                    ("c", {"matchLabels": {"team": "x", "a": "b"}}),
                )
                for step in (
                    post(
                        place,
                        {
                            "metadata": {"name": name},
                            "spec": {"selector": selector, "template": TEMPLATE},
                        },
                    ),
                    table(f"{place}/{name}"),
                )
            ),
            post(
                BATCH_JOBS,
                {
                    "metadata": {"name": "a"},
                    "spec": {
                        "manualSelector": True,
                        "selector": {"matchExpressions": EXPRESSIONS},
                        "template": {
                            **TEMPLATE,
                            "spec": {**RUN, "restartPolicy": "Never"},
                        },
                    },
                },
            ),
            table(f"{BATCH_JOBS}/a"),
        ],
        PRINTED,
    ),
    Case(
        "services and events with few fields",
        [
            post(SVC, {"metadata": {"name": "a"}, "spec": {"clusterIP": "None"}}),
            table(SVC),
            post(EVENTS, {"metadata": {"name": "a"}, "involvedObject": {"namespace": "$ns"}}),
            post(
                EVENTS,
                {
                    "metadata": {"name": "b"},
                    "involvedObject": {"namespace": "$ns"},
                    "source": {"host": "h"},
                },
            ),
            table(EVENTS),
        ],
        PRINTED,
    ),
]
