"""The chart gives the objects that `muster install` applies, and generated files are up to date."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from scripts import generate_deploy

from kubekit.objects.meta import Raw
from muster.install.objects import manifests, values
from tests.repository import ROOT

CHART = ROOT / "deploy" / "chart"
CHOICES: dict[str, Any] = {
    "defaults": {},
    "scheduler": {"operator": {"enabled": False}, "scheduler": {"names": ["volcano", "My.Own"]}},
    "namespaced": {
        "operator": {
            "watchNamespace": "team",
            "gangDialect": "pdb",
            "defaultRestart": "gang",
            "extraArgs": ["--debug"],
        },
        "scheduler": {"enabled": False},
    },
    "no dashboard": {"dashboard": {"enabled": False}},
    "volcano": {"operator": {"gangSchedulerName": "volcano", "gangByDefault": False}},
    "single pods elsewhere": {"operator": {"podSchedulerName": "default-scheduler"}},
    "everything": {
        "imagePullPolicy": "Always",
        "imagePullSecrets": ["registry"],
        "operator": {"replicas": 1, "resources": {"limits": {"memory": "1Gi", "cpu": 1}}},
        "scheduler": {"replicas": 3, "settings": {"holdSeconds": 60, "weights": {"rack": 0}}},
        "dashboard": {
            "replicas": 2,
            "port": 8443,
            "hosts": ["muster.example.org", "muster.example.net"],
            "readOnly": True,
            "resources": {"limits": {"memory": "1Gi"}},
            "extraArgs": ["--loglevel=debug"],
        },
        "metrics": {"port": 9090, "service": False},
        "podDisruptionBudget": False,
        "networkPolicy": False,
        "admissionPolicy": False,
        "priorityClasses": {"high": ["team-b", "team-a"], "system-node-critical": []},
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "infra", "operator": "Exists"}],
        "priorityClassName": "system-cluster-critical",
    },
}
CURRENT = ("--kube-version", "1.36.3")
CRD = "CustomResourceDefinition"
POLICY = "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy"


def run(helm: Path, *words: str) -> str:
    result = subprocess.run([helm, *words], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr + result.stdout
    return result.stdout


def by_name(objects: list[Raw]) -> dict[tuple[str, str, str], Raw]:
    named = {}
    for item in objects:
        meta = item["metadata"]
        named[item["kind"], meta.get("namespace", ""), meta["name"]] = item
    return named


@pytest.mark.kube
@pytest.mark.slow
@pytest.mark.parametrize("choice", CHOICES)
def test_the_chart_gives_the_objects_of_install(helm: Path, choice: str, tmp_path: Path) -> None:
    chosen = {"image": "registry.example.com/muster:1", **CHOICES[choice]}
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(chosen))
    words = ["-f", str(file), "--namespace", "there", *CURRENT, "--include-crds"]
    words += ["--api-versions", POLICY]

    text = run(helm, "template", "muster", str(CHART), *words)

    from_chart = by_name(
        [item for item in yaml.safe_load_all(text) if item and item["kind"] != CRD]
    )
    for user in ("view", "edit"):
        if role := from_chart.get(("ClusterRole", "", f"muster-{user}")):
            del role["metadata"]["annotations"]  # by which they stay with the jobs
    installed = values.check(values.read(file.read_text(), "values.yaml"))
    expected = by_name(manifests.components(installed, "there"))
    assert sorted(from_chart) == sorted(expected)
    for name, item in expected.items():
        assert from_chart[name] == item, name


def test_the_chart_brings_the_crds_of_its_default_dialect() -> None:
    """Helm makes no CRD from values."""
    text = (CHART / "crds" / "crds.yaml").read_text()

    assert list(yaml.safe_load_all(text)) == manifests.definitions(values.Values())


@pytest.mark.kube
@pytest.mark.slow
def test_the_chart_refuses_names_without_the_one_that_the_operator_gives_to_gangs(
    helm: Path,
) -> None:
    words = ["template", "muster", str(CHART), *CURRENT, "--set", "image=x"]
    words += ["--set", "scheduler.names={volcano}"]

    result = subprocess.run([helm, *words], capture_output=True, text=True, check=False)

    assert result.returncode != 0
    assert "operator.gangSchedulerName is muster, and nothing answers to it" in result.stderr


@pytest.mark.kube
@pytest.mark.slow
def test_the_chart_has_no_policy_for_a_cluster_without_policies(helm: Path) -> None:
    words = ("--set", "image=x", "--kube-version", "1.29.0")
    text = run(helm, "template", "muster", str(CHART), *words)

    kinds = {item["kind"] for item in yaml.safe_load_all(text) if item}
    assert "Deployment" in kinds
    assert "ValidatingAdmissionPolicy" not in kinds


@pytest.mark.kube
@pytest.mark.slow
def test_helm_finds_no_fault_in_the_chart(helm: Path) -> None:
    run(helm, "lint", "--strict", str(CHART), "--set", "image=x")


@pytest.mark.kube
@pytest.mark.slow
@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ("operater.replicas=3", "operater"),
        ("operator.replica=3", "replica"),
        ("scheduler.settings.holdSecond=60", "holdSecond"),
        ("operator.gangDialect=volcno", "gangDialect"),
        ("imagePullPolicy=always", "imagePullPolicy"),
    ],
)
def test_helm_refuses_a_misspelt_value(helm: Path, setting: str, named: str) -> None:
    words = ["template", "muster", str(CHART), *CURRENT, "--set", "image=x", "--set", setting]

    result = subprocess.run([helm, *words], capture_output=True, text=True, check=False)

    assert result.returncode != 0
    assert "values don't meet the specifications of the schema" in result.stderr
    assert named in result.stderr


@pytest.mark.kube
@pytest.mark.slow
def test_helm_accepts_values_that_charts_share(helm: Path) -> None:
    words = (*CURRENT, "--set", "image=x", "--set", "global.registry=y")

    assert "kind: Deployment" in run(helm, "template", "muster", str(CHART), *words)


def test_the_values_of_the_chart_are_the_defaults_of_install() -> None:
    text = (CHART / "values.yaml").read_text()

    assert values.read(text, "values.yaml") == values.Values()


@pytest.mark.parametrize("path", generate_deploy.files(), ids=lambda path: path.name)
def test_generated_files_are_up_to_date(path: Path) -> None:
    assert path.read_text() == generate_deploy.files()[path], "run: make docs"
