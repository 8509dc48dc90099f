"""Unknown fields of manifests are found by their path, with the field that was probably meant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from kubekit import schemas
from kubekit.objects.meta import Raw
from muster.contract import job_fields
from muster.contract.job_kinds import JOB_KIND_BY_NAME
from muster.jobs.unknown_fields import UnknownField, find_unknown_fields, summary
from tests.muster.jobs.builders import manifest, template

GUIDES = Path(__file__).parents[1] / "operator" / "end_to_end" / "guides"


def unknown(spec: Raw, kind: str = "TFJob") -> list[str]:
    return [str(field) for field in find_unknown_fields(manifest(spec, kind))]


def worker(**fields: Any) -> Raw:
    return {"tfReplicaSpecs": {"Worker": {"template": template("tensorflow"), **fields}}}


def test_a_typo_in_a_role_and_one_in_a_container_are_found_with_what_was_meant() -> None:
    container = {"name": "tensorflow", "image": "i", "comand": ["python"]}
    spec = worker(replica=2, template={"spec": {"containers": [container]}})

    assert unknown(spec) == [
        "spec.tfReplicaSpecs.Worker.template.spec.containers[0].comand (did you mean command?)",
        "spec.tfReplicaSpecs.Worker.replica (did you mean replicas?)",
    ]


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"runPolcy": {}}, "spec.runPolcy (did you mean runPolicy?)"),
        ({"RunPolicy": {}}, "spec.RunPolicy (did you mean runPolicy?)"),
        ({"runPolicy": {"ttl_seconds_after_finished": 1}}, "ttlSecondsAfterFinished?)"),
        ({"runPolicy": {"schedulingPolicy": {"que": "x"}}}, "(did you mean queue?)"),
        ({"zzz": None}, "spec.zzz"),
    ],
)
def test_a_typo_in_a_policy_is_found(spec: Raw, path: str) -> None:
    (found,) = unknown({**worker(), **spec})
    assert found.endswith(path)


def test_a_role_may_have_any_letter_case_but_not_any_name() -> None:
    replicas = worker()["tfReplicaSpecs"]["Worker"]

    for role in ("worker", "PS", "ps", "Evaluator"):
        assert unknown({"tfReplicaSpecs": {role: replicas}}) == []
    assert unknown({"tfReplicaSpecs": {"Wroker": replicas}}) == [
        "spec.tfReplicaSpecs.Wroker (did you mean Worker?)"
    ]


def test_names_in_maps_are_free() -> None:
    container = {
        "name": "tensorflow",
        "resources": {"limits": {"example.com/gpu": 1}, "requests": {"x": "1"}},
        "env": [{"name": "A", "value": "b"}],
    }
    pod = {
        "metadata": {"labels": {"l": "1"}, "annotations": {"a": "1"}, "creationTimestamp": None},
        "spec": {"containers": [container], "nodeSelector": {"n": "1"}, "volumes": None},
    }
    policy = {"schedulingPolicy": {"minResources": {"cpu": 0.5}}}

    assert unknown({**worker(template=pod), "runPolicy": policy}) == []


def test_fields_that_the_parser_reads_in_any_letter_case_are_known_in_any_letter_case() -> None:
    body = {"Replicas": 1, "TEMPLATE": template("tensorflow"), "restartpolicy": "Never"}

    assert unknown({"TFReplicaSpecs": {"worker": body}}) == []
    assert unknown({"TFReplicaSpecs": {"worker": {**body, "Replica": 1}}}) == [
        "spec.TFReplicaSpecs.worker.Replica (did you mean replicas?)"
    ]


def test_fields_outside_of_spec_are_checked_too_and_other_kinds_are_not() -> None:
    job = {**manifest(worker()), "sepc": {}, "status": {"anything": 1}}
    job["metadata"] = {"name": "x", "label": {}}

    assert [str(field) for field in find_unknown_fields(job)] == [
        "metadata.label (did you mean labels?)",
        "sepc (did you mean spec?)",
    ]
    assert find_unknown_fields({"kind": "Pod", "spec": {"x": 1}}) == []
    assert find_unknown_fields({"kind": ["TFJob"]}) == []


def test_values_of_the_wrong_type_are_left_to_the_parser() -> None:
    assert unknown({"tfReplicaSpecs": [1], "runPolicy": "x", "replicaSpecs": [None, 5]}) == []


@pytest.mark.parametrize("kind", JOB_KIND_BY_NAME)
def test_no_known_field_is_reported(kind: str) -> None:
    """A manifest with every field of the table, and of a pod template two levels deep."""
    pod = schemas.by_name("io.k8s.api.core.v1.PodTemplateSpec")
    spec = pod.field("spec")
    assert spec is not None
    full: Raw = {"metadata": {}, "spec": {name: {} for name in spec.properties}}

    def every_field(fields: Raw) -> Raw:
        return {
            name: full if name == "template" else value(schema) for name, schema in fields.items()
        }

    def value(schema: Raw) -> Any:
        if "additionalProperties" in schema:
            return {"Worker": value(schema["additionalProperties"])}
        if "items" in schema:
            return [value(schema["items"])]
        return every_field(schema.get("properties") or {})

    assert unknown(every_field(job_fields.SPEC_FIELDS[kind]), kind) == []


def test_the_jobs_of_the_guides_are_free_of_warnings() -> None:
    documents = [
        document
        for path in sorted(GUIDES.glob("*.yaml"))
        for document in yaml.safe_load_all(path.read_text())
    ]
    jobs = [document for document in documents if document["kind"] in JOB_KIND_BY_NAME]

    assert {job["apiVersion"] for job in jobs} == {"kubeflow.org/v1beta1", "kubeflow.org/v1alpha2"}
    assert [str(field) for job in jobs for field in find_unknown_fields(job)] == []


def test_a_summary_fits_into_an_event() -> None:
    fields = [UnknownField(f"spec.{'x' * 500}{i}", "runPolicy") for i in range(50)]

    assert summary([UnknownField("spec.a", "b")]) == "unknown field spec.a (did you mean b?)"
    assert summary([UnknownField("spec.a"), UnknownField("c")]) == "unknown fields: spec.a, c"
    assert len(summary(fields)) <= 1024
    assert summary(fields).endswith("… and 42 more")
