"""The environment of PyTorch and JAX processes."""

from __future__ import annotations

import pytest

from kubekit.objects.meta import Raw
from muster.contract.job_fields import InvalidJob
from muster.operator.decision_types import Settings
from tests.muster.operator.builders import Model, env, manifest, replica

MASTER, WORKERS = replica(1, name="pytorch"), replica(2, name="pytorch")


def environment(raw: Raw, pod: str, container: str = "pytorch") -> dict[str, str]:
    model = Model(raw)
    model.settle()
    return env(model.manifests[pod], container)


def test_a_master_and_its_workers_know_their_ranks() -> None:
    raw = manifest("PyTorchJob", {"Master": MASTER, "Worker": WORKERS}, nprocPerNode="4")

    assert environment(raw, "j-worker-1") == {
        "PYTHONUNBUFFERED": "1",
        "MASTER_PORT": "23456",
        "PET_MASTER_PORT": "23456",
        "MASTER_ADDR": "j-master-0",
        "PET_MASTER_ADDR": "j-master-0",
        "WORLD_SIZE": "12",
        "RANK": "2",
        "PET_NODE_RANK": "2",
        "PET_NPROC_PER_NODE": "4",
        "PET_NNODES": "3",
    }
    master = environment(raw, "j-master-0")
    assert (master["RANK"], master["MASTER_ADDR"]) == ("0", "j-master-0")


def test_processes_per_node_are_left_to_torchrun_unless_given() -> None:
    raw = manifest("PyTorchJob", {"Master": MASTER, "Worker": WORKERS})

    variables = environment(raw, "j-worker-0")

    assert variables["PET_NPROC_PER_NODE"] == "auto"
    assert variables["WORLD_SIZE"] == "3"


def test_an_elastic_job_has_a_rendezvous() -> None:
    policy = {
        "minReplicas": 1,
        "maxReplicas": 4,
        "maxRestarts": 10,
        "rdzvId": "run",
        "rdzvConf": [{"key": "timeout", "value": "60"}, {"key": "a", "value": "b"}],
    }
    raw = manifest("PyTorchJob", {"Worker": WORKERS}, elasticPolicy=policy)

    assert environment(raw, "j-worker-0") == {
        "PYTHONUNBUFFERED": "1",
        "PET_NPROC_PER_NODE": "auto",
        "PET_RDZV_ENDPOINT": "j-worker-0:23456",
        "PET_RDZV_BACKEND": "c10d",
        "PET_NNODES": "1:4",
        "PET_MAX_RESTARTS": "10",
        "PET_RDZV_ID": "run",
        "PET_RDZV_CONF": "timeout=60,a=b",
    }


@pytest.mark.parametrize(("elastic", "done"), [(False, False), (True, True)])
def test_one_worker_of_an_elastic_job_is_enough_for_success(elastic: bool, done: bool) -> None:
    raw = manifest("PyTorchJob", {"Worker": WORKERS})
    if elastic:
        raw["spec"]["elasticPolicy"] = {"minReplicas": 1}
    model = Model(raw)
    model.settle()
    model.run()
    model.exit("j-worker-1", 0, "pytorch")
    model.settle()

    assert ("Succeeded" in model.conditions()) is done


def test_workers_restart_by_default() -> None:
    model = Model(manifest("PyTorchJob", {"Master": MASTER, "Worker": WORKERS}))
    model.settle()

    assert model.manifests["j-worker-0"]["spec"]["restartPolicy"] == "OnFailure"


def test_a_second_master_is_rejected() -> None:
    model = Model(manifest("PyTorchJob", {"Master": replica(2, name="pytorch")}))

    with pytest.raises(InvalidJob, match="exactly one Master"):
        model.step()


def test_workers_wait_for_their_master_in_an_init_container_if_an_image_is_given() -> None:
    raw = manifest("PyTorchJob", {"Master": MASTER, "Worker": WORKERS})
    model = Model(raw, Settings(init_image="alpine:3.10"))
    model.settle()

    (init,) = model.manifests["j-worker-0"]["spec"]["initContainers"]
    assert init["name"] == "init-pytorch"
    assert "nslookup j-master-0" in init["command"][2]
    assert "initContainers" not in model.manifests["j-master-0"]["spec"]


def test_jax_processes_know_their_coordinator() -> None:
    raw = manifest("JAXJob", {"Worker": replica(3, name="jax")})

    assert environment(raw, "j-worker-2", "jax") == {
        "PYTHONUNBUFFERED": "1",
        "COORDINATOR_PORT": "6666",
        "COORDINATOR_ADDRESS": "j-worker-0",
        "NUM_PROCESSES": "3",
        "PROCESS_ID": "2",
    }


def test_a_jax_job_succeeds_when_all_its_processes_do() -> None:
    model = Model(manifest("JAXJob", {"Worker": replica(2, name="jax")}))
    model.settle()
    model.run()
    model.exit("j-worker-0", 0, "jax")
    model.settle()
    assert model.conditions() == ["Created", "Running"]

    model.exit("j-worker-1", 0, "jax")
    model.settle()
    assert "Succeeded" in model.conditions()
