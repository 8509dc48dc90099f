"""Kubeflow's TrainingClient on a real kube-apiserver with Muster's CRDs, operator and scheduler."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.kube_cluster import kube_cluster
from tests.e2e.training_client.runner import Outcomes, assert_passed, names_of, run_tests
from tests.examples.training import need

pytestmark = [pytest.mark.slow, pytest.mark.kube]


@pytest.fixture(scope="module")
def outcomes(
    control_plane_binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Outcomes]:
    need("kubeflow", "kubeflow")
    folder = tmp_path_factory.mktemp("kube")
    with kube_cluster(control_plane_binaries, folder) as kube:
        yield run_tests(kube.plane.kubeconfig, folder, "on_kubernetes")


@pytest.mark.parametrize("name", names_of("on_kubernetes"))
def test_the_client_works(outcomes: Outcomes, name: str) -> None:
    assert_passed(outcomes, name)
