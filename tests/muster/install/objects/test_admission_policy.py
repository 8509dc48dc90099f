"""The admission policy on a real kube-apiserver says of a job what the operator would say of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from kubekit.objects.kinds import ADMISSION_POLICIES
from kubekit.objects.meta import Raw
from muster.contract.job_fields import InvalidJob
from muster.contract.job_kinds import JOB_KINDS
from muster.install.objects import admission_policy, manifests
from muster.install.objects.values import OperatorValues, SchedulerValues, Values
from muster.jobs import parse
from tests.controlplane.control_plane import ControlPlane
from tests.muster.install.objects.admission_cases import (
    ANYTHING,
    BAD,
    GOOD,
    MISSPELT,
    OPERATOR_ONLY,
    job,
    tf,
)
from tests.muster.operator.clusters import define
from tests.waiting import until

PLURALS = {kind.kind: kind.plural for kind in JOB_KINDS}
DENIED = "denied request: "
kube = pytest.mark.kube


@pytest.fixture(scope="module")
def cluster(control_plane_binaries: Path) -> Iterator[ControlPlane]:
    """A cluster with the CRDs, and with two jobs that were there before the policy."""
    with ControlPlane(control_plane_binaries) as plane:
        define(plane)
        old = {"0old": tf("Worker"), "wrong": tf("Worker", replicas=-1)}
        for name, raw in old.items():
            raw["metadata"] |= {"name": name, "finalizers": ["example.com/f"]}
            assert send(plane, raw, dry_run=False) == (201, "")
        for item in admission_policy.build():
            kind = next(row for row in ADMISSION_POLICIES if row.kind == item["kind"])
            status, answer = plane.request("POST", kind.path(), item)
            assert status == 201, answer
        until(lambda: send(plane, BAD["negative replicas"])[1], what="the policy in effect")
        yield plane


class Cluster(Protocol):
    """A cluster that answers requests."""

    def request(self, method: str, path: str, body: object = None) -> tuple[int, Any]: ...


def path_of(raw: Raw, version: str = "v1") -> str:
    return f"/apis/kubeflow.org/{version}/namespaces/default/{PLURALS[raw['kind']]}"


def send(plane: Cluster, raw: Raw, *, version: str = "v1", dry_run: bool = True) -> tuple[int, str]:
    """Create a job: the status code, and the sentence of the policy if it rejects it."""
    meta = {**raw["metadata"], "namespace": "default"}
    body = {**raw, "apiVersion": f"kubeflow.org/{version}", "metadata": meta}
    query = "?dryRun=All" if dry_run else ""
    status, answer = plane.request("POST", path_of(raw, version) + query, body)
    _, denied, sentence = answer.get("message", "").partition(DENIED)
    return status, sentence if denied else ""


def verdict(raw: Raw) -> str:
    """The operator's sentence about a job; empty if it accepts it."""
    try:
        parse.parse_job(raw)
    except InvalidJob as error:
        return error.with_hint
    return ""


@kube
@pytest.mark.parametrize("case", GOOD)
def test_both_accept(case: str, cluster: ControlPlane) -> None:
    assert (verdict(GOOD[case]), *send(cluster, GOOD[case])) == ("", 201, "")


@kube
@pytest.mark.parametrize("case", BAD)
def test_both_reject_with_the_same_sentence(case: str, cluster: ControlPlane) -> None:
    sentence = verdict(BAD[case])

    assert sentence
    assert send(cluster, BAD[case]) == (422, sentence)


@kube
@pytest.mark.parametrize("case", MISSPELT)
def test_both_reject_and_the_operator_knows_what_was_meant(
    case: str, cluster: ControlPlane
) -> None:
    status, sentence = send(cluster, MISSPELT[case])

    assert status == 422
    assert sentence.partition(";")[0] == verdict(MISSPELT[case]).partition(";")[0]


@kube
@pytest.mark.parametrize("case", OPERATOR_ONLY)
def test_only_the_operator_rejects(case: str, cluster: ControlPlane) -> None:
    assert verdict(OPERATOR_ONLY[case])
    assert send(cluster, OPERATOR_ONLY[case]) == (201, "")


@kube
@pytest.mark.parametrize("number", range(len(ANYTHING)))
def test_the_policy_rejects_nothing_that_the_operator_accepts(
    number: int, cluster: ControlPlane
) -> None:
    _, sentence = send(cluster, ANYTHING[number])

    assert not sentence or sentence.partition(";")[0] == verdict(ANYTHING[number]).partition(";")[0]


