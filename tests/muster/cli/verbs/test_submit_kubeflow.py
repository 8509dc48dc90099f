"""What `arena submit` sends passes Kubeflow's own schemas, strictly, on a real API server."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from muster.jobs.build.flags import BY_TYPE, flags_of
from tests.controlplane import kubeflow_crds
from tests.controlplane.build import Unavailable
from tests.controlplane.control_plane import ControlPlane
from tests.muster.cli.seeds import SEEDS
from tests.muster.cli.submit_dry_run import Machine
from tests.muster.cli.verbs.test_submit_flags import OWN, SHARED
from tests.prerequisites import missing_prerequisite
from tests.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.kube]


@pytest.fixture(scope="module")
def plane(control_plane_binaries: Path) -> Iterator[ControlPlane]:
    """A control plane where Kubeflow's definitions are installed, and none of ours."""
    try:
        definitions = kubeflow_crds.definitions()
    except Unavailable as error:
        missing_prerequisite("go", str(error))
    with ControlPlane(control_plane_binaries) as plane:
        for body in definitions:
            status, answer = plane.request(
                "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body
            )
            assert status == 201, answer
        high = {"metadata": {"name": "high"}, "value": 1}
        plane.request("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", high)
        for body in definitions:
            path = f"/apis/kubeflow.org/v1/{body['spec']['names']['plural']}"
            until(partial(_served, plane, path), what=f"{path} is served")
        yield plane


def _served(plane: ControlPlane, path: str) -> bool:
    try:
        return plane.request("GET", path)[0] == 200
    except ValueError:  # a path that is not served yet is answered in plain text
        return False


@pytest.fixture
def machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Machine:
    (tmp_path / "app.conf").write_text('a: "1"\n')
    monkeypatch.chdir(tmp_path)
    machine = Machine(tmp_path, capsys, monkeypatch)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    return machine


@pytest.mark.parametrize("type_", OWN)
def test_all_flags_at_once_give_a_manifest_that_kubeflow_accepts(
    plane: ControlPlane, machine: Machine, type_: str
) -> None:
    where = ("--kubeconfig", str(plane.kubeconfig), "--dry-run=server")
    effects = {**SHARED, **OWN[type_]}
    more = [word for effect in effects.values() for word in effect.more]
    flags = [
        f"{row.spelling}={effects[row.spelling].value}"
        if effects[row.spelling].value
        else row.spelling
        for row in flags_of(BY_TYPE[type_])
    ]
    words = dict.fromkeys([*more, *flags])
    code, out, err = machine.run("submit", type_, *where, *words, "python t.py")

    assert code == 0, err
    assert f"{type_}.kubeflow.org/other created (server dry run)" in out.splitlines()


@pytest.mark.parametrize("seed", SEEDS)
def test_the_seeds_commands_give_manifests_that_kubeflow_accepts(
    plane: ControlPlane, machine: Machine, seed: str
) -> None:
    where = ("--kubeconfig", str(plane.kubeconfig), "--dry-run=server")
    code, out, err = machine.run(*SEEDS[seed], *where)

    assert code == 0, err
    assert out.splitlines()[-1].endswith("created (server dry run)")


def test_a_field_that_kubeflow_does_not_know_is_refused_and_not_dropped(
    plane: ControlPlane, machine: Machine
) -> None:
    file = machine.home / "job.yaml"
    _, out, _ = machine.run(
        "submit", "jax", "--name=j", "--image=i", "--dry-run", "--kubeconfig",
        str(plane.kubeconfig), "x",
    )  # fmt: skip
    file.write_text(out + "\n  surprise: 1\n")
    code, _, err = machine.run(
        "submit", "-f", str(file), "--dry-run=server", "--kubeconfig", str(plane.kubeconfig)
    )

    assert code != 0
    assert "surprise" in err


def test_a_server_dry_run_leaves_nothing(plane: ControlPlane, machine: Machine) -> None:
    where = ("--kubeconfig", str(plane.kubeconfig), "--dry-run=server")
    code, out, _ = machine.run(
        "submit", "tf", "--name=gone", "--image=i", "--tensorboard", *where, "x"
    )

    assert code == 0
    assert out.splitlines() == [
        "configmap/gone-tfjob created (server dry run)",
        "service/gone-tensorboard created (server dry run)",
        "deployment.apps/gone-tensorboard created (server dry run)",
        "tfjob.kubeflow.org/gone created (server dry run)",
    ]
    for path in (
        "/apis/kubeflow.org/v1/namespaces/default/tfjobs/gone",
        "/api/v1/namespaces/default/configmaps/gone-tfjob",
        "/api/v1/namespaces/default/services/gone-tensorboard",
        "/apis/apps/v1/namespaces/default/deployments/gone-tensorboard",
    ):
        assert plane.request("GET", path)[0] == 404


def test_on_a_real_server_a_failure_half_way_is_rolled_back(
    plane: ControlPlane, machine: Machine
) -> None:
    where = ("--kubeconfig", str(plane.kubeconfig))
    taken = {"metadata": {"name": "half-tensorboard"}, "spec": {"ports": [{"port": 1}]}}
    plane.request("POST", "/api/v1/namespaces/default/services", taken)
    words = ("submit", "pytorch", "--name=half", "--image=i", "--tensorboard", *where, "x")
    code, out, err = machine.run(*words)

    assert (code, out) == (1, "")
    assert "already exists" in err
    job = "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs/half"
    record = "/api/v1/namespaces/default/configmaps/half-pytorchjob"
    assert [plane.request("GET", path)[0] for path in (job, record)] == [404, 404]

    plane.request("DELETE", "/api/v1/namespaces/default/services/half-tensorboard")
    assert machine.run(*words)[0] == 0
    _, created = plane.request("GET", job)
    _, config_map = plane.request("GET", record)
    assert config_map["metadata"]["ownerReferences"][0]["uid"] == created["metadata"]["uid"]
