"""The one thing of a kubelet that kwok lacks: a pod for which its node has no room is rejected.

Two schedulers that know nothing of each other can bind to the same room in the same moment. On a
real node the kubelet then fails the later pod, with a reason such as `OutOfnvidia.com/gpu`.
"""

from __future__ import annotations

import http.client
import threading
from collections import Counter

from kubekit.objects.meta import Raw
from tests.drills.cluster import DrillCluster


class KubeletAdmission:
    """Admits pods on all nodes of a cluster, in the order in which it sees them."""

    def __init__(self, cluster: DrillCluster) -> None:
        self.rejected: list[str] = []
        self._cluster = cluster
        self._admitted: set[str] = set()
        self._stopped = threading.Event()

    def __enter__(self) -> KubeletAdmission:
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(0.05):
            try:
                self._look()
            except (OSError, http.client.HTTPException):
                continue

    def _look(self) -> None:
        pods = self._cluster.plane.request("GET", "/api/v1/pods")[1]["items"]
        on_nodes = [pod for pod in pods if pod["spec"].get("nodeName") and _is_alive(pod)]
        known = [pod for pod in on_nodes if pod["metadata"]["uid"] in self._admitted]
        used = Counter[str]()
        for pod in known:
            used[pod["spec"]["nodeName"]] += gpus_of(pod)
        self._admitted = {pod["metadata"]["uid"] for pod in known}
        for pod in on_nodes:
            if pod["metadata"]["uid"] not in self._admitted:
                self._admit(pod, used)

    def _admit(self, pod: Raw, used: Counter[str]) -> None:
        node, metadata = pod["spec"]["nodeName"], pod["metadata"]
        if not gpus_of(pod) or used[node] + gpus_of(pod) <= self._cluster.gpus[node]:
            used[node] += gpus_of(pod)
            self._admitted.add(metadata["uid"])
            return
        status = {"phase": "Failed", "reason": "OutOfnvidia.com/gpu", "containerStatuses": None}
        status["message"] = "Pod was rejected: Node didn't have enough resource: nvidia.com/gpu"
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/status"
        body = {"metadata": {"uid": metadata["uid"]}, "status": status}
        if self._cluster.plane.request("PATCH", path, body)[0] == 200:
            self.rejected.append(metadata["name"])


def gpus_of(pod: Raw) -> int:
    limits = [c.get("resources", {}).get("limits") or {} for c in pod["spec"]["containers"]]
    return sum(int(row.get("nvidia.com/gpu", 0)) for row in limits)


def _is_alive(pod: Raw) -> bool:
    return pod["status"]["phase"] in ("Pending", "Running")
