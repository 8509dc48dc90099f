"""Jobs that run under another operator are taken over: no pod is restarted, released or doubled."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kubekit.objects.meta import Raw
from muster.jobs import names
from tests.api_in_memory import ApiInMemory
from tests.muster.operator.builders import Model
from tests.muster.operator.frameworks import mpi_jobs
from tests.muster.operator.simulation import (
    JOB,
    NS,
    POD,
    conditions,
    operating,
    passes,
    phase,
    submit,
)

SERVICE = f"/api/v1/{NS}/services"
GROUP = f"/apis/scheduling.volcano.sh/v1beta1/{NS}/podgroups/j"
REPLICAS = [("ps", 0), ("worker", 0), ("worker", 1)]


def by_tf_operator_1_2(role: str, index: int) -> dict[str, str]:
    place = {"replica-type": role, "replica-index": str(index)}
    return {"group-name": "kubeflow.org", "job-name": "j", "tf-job-name": "j", **place}


def by_tf_operator_1_0(role: str, index: int) -> dict[str, str]:
    place = {"tf-replica-type": role, "tf-replica-index": str(index)}
    return {"group-name": "kubeflow.org", "tf-job-name": "j", **place}


def by_tf_operator_0_4(role: str, index: int) -> dict[str, str]:
    place = {"tf-replica-type": role, "tf-replica-index": str(index)}
    return {"group_name": "kubeflow.org", "tf_job_name": "j", **place}


def by_training_operator_1_9(role: str, index: int) -> dict[str, str]:
    return names.labels("tfjob-controller", "j", role, index)


def running_job(server: ApiInMemory, labels_of: Any) -> dict[str, str]:
    """A job whose pods another operator made; returns their UIDs."""
    submit(server)
    job = server.get(JOB) or {}
    owner = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "name": "j",
        "uid": job["metadata"]["uid"],
        "controller": True,
    }
    for role, index in REPLICAS:
        name, labels = f"j-{role}-{index}", labels_of(role, index)
        metadata: Raw = {"name": name, "namespace": "ns", "ownerReferences": [owner]}
        container = {"name": "tensorflow", "image": "img"}
        server.put(
            f"{POD}/{name}",
            {
                "metadata": {**metadata, "labels": labels},
                "spec": {"nodeName": "n", "containers": [container]},
                "status": {"phase": "Running"},
            },
        )
        service = {"clusterIP": "None", "selector": labels}
        server.put(
            f"{SERVICE}/{name}", {"metadata": metadata | {"labels": labels}, "spec": service}
        )
    group: Raw = {"name": "j", "namespace": "ns", "ownerReferences": [owner]}
    server.put(GROUP, {"metadata": group, "spec": {"minMember": 3}})
    return uids(server)


def uids(server: ApiInMemory) -> dict[str, str]:
    return {
        name: (server.get(f"{POD}/{name}") or {})["metadata"]["uid"]
        for name in server.named("pods")
    }


ERAS = [by_tf_operator_0_4, by_tf_operator_1_0, by_tf_operator_1_2, by_training_operator_1_9]


@pytest.mark.looptime
@pytest.mark.parametrize("era", ERAS)
async def test_pods_with_the_labels_of_another_operator_stay_and_decide_the_job(era: Any) -> None:
    server = ApiInMemory()
    before = running_job(server, era)
    for _ in range(2):  # the operator restarts
        async with operating(server):
            await passes(20)
        assert uids(server) == before
        assert conditions(server) == ["Created", "Running"]
        assert "waiting" not in (server.get(JOB) or {})["status"]
    pod = server.get(f"{POD}/j-worker-1") or {}
    assert pod["metadata"]["labels"].items() >= era("worker", 1).items()
    assert pod["metadata"]["labels"][names.INDEX] == "1"
    assert len(pod["metadata"]["ownerReferences"]) == 1
    async with operating(server):
        for index in (0, 1):
            phase(server, f"j-worker-{index}", "Succeeded")
        await passes(20)
    assert conditions(server) == ["Created", "Succeeded"]


def test_the_launcher_of_training_operator_is_the_launcher_of_the_job() -> None:
    model = Model(mpi_jobs.job())
    model.settle()
    model.run()
    model.settle()
    pod = model.pods.pop(mpi_jobs.LAUNCHER)
    metadata = replace(pod.metadata, name="j-launcher")
    model.pods["j-launcher"] = replace(pod, metadata=metadata)
    model.run()
    model.settle()

    assert sorted(model.pods) == ["j-launcher", *mpi_jobs.WORKERS]
    assert model.conditions() == ["Created", "Running"]

    model.exit("j-launcher", 0, "mpi")
    model.settle()
    assert model.conditions() == ["Created", "Running(False)", "Succeeded"]
