"""The cluster spec of a replica: readable, and without variables that may be secrets."""

from __future__ import annotations

import json

from kubekit.objects.meta import Raw
from muster.web.views.cluster_spec import cluster_spec, config_map_of
from tests.builders import container, pod
from tests.muster.web.objects import HOSTILE


def with_variables(*variables: tuple[str, str]) -> Raw:
    return pod("p", container(env=[{"name": name, "value": value} for name, value in variables]))


def test_tf_config_is_indented_and_other_variables_are_left_out() -> None:
    config = {"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 0}}
    raw = with_variables(("TF_CONFIG", json.dumps(config)), ("API_TOKEN", "secret"), ("RANK", "0"))

    view = cluster_spec("/jobs/x", ["job-worker-0"], raw, {})
    assert [row.name for row in view.variables] == ["TF_CONFIG", "RANK"]
    assert json.loads(view.variables[0].text) == config
    assert view.variables[0].long
    assert not view.variables[1].long


def test_the_last_variable_of_a_name_wins_and_broken_json_stays() -> None:
    view = cluster_spec(
        "/", [], with_variables(("TF_CONFIG", "{}"), ("TF_CONFIG", '{"a": ' + HOSTILE)), {}
    )

    assert [row.text for row in view.variables] == ['{"a": ' + HOSTILE]


def test_a_variable_without_a_value_is_empty() -> None:
    raw = pod()
    raw["spec"]["containers"][0]["env"] = [{"name": "RANK", "valueFrom": {"fieldRef": {}}}]

    assert [row.text for row in cluster_spec("/", [], raw, {}).variables] == [""]


def test_the_hostfile_comes_from_the_config_map_that_the_pod_mounts() -> None:
    mounted = {"name": "mpi-job-config", "configMap": {"name": "job-config"}}
    files = {"hostfile": "job-worker-0 slots=1\n", "kubexec.sh": "#!/bin/sh"}

    assert config_map_of(pod(volumes=[mounted]), "job") == "job-config"
    assert config_map_of(pod(volumes=[{"emptyDir": {}}]), "job") == ""
    view = cluster_spec("/", [], pod(), files)
    assert [(row.name, row.text) for row in view.files] == [("hostfile", "job-worker-0 slots=1\n")]


def test_a_job_without_pods_has_no_spec() -> None:
    assert cluster_spec("/", [], None, {}).replica == ""
