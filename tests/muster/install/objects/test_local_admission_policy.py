"""The admission policy on the local API server says of a job what it says on a real one.

`test_admission_policy` sends the same jobs to a real kube-apiserver.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kubekit.objects.kinds import ADMISSION_POLICIES, CRDS
from muster.contract import crds
from muster.install.objects.admission import policy as admission_policy
from tests.localkube.conformance.conftest import InThread
from tests.localkube.conformance.transcript import MERGE, Connection, Step
from tests.muster.install.objects.admission_cases import (
    ANYTHING,
    BAD,
    GOOD,
    MISSPELT,
    OPERATOR_ONLY,
    job,
    tf,
)
from tests.muster.install.objects.test_admission_policy import path_of, send, verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kubekit.objects.meta import Raw


class LocalCluster:
    """The local API server, asked as the real one is."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def request(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        kind = MERGE if method == "PATCH" else "application/json"
        reply = self._connection.send(Step(method, path, body, kind))
        return reply.status, reply.body

    def patch(self, name: str, change: Raw, part: str = "") -> tuple[int, str]:
        """Change a job without storing it: the status code, and the sentence of the policy."""
        path = f"{path_of(tf('Worker'))}/{name}{part}?dryRun=All"
        status, answer = self.request("PATCH", path, change)
        return status, str(answer.get("message", "")).partition("denied request: ")[2]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A cluster with the CRDs, the policy, and a wrong job that was there before the policy."""
    host = InThread(tmp_path_factory.mktemp("policy"))
    connection = Connection(host.start())
    local = LocalCluster(connection)
    for crd in crds.load_all():
        assert local.request("POST", CRDS.path(), crd)[0] == 201
    wrong = tf("Worker", replicas=-1)
    wrong["metadata"]["name"] = "wrong"
    assert send(local, wrong, dry_run=False) == (201, "")
    for item in admission_policy.build():
        kind = next(row for row in ADMISSION_POLICIES if row.kind == item["kind"])
        status, answer = local.request("POST", kind.path(), item)
        assert status == 201, answer
    yield local
    connection.close()
    host.stop()


@pytest.mark.parametrize("case", GOOD)
def test_a_job_without_mistakes_is_accepted(case: str, cluster: LocalCluster) -> None:
    assert send(cluster, GOOD[case]) == (201, "")


@pytest.mark.parametrize("case", BAD)
def test_a_mistake_is_rejected_with_the_sentence_of_the_operator(
    case: str, cluster: LocalCluster
) -> None:
    assert send(cluster, BAD[case]) == (422, verdict(BAD[case]))


@pytest.mark.parametrize("case", MISSPELT)
def test_a_misspelt_word_is_rejected(case: str, cluster: LocalCluster) -> None:
    status, sentence = send(cluster, MISSPELT[case])

    assert status == 422
    assert sentence.partition(";")[0] == verdict(MISSPELT[case]).partition(";")[0]


@pytest.mark.parametrize("case", OPERATOR_ONLY)
def test_mistakes_that_only_the_operator_finds_pass(case: str, cluster: LocalCluster) -> None:
    assert send(cluster, OPERATOR_ONLY[case]) == (201, "")


@pytest.mark.parametrize("number", range(len(ANYTHING)))
def test_nothing_that_the_operator_accepts_is_rejected(number: int, cluster: LocalCluster) -> None:
    _, sentence = send(cluster, ANYTHING[number])

    assert not sentence or sentence.partition(";")[0] == verdict(ANYTHING[number]).partition(";")[0]


@pytest.mark.parametrize(("kind", "version"), [("MPIJob", "v2beta1"), ("TFJob", "v1alpha1")])
def test_every_version_is_checked(kind: str, version: str, cluster: LocalCluster) -> None:
    assert send(cluster, job(kind), version=version)[0] == 201

    assert send(cluster, job(kind, {}), version=version) == (422, verdict(job(kind, {})))


def test_a_wrong_job_from_before_can_change_all_but_its_spec(cluster: LocalCluster) -> None:
    assert cluster.patch("wrong", {"metadata": {"labels": {"team": "vision"}}}) == (200, "")
    assert cluster.patch("wrong", {"status": {"conditions": []}}, "/status") == (200, "")

    status, sentence = cluster.patch("wrong", {"spec": {"runPolicy": {"suspend": True}}})

    assert status == 422
    assert sentence.endswith("replicas: is -1; write 0 or more")


def test_a_sentence_with_a_line_break_is_replaced_by_a_fixed_one(cluster: LocalCluster) -> None:
    _, sentence = send(cluster, tf("Worker", restartPolicy="a\nb"))

    assert sentence == "a restartPolicy is unknown; use Always, OnFailure, Never, ExitCode"


def test_a_large_job_is_checked_within_the_limits(cluster: LocalCluster) -> None:
    env = [{"name": f"VARIABLE_{i}", "value": "x" * 100} for i in range(200)]
    rows = [{"name": f"c{i}", "image": "i", "env": env} for i in range(9)]
    template = {"spec": {"containers": [*rows, {"name": "tensorflow", "image": "i"}]}}
    large = tf("Chief", "Evaluator", "PS", "Worker", template=template)

    assert send(cluster, large) == (201, "")
    large["metadata"]["name"] = "0day"
    assert send(cluster, large) == (422, verdict(large))
