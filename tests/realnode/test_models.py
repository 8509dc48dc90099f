"""A model in a volume of a real node: a reader pod lists it in the dashboard, another pod."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, CookieJar

from tests.e2e.test_model_reader import TRAIN
from tests.realnode.cluster import MUSTER, TEAM, Cluster
from tests.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.long]
MEMBER = "member"
READER = "muster.dev/model-reader"


def volume_and_claim(folder: Path) -> list[dict[str, Any]]:
    spec: dict[str, Any] = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}
    volume = {"capacity": {"storage": "1Gi"}, "hostPath": {"path": str(folder)}}
    wanted = {"volumeName": "models", "resources": {"requests": {"storage": "1Gi"}}}
    kinds: dict[str, dict[str, Any]] = {"PersistentVolume": volume, "PersistentVolumeClaim": wanted}
    return [
        {"apiVersion": "v1", "kind": kind, "metadata": {"name": "models"}, "spec": spec | more}
        for kind, more in kinds.items()
    ]


@pytest.fixture
def claim(cluster: Cluster, tmp_path: Path) -> str:
    """A claim with a directory of the node, which has the program that writes a model there."""
    (tmp_path / "train.py").write_text(TRAIN)
    tmp_path.chmod(0o755)  # the reader is not root
    cluster.apply(*volume_and_claim(tmp_path))
    return "models"


@pytest.fixture
def token(cluster: Cluster) -> str:
    """The token of a user who may edit one namespace."""
    place = f"--namespace={TEAM}"
    cluster.kubectl("create", "serviceaccount", MEMBER, place)
    binding = ("--clusterrole=edit", f"--serviceaccount={TEAM}:{MEMBER}")
    cluster.kubectl("create", "rolebinding", MEMBER, *binding, place)
    return cluster.kubectl("create", "token", MEMBER, place).strip()


async def test_the_dashboard_lists_a_model_that_a_reader_pod_found(
    cluster: Cluster, claim: str, token: str
) -> None:
    flags = (f"--data={claim}:/models", "--model-dir=/models/mnist")
    cluster.submit("tf", "mnist", *flags, command="python /models/train.py")
    assert cluster.until_job("mnist", "SUCCEEDED", "FAILED")["status"] == "SUCCEEDED"
    with cluster.forwarded(MUSTER, "service/muster-dashboard", 7080) as url:
        headers = {"Accept": "text/html", "Origin": url}
        async with ClientSession(url, cookie_jar=CookieJar(unsafe=True), headers=headers) as user:
            form = {"token": token, "namespaces": TEAM, "page": "/models"}
            answer = await user.post("/sign-in", data=form)
            page = await answer.text()
            assert answer.status == 200, page
            csrf = re.findall(r'name="csrf" value="([^"]+)"', page)[0]
            job = {"namespace": TEAM, "kind": "TFJob", "name": "mnist"}

            answer = await user.post("/models", data={**job, "csrf": csrf})

            assert (answer.status, answer.url.path) == (200, "/models"), await answer.text()
            page = await (await user.get(f"/models/{TEAM}/model-tfjob-mnist")).text()
            assert "safetensors" in page

    assert re.search(r"mnist +1 +safetensors", cluster.arena("models"))
    until(lambda: not readers(cluster), timeout=120, every=1, what="no reader is left")
    cluster.arena("delete", "mnist")


def readers(cluster: Cluster) -> list[Any]:
    words = ("get", "pods,jobs.batch", f"--namespace={TEAM}", f"--selector={READER}", "-o", "json")
    found: list[Any] = json.loads(cluster.kubectl(*words))["items"]
    return found
