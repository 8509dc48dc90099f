"""What to do next about a pod."""

from __future__ import annotations

from dataclasses import replace

import pytest

from muster.local.node.decide import (
    Close,
    Decision,
    Open,
    Remove,
    Start,
    Stop,
    decide,
    initialized,
    outcome,
)
from muster.local.node.runtime.pod_records import Health
from tests.local.node.pod_builders import NOTHING, NOW, ago, container, exited, pod, record, running


def starts(decision: Decision) -> list[tuple[str, int]]:
    assert all(isinstance(action, Start) for action in decision.actions)
    return [(a.container.name, a.number) for a in decision.actions if isinstance(a, Start)]


def test_namespaces_come_before_containers() -> None:
    assert decide(pod(), NOTHING, NOW) == Decision((Open(),))


def test_all_containers_start_together() -> None:
    two = pod("p", container("a"), container("b"))

    assert starts(decide(two, record(), NOW)) == [("a", 0), ("b", 0)]


def test_init_containers_run_one_after_the_other_before_the_rest() -> None:
    one = pod("p", container(), initContainers=[container("i1"), container("i2")])

    assert starts(decide(one, record(), NOW)) == [("i1", 0)]
    assert starts(decide(one, record(i1=running()), NOW)) == []
    assert starts(decide(one, record(i1=exited()), NOW)) == [("i2", 0)]
    assert starts(decide(one, record(i1=exited(), i2=exited()), NOW)) == [("main", 0)]


def test_a_sidecar_only_has_to_have_started_and_is_started_again() -> None:
    sidecar = container("side", restartPolicy="Always")
    one = pod("p", container(), initContainers=[sidecar])

    assert starts(decide(one, record(side=running()), NOW)) == [("main", 0)]
    assert starts(decide(one, record(side=exited(), main=running()), NOW)) == [("side", 1)]


def test_init_containers_run_again_in_new_namespaces_and_the_rest_after_them() -> None:
    one = pod("p", container(), initContainers=[container("i")], restartPolicy="Always")
    before = record(sandbox=1, i=exited(), main=exited(137))
    now = record(sandbox=1, i=exited(number=1, sandbox=1), main=exited(137))

    assert starts(decide(one, before, NOW)) == [("i", 1)]
    assert not initialized(one, before)
    assert starts(decide(one, now, NOW)) == [("main", 1)]
    assert initialized(one, now)


def test_sidecars_start_first_in_new_namespaces() -> None:
    sidecar = container("side", restartPolicy="Always")
    one = pod("p", container(), initContainers=[sidecar], restartPolicy="Always")
    starting = replace(running(1, sandbox=1), health=Health(started=False, ready=False))

    assert starts(decide(one, record(sandbox=1, side=exited(137), main=exited(137)), NOW)) == [
        ("side", 1)
    ]
    assert starts(decide(one, record(sandbox=1, side=starting, main=exited(137)), NOW)) == []


def test_a_failed_init_container_fails_a_pod_that_never_restarts() -> None:
    one = pod("p", container(), initContainers=[container("i")])

    assert outcome(one, record(i=exited(1))) == "Failed"
    assert decide(one, record(i=exited(1)), NOW) == Decision((Close(),))


@pytest.mark.parametrize(
    ("policy", "code", "expected"),
    [
        ("Never", 0, "Succeeded"),
        ("Never", 1, "Failed"),
        ("OnFailure", 0, "Succeeded"),
        ("OnFailure", 1, None),
        ("Always", 0, None),
    ],
)
def test_the_restart_policy_decides_whether_a_container_restarts(
    policy: str, code: int, expected: str | None
) -> None:
    assert outcome(pod(restartPolicy=policy), record(main=exited(code))) == expected


def test_the_first_restart_is_immediate_and_later_ones_are_delayed() -> None:
    again = pod(restartPolicy="Always")

    assert starts(decide(again, record(main=exited(1)), NOW)) == [("main", 1)]
    assert decide(again, record(main=exited(1, 1, ended=4)), NOW) == Decision((), 6.0)
    assert decide(again, record(main=exited(1, 2, ended=4)), NOW) == Decision((), 16.0)
    assert decide(again, record(main=exited(1, 30, ended=4)), NOW) == Decision((), 296.0)
    assert starts(decide(again, record(main=exited(1, 2, ended=20)), NOW)) == [("main", 3)]


def test_ends_in_namespaces_that_are_gone_do_not_count_for_the_pause() -> None:
    """The cluster was stopped, or the machine restarted: not the container's fault."""
    again = pod(restartPolicy="Always")
    ended = exited(143, 7, ended=1)
    crashed = [exited(1, 8 + count, restarts=count, ended=4, sandbox=1) for count in (0, 1)]

    assert decide(again, record(open=False, main=ended), NOW) == Decision((Open(),))
    assert starts(decide(again, record(sandbox=1, main=ended), NOW)) == [("main", 8)]
    assert starts(decide(again, record(sandbox=1, main=crashed[0]), NOW)) == [("main", 9)]
    assert decide(again, record(sandbox=1, main=crashed[1]), NOW) == Decision((), 6.0)


