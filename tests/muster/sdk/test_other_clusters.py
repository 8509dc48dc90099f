"""Jobs on a cluster that is not the local one, by its kubeconfig: nothing there is Muster's."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import muster
from kubekit.client.auth import kube_config
from kubekit.client.blocking_client import BlockingClient
from kubekit.objects.meta import Key
from muster.contract.job_kinds import PYTORCHJOBS
from tests.controlplane.control_plane import ControlPlane
from tests.local_server import LocalServer
from tests.muster.cli.conftest import teach
from tests.muster.cli.place import ended


@pytest.fixture(scope="module", params=["api", pytest.param("kubernetes", marks=pytest.mark.kube)])
def kubeconfig(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """An API server that knows the job kinds, and no operator: ours alone, and a real one."""
    server: LocalServer | ControlPlane
    if request.param == "api":
        server = LocalServer(tmp_path_factory.mktemp("jobs"))
    else:
        server = ControlPlane(request.getfixturevalue("control_plane_binaries"))
    with server:
        teach(server.kubeconfig)
        yield server.kubeconfig


def end_job(kubeconfig: Path, name: str, type_: str) -> None:
    """Do what an operator does at the end of a job."""
    with BlockingClient(kube_config.load(kubeconfig)) as client:
        status = {"status": ended(type_)}
        client.patch(PYTORCHJOBS, Key("default", name), status, subresource="status")


@pytest.mark.parametrize("how", ["Succeeded", "Failed"])
def test_a_job_is_submitted_and_its_end_is_seen_at_once(kubeconfig: Path, how: str) -> None:
    name = how.lower()
    job = muster.submit(
        "pytorch", "torchrun train.py", name=name, image="team/train:3", kubeconfig=kubeconfig
    )
    assert muster.get_job(name, kubeconfig=kubeconfig) == job
    assert job in muster.list_jobs(kubeconfig=kubeconfig)
    assert job.status() == "PENDING"

    operator = threading.Timer(0.3, end_job, (kubeconfig, name, how))
    operator.start()
    if how == "Succeeded":
        job.wait(timeout="10s")
    else:
        with pytest.raises(muster.JobFailed, match="the job failed failed"):
            job.wait(timeout="10s")
    operator.join()

    job.delete()
    job.wait(timeout="1m", until="deleted")
    assert job not in muster.list_jobs(kubeconfig=kubeconfig)


def test_a_job_needs_an_image_there(kubeconfig: Path) -> None:
    with pytest.raises(muster.UsageError, match="image"):
        muster.submit("pytorch", "torchrun train.py", name="bare", kubeconfig=kubeconfig)
