"""How a failed pod is described, and kubectl's STATUS column."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kubekit.objects.core import Pod
from kubekit.objects.meta import Raw
from muster.jobs import pod_status
from tests.builders import container, read_pod


def pod(name: str = "p", containers: int = 1, **status: Any) -> Pod:
    rows = [container(f"c{number}") for number in range(containers)]
    return read_pod(name, *rows, status={"phase": "Failed", **status})


def ended(code: int = 1, name: str = "c0", where: str = "state", **more: Any) -> dict[str, Any]:
    return {"name": name, where: {"terminated": {"exitCode": code, **more}}}


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([ended(1)], "exited with code 1"),
        ([ended(1, reason="Error")], "exited with code 1"),
        ([ended(137)], "exited with code 137 (SIGKILL)"),
        ([ended(255)], "exited with code 255"),
        ([ended(137, reason="OOMKilled")], "was OOMKilled (exit code 137)"),
        ([ended(0, signal=9)], "was killed by signal 9 (SIGKILL)"),
        ([ended(0, signal=77)], "was killed by signal 77"),
        ([ended(1, reason="DeadlineExceeded")], "exited with code 1 (DeadlineExceeded)"),
        (
            [ended(128, reason="StartError", message="cannot run '/bin/nope'")],
            "could not start: cannot run '/bin/nope'",
        ),
        (
            [ended(127, reason="ContainerCannotRun", message="not found")],
            "could not start: not found",
        ),
        (
            [ended(1, message="Traceback\n x\nError: 3\n")],
            "exited with code 1: Error: 3",
        ),
        ([ended(2, where="lastState")], "exited with code 2"),
        ([ended(0)], "failed"),
        ([], "failed"),
    ],
)
def test_the_end_of_a_container_is_put_in_words(rows: list[dict[str, Any]], words: str) -> None:
    assert pod_status.failure(pod(containerStatuses=rows)) == words


@pytest.mark.parametrize("sidecar", [False, True])
def test_a_container_without_enough_memory_is_described_with_its_limit(sidecar: bool) -> None:
    main = {"name": "c0", "resources": {"limits": {"memory": "100Mi"}}}
    other = {"name": "c1", "resources": {"limits": {"memory": "1Gi"}}}
    spec = {"containers": [main], "initContainers": [other] if sidecar else []}
    status = {"phase": "Failed", "containerStatuses": [ended(137, reason="OOMKilled")]}
    killed = msgspec.convert({"metadata": {}, "spec": spec, "status": status}, Pod)

    words = "was OOMKilled (exit code 137) at its memory limit of 100Mi"
    assert pod_status.failure(killed) == (f"{words} (container c0)" if sidecar else words)


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        ("1", "1 byte; write a unit, such as 1Mi"),
        (200, "200 bytes; write a unit, such as 200Mi"),
        ("1073741824", "1073741824"),
    ],
)
def test_a_memory_limit_of_a_few_bytes_gets_its_unit(limit: int | str, words: str) -> None:
    spec = {"containers": [{"name": "c0", "resources": {"limits": {"memory": limit}}}]}
    status = {"phase": "Failed", "containerStatuses": [ended(137, reason="OOMKilled")]}
    killed = msgspec.convert({"metadata": {}, "spec": spec, "status": status}, Pod)

    assert pod_status.failure(killed).endswith(f" at its memory limit of {words}")


def test_an_evicted_pod_shows_the_reason_of_its_eviction() -> None:
    taken = pod(reason="Evicted", message="low on memory", containerStatuses=[ended(137)])

    assert pod_status.failure(taken) == "Evicted: low on memory"


def test_the_failed_container_among_several_is_named() -> None:
    rows = [ended(0), ended(4, "c1")]

    assert (
        pod_status.failure(pod(containers=2, containerStatuses=rows))
        == "exited with code 4 (container c1)"
    )


def test_the_first_failed_pod_is_the_pod_whose_container_ended_first() -> None:
    early = ended(1, finishedAt="2026-01-02T03:04:05Z")
    late = ended(1, finishedAt="2026-01-02T03:04:06Z")
    pods = [
        pod("untold", containerStatuses=[]),
        pod("late", containerStatuses=[late]),
        pod("early", containerStatuses=[early]),
    ]

    assert pod_status.first_failed(pods).metadata.name == "early"


TRACEBACK = "Traceback (most recent call last):\n  File 'train.py'\nValueError: boom\n"


def test_an_ending_has_the_last_lines_of_a_failed_container() -> None:
    ending = pod_status.ending_of(pod(containerStatuses=[ended(1, message=TRACEBACK)]))

    assert ending.last_lines == tuple(TRACEBACK.splitlines())
    assert pod_status.error_line(ending) == "ValueError: boom"
    assert pod_status.brief(ending).last_lines == ("ValueError: boom",)


def test_the_last_lines_are_bounded() -> None:
    message = "\n".join(f"{number} {'x' * 1000}" for number in range(100))
    lines = pod_status.ending_of(pod(containerStatuses=[ended(1, message=message)])).last_lines

    assert [line.split()[0] for line in lines] == [str(number) for number in range(90, 100)]
    assert max(map(len, lines)) == 300


def test_a_pod_on_a_node_that_does_not_answer_says_what_happens_and_what_a_person_can_do() -> None:
    silent = {"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-02T03:04:05Z"}
    raw: Raw = {
        "metadata": {"name": "p", "namespace": "ns"},
        "spec": {"nodeName": "n", "containers": [container("c")]},
        "status": {"conditions": [silent, {"type": "ContainersReady", "status": "True"}]},
    }
    stays = msgspec.convert(raw, Pod, strict=False)
    raw["metadata"]["deletionTimestamp"] = "2026-01-02T03:09:05Z"
    leaves = msgspec.convert(raw, Pod, strict=False)

    since = "node n has not answered since 2026-01-02T03:04:05Z"
    assert pod_status.unreachable(stays) == (
        f"{since}; if that lasts, the cluster evicts pod p, by default after 5 minutes"
    )
    assert pod_status.unreachable(leaves) == (
        f"{since}, so pod p cannot end; it is replaced once the node answers or is deleted. "
        "If the machine is off: `kubectl taint nodes n "
        "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute` (an administrator), "
        "or `kubectl delete pod p --namespace ns --force`"
    )
