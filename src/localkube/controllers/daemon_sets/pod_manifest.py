"""The manifest of a daemon set's pod for one node: pure but for the letters of its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from localkube.controllers.daemon_sets.node_fit import NODE_NAME, tolerations
from localkube.controllers.daemon_sets.revisions import POD_GENERATION, template_generation
from localkube.controllers.pod_control import new_pod
from localkube.controllers.revisions.history import HASH
from localkube.controllers.workloads import DAEMON_SETS

if TYPE_CHECKING:
    from kubekit.objects.meta import Raw
    from localkube.controllers.workloads import DaemonSet

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def pod_for_node(daemon_set: DaemonSet, revision_hash: str, node: str) -> Raw:
    """The pod that only this node may run."""
    body = new_pod(DAEMON_SETS, daemon_set, f"{daemon_set.metadata.name}-")
    meta, spec = body["metadata"], body["spec"]
    meta["labels"] = {**(meta.get("labels") or {}), HASH: revision_hash}
    if template_generation(daemon_set):
        meta["labels"][POD_GENERATION] = template_generation(daemon_set)
    affinity = dict(spec.get("affinity") or {})
    row = {"key": NODE_NAME, "operator": "In", "values": [node]}
    terms = {"nodeSelectorTerms": [{"matchFields": [row]}]}
    affinity["nodeAffinity"] = {**(affinity.get("nodeAffinity") or {}), _REQUIRED: terms}
    body["spec"] = {**spec, "tolerations": tolerations(spec), "affinity": affinity}
    return body
