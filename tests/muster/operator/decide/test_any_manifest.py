"""Any junk in a manifest gives either a valid job or an error that names the field."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given, settings, strategies as st

from kubekit.objects.meta import Raw
from muster.contract.job_fields import InvalidJob
from muster.jobs import parse
from muster.jobs.invalid_job import job_from_metadata
from muster.jobs.job import Job
from muster.jobs.view.summary import summarize
from muster.operator.decide.job_decision import decide
from muster.operator.decision_types import Observed, Settings
from tests.muster.operator.builders import NOW, manifest, replica

CONTAINERS = {"TFJob": "tensorflow", "MPIJob": "mpi", "PyTorchJob": "pytorch", "JAXJob": "jax"}
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(allow_nan=False) | st.text("ab/: "),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("abN"), inner, max_size=2),
    max_leaves=4,
)


def rich(kind: str) -> Raw:
    """A manifest with a value in every field that is read."""
    role = replica(1, "OnFailure", CONTAINERS[kind], schedulerName="x", volumes=[{"name": "v"}])
    role["template"]["metadata"] = {"labels": {"a": "b"}, "annotations": {"c": "d"}}
    role["template"]["spec"]["containers"][0] |= {
        "ports": [{"name": "p", "containerPort": 1}],
        "env": [{"name": "e", "value": "f"}],
        "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}},
    }
    lead = {"MPIJob": "Launcher", "JAXJob": "Worker"}.get(kind, "Master")
    scheduling = {"minAvailable": 1, "queue": "q", "minResources": {"cpu": "1"}}
    policy = {"cleanPodPolicy": "All", "backoffLimit": 1, "schedulingPolicy": scheduling}
    elastic = {"rdzvConf": [{"key": "a", "value": "b"}], "maxRestarts": 1, "minReplicas": 1}
    extra: Raw = {
        "runPolicy": policy,
        "schedulerName": "y",
        "elasticPolicy": elastic,
        "nprocPerNode": "2",
        "slotsPerWorker": 1,
        "mainContainer": "mpi",
        "sshAuthMountPath": "/x",
        "mpiImplementation": "Intel",
    }
    roles = {lead: role, "Worker": copy.deepcopy(role)}
    raw = manifest(kind, roles)
    raw["spec"] |= extra
    raw["metadata"] |= {"labels": {"a": "b"}, "annotations": {"muster.dev/gang": "true"}}
    return raw


def field_paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all fields of a manifest."""
    paths = [path] if len(path) > 1 else []
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in items:
            paths += field_paths(inner, (*path, key))
    return paths


def understood(raw: Raw) -> Job | InvalidJob:
    try:
        return parse.parse_job(raw)
    except InvalidJob as refused:
        return refused


@settings(max_examples=300)
@given(st.data())
def test_junk_in_any_field_is_accepted_or_rejected_with_the_fields_name(
    data: st.DataObject,
) -> None:
    raw = rich(data.draw(st.sampled_from(sorted(CONTAINERS))))
    written = field_paths(raw["spec"], ("spec",))
    written += field_paths(raw["metadata"]["annotations"], ("metadata", "annotations"))
    field_path = data.draw(st.sampled_from(written))
    target: Any = raw
    for step in field_path[:-1]:
        target = target[step]
    target[field_path[-1]] = data.draw(JUNK)

    result = understood(raw)

    if isinstance(result, InvalidJob):
        assert result.field
        assert summarize(raw, []).reason
        job = job_from_metadata(raw, rejected=result.with_hint)
        assert decide(job, Observed(), Settings(), NOW)
    else:
        assert decide(result, Observed(), Settings(), NOW)
        summarize(raw, [])