def test_a_container_that_ran_well_for_long_is_restarted_without_a_pause() -> None:
    ran = exited(1, 5, since=700, ended=1)

    assert starts(decide(pod(restartPolicy="Always"), record(main=ran), NOW)) == [("main", 6)]


def test_a_pod_runs_as_long_as_one_container_runs() -> None:
    two = pod("p", container("a"), container("b"))

    assert decide(two, record(a=exited(1), b=running()), NOW) == Decision()


def test_lost_namespaces_are_made_again_only_if_a_container_must_run() -> None:
    lost = record(open=False, main=exited(137))

    assert decide(pod(restartPolicy="OnFailure"), lost, NOW) == Decision((Open(),))
    assert decide(pod(restartPolicy="Never"), lost, NOW) == Decision()


def test_processes_in_lost_namespaces_are_killed_before_new_ones_are_made() -> None:
    lost = record(open=False, main=running(), other=exited(137))
    two = pod("p", container(), container("other"), restartPolicy="Always")

    assert decide(two, lost, NOW) == Decision((Close(),))


def test_a_first_process_that_is_ending_is_seen_to_its_end() -> None:
    ending = replace(record(open=False, main=exited(137)), pause=7)

    assert decide(pod(restartPolicy="OnFailure"), ending, NOW) == Decision((Open(),))
    assert decide(pod(restartPolicy="Never"), ending, NOW) == Decision((Close(),))


def test_deletion_stops_containers_within_the_rest_of_the_grace() -> None:
    meta = {"deletionTimestamp": ago(-20).isoformat(), "deletionGracePeriodSeconds": 30}
    leaving = pod("p", meta=meta)

    main = leaving.spec.containers[0]
    assert decide(leaving, record(main=running()), NOW) == Decision((Stop(main, 0, 21.0),), 22.0)
    assert decide(leaving, record(main=exited(143)), NOW) == Decision((Close(), Remove()))
    assert decide(leaving, NOTHING, NOW) == Decision((Remove(),))


def test_deletion_kills_when_the_grace_is_over() -> None:
    meta = {"deletionTimestamp": ago(2).isoformat(), "deletionGracePeriodSeconds": 30}

    assert decide(pod("p", meta=meta), record(main=running()), NOW) == Decision((Close(), Remove()))


def test_a_pod_that_others_declared_finished_is_stopped_then_closed() -> None:
    evicted = pod("p", status={"phase": "Failed", "reason": "Evicted"})
    main = evicted.spec.containers[0]

    assert decide(evicted, record(main=running()), NOW) == Decision((Stop(main, 0, 30.0),), 31.0)
    assert decide(evicted, record(main=exited(143)), NOW) == Decision((Close(),))


def test_sidecars_are_stopped_after_the_rest_from_the_last_to_the_first() -> None:
    sidecars = [container("a", restartPolicy="Always"), container("b", restartPolicy="Always")]
    one = pod("p", container(), initContainers=sidecars, terminationGracePeriodSeconds=5)
    a, b = one.spec.init_containers
    done = exited(0)

    both = record(a=running(), b=running(), main=done)
    last = record(a=running(), b=exited(143), main=done)

    assert outcome(one, both) is None
    assert decide(one, both, NOW) == Decision((Stop(b, 0, 5.0),), 6.0)
    assert decide(one, last, NOW) == Decision((Stop(a, 0, 5.0),), 6.0)
    assert outcome(one, record(a=exited(143), b=exited(143), main=done)) == "Succeeded"


def test_later_containers_wait_until_a_sidecar_has_started() -> None:
    one = pod("p", container(), initContainers=[container("side", restartPolicy="Always")])
    starting = replace(running(), health=Health(started=False, ready=False))

    assert starts(decide(one, record(side=starting), NOW)) == []
    assert starts(decide(one, record(side=exited(1)), NOW)) == [("side", 1)]


def test_a_failed_container_is_stopped_within_the_grace_of_its_probe() -> None:
    one = pod(restartPolicy="Always")
    failed = replace(running(2), health=Health(failed="main failed liveness probe", grace=3))

    assert decide(one, record(main=failed), NOW) == Decision(
        (Stop(one.spec.containers[0], 2, 3.0, "main failed liveness probe"),)
    )


def test_a_pod_past_its_own_deadline_is_ended_and_before_it_looked_at_in_time() -> None:
    timed = pod("p", activeDeadlineSeconds=60, status={"startTime": ago(50).isoformat()})
    late = pod("p", activeDeadlineSeconds=60, status={"startTime": ago(61).isoformat()})

    stop = Stop(late.spec.containers[0], 0, 30.0)
    assert decide(timed, record(main=running()), NOW) == Decision((), 10.0)
    assert decide(late, record(main=running()), NOW) == Decision((stop,), 31.0)
