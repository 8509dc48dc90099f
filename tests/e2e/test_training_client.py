"""Kubeflow's TrainingClient, unchanged, on the local cluster: every method, and real training."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.local_cluster import LocalCluster
from tests.e2e.training_client.runner import Outcomes, assert_passed, names_of, run_tests
from tests.examples.training import PYTHON, need

pytestmark = pytest.mark.slow
MODULES = ("methods", "kinds", "trainings")


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outcomes]:
    """The tests of all modules, run on one cluster whose pods have the client and the packages."""
    need("kubeflow", "kubeflow")
    need("tensorflow", "tensorflow", "jax", "mpi4py")
    cluster = LocalCluster(tmp_path_factory.mktemp("home"), PYTHON)
    cluster.up("--nodes", "2", "--no-dashboard", "--python", PYTHON)
    folder = tmp_path_factory.mktemp("report")
    yield run_tests(cluster.home / "kubeconfig", folder, *MODULES)
    cluster.down()


@pytest.mark.parametrize("name", names_of(*MODULES))
def test_the_client_works(outcomes: Outcomes, name: str) -> None:
    assert_passed(outcomes, name)
