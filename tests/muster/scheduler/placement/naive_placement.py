"""Placement as anybody would write it: pod by pod, node by node. The yardstick for `place`."""

from __future__ import annotations

from kubekit.objects.core import Node, Pod
from muster.scheduler.cluster.nodes import forbids_scheduling, is_ready, taints_of
from muster.scheduler.cluster.pod_class import host_ports, parse_resources, requests

Placed = list[tuple[Pod, Node]]


def tolerates(pod: Pod, node: Node) -> bool:
    def is_tolerated(key: str, value: str, effect: str) -> bool:
        return any(
            t.key in ("", key)
            and t.effect in ("", effect)
            and (t.operator == "Exists" or (t.key == key and t.value == value))
            for t in pod.spec.tolerations
        )

    taints = (taint for taint in taints_of(node) if forbids_scheduling(taint))
    return all(is_tolerated(taint.key, taint.value, taint.effect) for taint in taints)


def has_room(pod: Pod, node: Node, placed: Placed) -> bool:
    room = parse_resources(node.status.allocatable)
    there = [requests(other) for other, where in placed if where is node]
    needs = requests(pod)
    used = {name: sum(r.get(name, 0) for r in there) + n for name, n in needs.items() if n}
    return len(there) < room["pods"] and all(room.get(name, 0) >= n for name, n in used.items())


def ports_free(pod: Pod, node: Node, placed: Placed) -> bool:
    taken = {p[:2] for other, where in placed if where is node for p in host_ports(other.spec)}
    return not taken & {port[:2] for port in host_ports(pod.spec)}


def apart(pod: Pod, node: Node, placed: Placed) -> bool:
    """Required anti-affinity by labels, within one namespace, both ways."""
    for other, where in placed:
        for subject, neighbour in ((pod, other), (other, pod)):
            anti = subject.spec.affinity.pod_anti_affinity if subject.spec.affinity else None
            for term in anti.required if anti else ():
                wanted = term.label_selector.match_labels if term.label_selector else {"": ""}
                key = term.topology_key
                here, there = node.metadata.labels.get(key), where.metadata.labels.get(key)
                match = all(neighbour.metadata.labels.get(k) == v for k, v in wanted.items())
                if match and here is not None and here == there:
                    return False
    return True


def allowed(pod: Pod, node: Node, placed: Placed) -> bool:
    labels = node.metadata.labels
    chosen = all(labels.get(k) == v for k, v in pod.spec.node_selector.items())
    steady = is_ready(node) and chosen and tolerates(pod, node) and has_room(pod, node, placed)
    return steady and ports_free(pod, node, placed) and apart(pod, node, placed)


def possible(pods: list[Pod], nodes: list[Node], placed: Placed) -> bool:
    """Whether all pods can be placed at once: every way is tried."""
    if not pods:
        return True
    first, *rest = pods
    return any(
        allowed(first, node, placed) and possible(rest, nodes, [*placed, (first, node)])
        for node in nodes
    )
