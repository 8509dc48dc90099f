"""The judge of the drills finds each fault that it is there for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kubekit.objects.meta import Raw
from tests.drills import verdict
from tests.drills.pod_history import INDEX, JOB, ROLE, PodLife, read_history

LABELS = {JOB: "j", ROLE: "worker", INDEX: "0"}


def life(uid: str, index: int = 0, **fields: Any) -> PodLife:
    labels = {**LABELS, INDEX: str(index)}
    return PodLife(uid, "ns", f"j-worker-{index}", labels, gpus=1, **fields)


def test_a_node_with_more_gpus_in_use_than_it_has() -> None:
    one = life("a", 0, node="n", bound=1.0, deleted=5.0)
    two = life("b", 1, node="n", bound=2.0, ended=4.0)

    assert verdict.over_committed([one, two], {"n": 2}) == []
    (found,) = verdict.over_committed([one, two], {"n": 1})
    assert found.startswith("n for 2.000 s")
    assert verdict.over_committed([one, two], {"n": 1}, moment=3.0) == []
    later = life("b", 1, node="n", bound=5.0)
    assert verdict.over_committed([one, later], {"n": 1}) == []


def test_an_over_commit_that_does_not_end() -> None:
    pods = [life(str(n), n, node="n", bound=float(n)) for n in range(2)]

    assert len(verdict.over_committed(pods, {"n": 1}, moment=60.0)) == 1


def test_two_living_pods_of_one_replica() -> None:
    first = life("a", created=1.0, deleted=9.0)

    assert len(verdict.doubled([first, life("b", created=5.0)])) == 1
    assert verdict.doubled([first, life("b", created=9.0)]) == []
    assert verdict.recreated([first, life("b", created=9.0)]) == {"ns/j": {"not deleted": 1}}


def test_a_gang_that_is_half_bound_for_a_while() -> None:
    lives = {"a": life("a", 0, node="n", bound=1.0), "b": life("b", 1, node="n", bound=4.0)}
    sizes = {"ns/j": 2}

    (half,) = verdict.half_gangs(lives, sizes, now=10.0)
    assert (half.start, half.end) == (1.0, 4.0)
    assert half.seconds_outside([(2.0, 3.5)]) == 1.5
    lives["b"].deleted = 6.0
    assert [row.end - row.start for row in verdict.half_gangs(lives, sizes, now=10.0)] == [3.0, 4.0]
    lives["a"].ended = 7.0  # the job has come to its end
    assert [row.end - row.start for row in verdict.half_gangs(lives, sizes, now=10.0)] == [3.0, 1.0]


def test_a_gang_of_which_one_pod_was_never_bound() -> None:
    lives = {"a": life("a", 0, node="n", bound=1.0), "b": life("b", 1)}

    (half,) = verdict.half_gangs(lives, {"ns/j": 2}, now=10.0)
    assert half.end == 10.0


def audited(verb: str, second: int, code: int = 200, **fields: Any) -> Raw:
    at = f"2026-01-01T00:00:{second:02}.000000Z"
    reference = {"resource": "pods", "subresource": fields.pop("subresource", "")}
    return {
        "stage": "ResponseComplete",
        "verb": verb,
        "objectRef": reference,
        "responseStatus": {"code": code},
        "requestReceivedTimestamp": at,
        "stageTimestamp": at,
        **fields,
    }


def pod(phase: str, node: str = "", **metadata: Any) -> Raw:
    created = {"creationTimestamp": "2026-01-01T00:00:00Z"}
    return {
        "kind": "Pod",
        "metadata": {"uid": "u", "namespace": "ns", "name": "p", **created, **metadata},
        "spec": {"nodeName": node, "containers": [{"name": "c"}]},
        "status": {"phase": phase},
    }


def test_the_life_of_a_pod_is_read_from_the_audit_log(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    bind = {"metadata": {"uid": "u"}, "target": {"name": "n"}}
    going = pod("Running", "n", deletionGracePeriodSeconds=30)
    rows = [
        audited("create", 1, 201, responseObject=pod("Pending")),
        audited("create", 2, 409, subresource="binding", requestObject=bind),
        audited("create", 3, 201, subresource="binding", requestObject=bind),
        audited("create", 4, 201, subresource="binding", requestObject=bind),
        audited("delete", 5, responseObject=going),
        audited("delete", 6, responseObject=pod("Running", "n", deletionGracePeriodSeconds=0)),
    ]
    cut_short = '{"kind": "Ev'
    log.write_text("\n".join([json.dumps(rows[0]), cut_short, *map(json.dumps, rows[1:])]))

    read = read_history(log)["u"]

    assert [node for _, node in read.binds] == ["n", "n"]
    assert len(verdict.bound_twice([read])) == 1
    assert read.deleted - read.bound == 3.0


def test_a_bind_that_the_log_lost_is_known_from_a_later_answer(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    log.write_text(json.dumps(audited("patch", 7, responseObject=pod("Running", "n"))) + "\n")

    read = read_history(log)["u"]

    assert (read.node, read.binds) == ("n", [])