@kube
@pytest.mark.parametrize(("kind", "version"), [("MPIJob", "v2beta1"), ("TFJob", "v1alpha1")])
def test_every_version_is_checked(kind: str, version: str, cluster: ControlPlane) -> None:
    assert send(cluster, job(kind), version=version)[0] == 201

    status, sentence = send(cluster, job(kind, {}), version=version)

    assert (status, sentence) == (422, verdict(job(kind, {})))


@kube
@pytest.mark.parametrize("name", ["0old", "wrong"])
@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("", {"metadata": {"labels": {"team": "vision"}}}),
        ("/status", {"status": {"conditions": []}}),
        ("", {"metadata": {"finalizers": None}}),
    ],
)
def test_a_job_that_was_there_before_can_still_be_written(
    name: str, part: str, change: Raw, cluster: ControlPlane
) -> None:
    assert patch(cluster, name, change, part) == (200, "")


@kube
def test_the_spec_of_a_job_with_a_bad_name_can_be_changed(cluster: ControlPlane) -> None:
    assert patch(cluster, "0old", {"spec": {"runPolicy": {"suspend": True}}}) == (200, "")


@kube
def test_a_change_that_leaves_a_mistake_is_rejected_until_it_is_corrected(
    cluster: ControlPlane,
) -> None:
    change: Raw = {"spec": {"runPolicy": {"suspend": True}}}

    assert patch(cluster, "wrong", change)[1].endswith("replicas: is -1; write 0 or more")
    change["spec"]["tfReplicaSpecs"] = {"Worker": {"replicas": 1}}
    assert patch(cluster, "wrong", change) == (200, "")


@kube
def test_a_wrong_job_loses_its_last_finalizer_and_goes(cluster: ControlPlane) -> None:
    path = f"{path_of(tf('Worker'))}/0old"
    patched = patch(cluster, "0old", {"metadata": {"finalizers": ["example.com/f"]}}, dry_run=False)
    assert patched == (200, "")
    assert cluster.request("DELETE", path)[0] == 200
    assert cluster.request("GET", path)[0] == 200

    assert patch(cluster, "0old", {"metadata": {"finalizers": None}}, dry_run=False)[0] == 200

    assert cluster.request("GET", path)[0] == 404


def patch(
    plane: ControlPlane, name: str, change: Any, part: str = "", *, dry_run: bool = True
) -> tuple[int, str]:
    words = ["patch", "tfjob", name, "--type=merge", "-p", json.dumps(change)]
    words += ["--subresource", part.strip("/")] if part else []
    result = plane.kubectl(*words, *(["--dry-run=server"] if dry_run else []))
    _, denied, sentence = result.stderr.strip().partition(DENIED)
    return (200, "") if result.returncode == 0 else (422, sentence if denied else result.stderr)


@kube
def test_the_sentence_with_a_line_break_is_replaced_by_a_fixed_one(cluster: ControlPlane) -> None:
    _, sentence = send(cluster, tf("Worker", restartPolicy="a\nb"))

    assert sentence == "a restartPolicy is unknown; use Always, OnFailure, Never, ExitCode"


@kube
def test_a_large_job_is_checked_within_the_cost_that_the_server_allows(
    cluster: ControlPlane,
) -> None:
    env = [{"name": f"VARIABLE_{i}", "value": "x" * 100} for i in range(200)]
    rows = [{"name": f"c{i}", "image": "i", "env": env} for i in range(9)]
    template = {"spec": {"containers": [*rows, {"name": "tensorflow", "image": "i"}]}}
    roles = ("Chief", "Evaluator", "PS", "Worker")
    large = tf(*roles, template=template)

    assert send(cluster, large) == (201, "")
    large["metadata"]["name"] = "0day"
    assert send(cluster, large) == (422, verdict(large))


def kinds(**given: Any) -> list[str]:
    values = Values(image="i", **given)
    return [item["kind"] for item in manifests.components(values, "muster")]


def test_the_policy_comes_with_an_operator_of_the_whole_cluster() -> None:
    policy = {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}

    assert policy <= set(kinds())
    assert not policy & set(kinds(operator=OperatorValues(enabled=False)))
    assert not policy & set(kinds(admission_policy=False))
    namespaced = OperatorValues(watch_namespace="team")
    only = SchedulerValues(enabled=False)
    assert not policy & set(kinds(operator=namespaced, scheduler=only))
