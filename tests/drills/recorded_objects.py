"""Objects that older versions of Muster and other operators left behind, put back as recorded.

The files in `objects/` hold what the API server had while jobs ran: metadata without what the
server sets, and references to owners by name. A pod keeps its node; kwok makes it run.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from kubekit.objects.meta import Raw
from muster.jobs import names
from tests.drills.cluster import DrillCluster

_LAUNCHER = re.compile(r"-launcher-\w{5}$")
FOLDER = Path(__file__).parent / "objects"


NODES = 4
"""The nodes of the clusters that were recorded."""


def put_back(cluster: DrillCluster, recording: str, number: int) -> list[Raw]:
    """Create the objects of a recording in a namespace and on nodes of its own.

    Returns its jobs.
    """
    namespace = f"old-{number}"
    body = {"metadata": {"name": namespace}}
    status, answer = cluster.plane.request("POST", "/api/v1/namespaces", body)
    assert status == 201, answer
    objects: list[Raw] = json.loads((FOLDER / f"{recording}.json").read_text())
    # Owners come first, and launchers last: they start when all workers run.
    objects.sort(
        key=lambda i: (not i["kind"].endswith("Job"), "-launcher" in i["metadata"]["name"])
    )
    uids: dict[tuple[str, str], str] = {}
    for item in objects:
        if item["kind"] == "Pod":
            node = int(item["spec"]["nodeName"].removeprefix("n"))
            item["spec"]["nodeName"] = f"n{node + NODES * number}"
        _create(cluster, namespace, item, uids)
    return [item for item in objects if item["kind"].endswith("Job")]


def _create(
    cluster: DrillCluster, namespace: str, item: Raw, uids: dict[tuple[str, str], str]
) -> None:
    metadata = item["metadata"]
    owners = [
        {**row, "uid": uids[row["kind"], row["name"]]}
        for row in metadata.get("ownerReferences", [])
    ]
    if owners and _LAUNCHER.search(metadata["name"]):
        # Its name is a hash of the job's UID, which is another one here.
        metadata = {**metadata, "name": names.launcher(owners[0]["name"], owners[0]["uid"], 0)}
    body = {**item, "metadata": {**metadata, "ownerReferences": owners}}
    body.pop("status", None)
    path = path_of(item["apiVersion"], item["kind"], namespace)
    status, created = cluster.plane.request("POST", path, body)
    assert status == 201, created
    uids[item["kind"], metadata["name"]] = created["metadata"]["uid"]
    if item.get("status"):
        change = {"status": item["status"]}
        status, answer = cluster.plane.request("PATCH", f"{path}/{metadata['name']}/status", change)
        assert status == 200, answer


def path_of(api_version: str, kind: str, namespace: str) -> str:
    root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
    return f"{root}/namespaces/{namespace}/{kind.lower()}s"
