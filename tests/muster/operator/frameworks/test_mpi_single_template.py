"""MPIJobs with one template for launcher and workers."""

from __future__ import annotations

import pytest

from kubekit.objects.kinds import CONFIG_MAPS
from kubekit.objects.meta import Raw
from muster.contract.job_fields import InvalidJob
from muster.jobs import parse
from tests.muster.operator.builders import Model, manifest
from tests.muster.operator.frameworks.mpi_jobs import LAUNCHER, WORKERS, single


def test_a_single_template_gives_idle_workers_and_a_launcher_without_gpus() -> None:
    model = Model(single())
    model.settle()
    model.run(*WORKERS)
    model.settle()

    worker = model.manifests["j-worker-0"]["spec"]
    assert "sleep 365d" in worker["containers"][0]["command"][2]
    assert "args" not in worker["containers"][0]
    assert worker["restartPolicy"] == "Always"
    launcher = model.manifests[LAUNCHER]["spec"]["containers"][0]
    assert launcher["command"] == ["sh", "-c", "mpirun python x.py"]
    assert "resources" not in launcher
    data = model.objects[(CONFIG_MAPS.resource, "j-config")]["data"]
    assert data["hostfile"] == "j-worker-0 slots=2\nj-worker-1 slots=2\n"


@pytest.mark.parametrize(
    ("spec", "workers", "units"),
    [
        ({"gpus": 8, "gpusPerNode": 4}, 2, 4),
        ({"gpus": 3, "gpusPerNode": 4}, 1, 3),
        ({"processingUnits": 6, "processingUnitsPerNode": 2}, 3, 2),
        ({"replicas": 5}, 5, 2),
    ],
)
def test_a_single_template_is_sized_by_its_units(spec: Raw, workers: int, units: int) -> None:
    raw = single()
    del raw["spec"]["replicas"]
    raw["spec"] |= spec

    read = parse.parse_job(raw)

    assert read.count("Worker") == workers
    worker = read.replica_spec("Worker")
    assert worker is not None
    assert worker.main["resources"]["limits"]["nvidia.com/gpu"] == units
    assert read.mpi is not None
    assert read.mpi.slots == units


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"gpus": 7, "gpusPerNode": 4, "replicas": None}, "7 is not a multiple of gpusPerNode 4"),
        ({"gpus": 8}, "spec.gpus and spec.replicas is given"),
        ({"replicas": None}, "none of them is given"),
    ],
)
def test_a_single_template_without_a_size_is_rejected(spec: Raw, message: str) -> None:
    with pytest.raises(InvalidJob, match=message):
        parse.parse_job(single(**spec))


def test_workers_of_the_first_version_are_deleted_when_the_launcher_ends() -> None:
    template = {"spec": {"containers": [{"name": "mpi", "image": "i"}]}}
    raw = manifest("MPIJob")
    raw["spec"] = {"replicas": 2, "template": template}
    model = Model(raw)
    model.settle()
    model.run()
    model.settle()
    launcher = next(name for name in model.pods if "launcher" in name)
    model.exit(launcher, 0, "mpi")
    model.settle()

    assert model.conditions()[-1] == "Succeeded"
    assert list(model.pods) == [launcher]
