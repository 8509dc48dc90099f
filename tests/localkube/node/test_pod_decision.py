"""The next actions for a pod."""

from __future__ import annotations

from dataclasses import replace

import pytest

from localkube.node.pod_decision import (
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
from localkube.node.runtime.pod_records import Health
from tests.localkube.node.pod_builders import (
    NOTHING,
    NOW,
    ago,
    container,
    exited,
    make_pod,
    record,
    running,
)


def starts(decision: Decision) -> list[tuple[str, int]]:
    assert all(isinstance(action, Start) for action in decision.actions)
    return [(a.container.name, a.number) for a in decision.actions if isinstance(a, Start)]


def test_namespaces_are_opened_before_containers_start() -> None:
    assert decide(make_pod(), NOTHING, NOW) == Decision((Open(),))


def test_all_containers_start_together() -> None:
    pod = make_pod("p", container("a"), container("b"))

    assert starts(decide(pod, record(), NOW)) == [("a", 0), ("b", 0)]


def test_init_containers_run_one_after_the_other_before_the_rest() -> None:
    pod = make_pod("p", container(), initContainers=[container("i1"), container("i2")])

    assert starts(decide(pod, record(), NOW)) == [("i1", 0)]
    assert starts(decide(pod, record(i1=running()), NOW)) == []
    assert starts(decide(pod, record(i1=exited()), NOW)) == [("i2", 0)]
    assert starts(decide(pod, record(i1=exited(), i2=exited()), NOW)) == [("main", 0)]


def test_the_main_container_starts_after_a_sidecar_and_the_sidecar_restarts() -> None:
    sidecar = container("side", restartPolicy="Always")
    pod = make_pod("p", container(), initContainers=[sidecar])

    assert starts(decide(pod, record(side=running()), NOW)) == [("main", 0)]
    assert starts(decide(pod, record(side=exited(), main=running()), NOW)) == [("side", 1)]


def test_init_containers_run_again_in_new_namespaces_and_the_rest_after_them() -> None:
    pod = make_pod("p", container(), initContainers=[container("i")], restartPolicy="Always")
    before = record(sandbox=1, i=exited(), main=exited(137))
    now = record(sandbox=1, i=exited(number=1, sandbox=1), main=exited(137))

    assert starts(decide(pod, before, NOW)) == [("i", 1)]
    assert not initialized(pod, before)
    assert starts(decide(pod, now, NOW)) == [("main", 1)]
    assert initialized(pod, now)


def test_sidecars_start_first_in_new_namespaces() -> None:
    sidecar = container("side", restartPolicy="Always")
    pod = make_pod("p", container(), initContainers=[sidecar], restartPolicy="Always")
    starting = replace(running(1, sandbox=1), health=Health(started=False, ready=False))

    assert starts(decide(pod, record(sandbox=1, side=exited(137), main=exited(137)), NOW)) == [
        ("side", 1)
    ]
    assert starts(decide(pod, record(sandbox=1, side=starting, main=exited(137)), NOW)) == []


def test_a_failed_init_container_fails_a_pod_that_never_restarts() -> None:
    pod = make_pod("p", container(), initContainers=[container("i")])

    assert outcome(pod, record(i=exited(1))) == "Failed"
    assert decide(pod, record(i=exited(1)), NOW) == Decision((Close(),))


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
    assert outcome(make_pod(restartPolicy=policy), record(main=exited(code))) == expected


def test_the_first_restart_is_immediate_and_later_ones_are_delayed() -> None:
    pod = make_pod(restartPolicy="Always")

    assert starts(decide(pod, record(main=exited(1)), NOW)) == [("main", 1)]
    assert decide(pod, record(main=exited(1, 1, ended=4)), NOW) == Decision((), 6.0)
    assert decide(pod, record(main=exited(1, 2, ended=4)), NOW) == Decision((), 16.0)
    assert decide(pod, record(main=exited(1, 30, ended=4)), NOW) == Decision((), 296.0)
    assert starts(decide(pod, record(main=exited(1, 2, ended=20)), NOW)) == [("main", 3)]


def test_a_clock_that_was_set_back_does_not_delay_a_restart() -> None:
    pod = make_pod(restartPolicy="Always")

    assert starts(decide(pod, record(main=exited(1, 2, ended=-3600)), NOW)) == [("main", 3)]


def test_exits_in_earlier_namespaces_do_not_delay_a_restart() -> None:
    """The cluster was stopped, or the machine restarted: the container did not fail."""
    pod = make_pod(restartPolicy="Always")
    ended = exited(143, 7, ended=1)
    crashed = [exited(1, 8 + count, restarts=count, ended=4, sandbox=1) for count in (0, 1)]

    assert decide(pod, record(open=False, main=ended), NOW) == Decision((Open(),))
    assert starts(decide(pod, record(sandbox=1, main=ended), NOW)) == [("main", 8)]
    assert starts(decide(pod, record(sandbox=1, main=crashed[0]), NOW)) == [("main", 9)]
    assert decide(pod, record(sandbox=1, main=crashed[1]), NOW) == Decision((), 6.0)


def test_a_container_that_ran_long_is_restarted_without_a_delay() -> None:
    ran = exited(1, 5, since=700, ended=1)

    assert starts(decide(make_pod(restartPolicy="Always"), record(main=ran), NOW)) == [("main", 6)]


def test_a_pod_runs_as_long_as_one_container_runs() -> None:
    pod = make_pod("p", container("a"), container("b"))

    assert decide(pod, record(a=exited(1), b=running()), NOW) == Decision()


def test_lost_namespaces_are_made_again_only_if_a_container_must_run() -> None:
    lost = record(open=False, main=exited(137))

    assert decide(make_pod(restartPolicy="OnFailure"), lost, NOW) == Decision((Open(),))
    assert decide(make_pod(restartPolicy="Never"), lost, NOW) == Decision((Close(),))


def test_an_ended_pod_is_closed_once() -> None:
    lost = record(open=False, main=exited(137))

    assert decide(make_pod(), lost, NOW) == Decision((Close(),))
    assert decide(make_pod(), replace(lost, closed=True), NOW) == Decision()
    assert decide(make_pod(status={"phase": "Failed"}), NOTHING, NOW) == Decision()


def test_processes_in_lost_namespaces_are_killed_before_new_ones_are_made() -> None:
    lost = record(open=False, main=running(), other=exited(137))
    pod = make_pod("p", container(), container("other"), restartPolicy="Always")

    assert decide(pod, lost, NOW) == Decision((Close(),))


def test_a_first_process_that_is_exiting_is_awaited() -> None:
    ending = replace(record(open=False, main=exited(137)), pause=7)

    assert decide(make_pod(restartPolicy="OnFailure"), ending, NOW) == Decision((Open(),))
    assert decide(make_pod(restartPolicy="Never"), ending, NOW) == Decision((Close(),))


def test_deletion_stops_containers_within_the_rest_of_the_grace_period() -> None:
    meta = {"deletionTimestamp": ago(-20).isoformat(), "deletionGracePeriodSeconds": 30}
    pod = make_pod("p", meta=meta)

    main = pod.spec.containers[0]
    assert decide(pod, record(main=running()), NOW) == Decision((Stop(main, 0, 21.0),), 22.0)
    assert decide(pod, record(main=exited(143)), NOW) == Decision((Close(), Remove()))
    assert decide(pod, NOTHING, NOW) == Decision((Remove(),))


def test_deletion_kills_when_the_grace_period_is_over() -> None:
    meta = {"deletionTimestamp": ago(2).isoformat(), "deletionGracePeriodSeconds": 30}

    pod = make_pod("p", meta=meta)

    assert decide(pod, record(main=running()), NOW) == Decision((Close(), Remove()))


def test_a_pod_that_others_declared_finished_is_stopped_then_closed() -> None:
    lost = make_pod("p", status={"phase": "Failed", "reason": "NodeLost"})
    main = lost.spec.containers[0]

    assert decide(lost, record(main=running()), NOW) == Decision((Stop(main, 0, 30.0),), 31.0)
    assert decide(lost, record(main=exited(143)), NOW) == Decision((Close(),))


def test_an_evicted_pod_has_one_second_whatever_its_grace_period() -> None:
    evicted = make_pod("p", status={"phase": "Failed", "reason": "Evicted"})
    main = evicted.spec.containers[0]

    assert decide(evicted, record(main=running()), NOW) == Decision((Stop(main, 0, 1.0),), 2.0)


def test_sidecars_are_stopped_after_the_rest_from_the_last_to_the_first() -> None:
    sidecars = [container("a", restartPolicy="Always"), container("b", restartPolicy="Always")]
    pod = make_pod("p", container(), initContainers=sidecars, terminationGracePeriodSeconds=5)
    a, b = pod.spec.init_containers
    done = exited(0)

    both = record(a=running(), b=running(), main=done)
    last = record(a=running(), b=exited(143), main=done)

    assert outcome(pod, both) is None
    assert decide(pod, both, NOW) == Decision((Stop(b, 0, 5.0),), 6.0)
    assert decide(pod, last, NOW) == Decision((Stop(a, 0, 5.0),), 6.0)
    assert outcome(pod, record(a=exited(143), b=exited(143), main=done)) == "Succeeded"


def test_later_containers_wait_until_a_sidecar_has_started() -> None:
    pod = make_pod("p", container(), initContainers=[container("side", restartPolicy="Always")])
    starting = replace(running(), health=Health(started=False, ready=False))

    assert starts(decide(pod, record(side=starting), NOW)) == []
    assert starts(decide(pod, record(side=exited(1)), NOW)) == [("side", 1)]


def test_a_failed_container_is_stopped_within_the_grace_period_of_its_probe() -> None:
    pod = make_pod(restartPolicy="Always")
    failed = replace(running(2), health=Health(failed="main failed liveness probe", grace=3))

    assert decide(pod, record(main=failed), NOW) == Decision(
        (Stop(pod.spec.containers[0], 2, 3.0, "main failed liveness probe"),)
    )


def test_a_pod_is_stopped_at_its_active_deadline() -> None:
    timed = make_pod("p", activeDeadlineSeconds=60, status={"startTime": ago(50).isoformat()})
    late = make_pod("p", activeDeadlineSeconds=60, status={"startTime": ago(61).isoformat()})

    stop = Stop(late.spec.containers[0], 0, 30.0)
    assert decide(timed, record(main=running()), NOW) == Decision((), 10.0)
    assert decide(late, record(main=running()), NOW) == Decision((stop,), 31.0)


def test_an_ephemeral_container_starts_once_in_the_namespaces_of_the_pod() -> None:
    pod = make_pod("p", container(), ephemeralContainers=[container("d")], restartPolicy="Always")
    other = make_pod("p", container(), ephemeralContainers=[container("d"), container("e")])

    assert decide(pod, NOTHING, NOW) == Decision((Open(),))
    assert starts(decide(pod, record(main=running()), NOW)) == [("d", 0)]
    assert starts(decide(pod, record(main=running(), d=exited(1)), NOW)) == []
    assert starts(decide(other, record(main=running(), d=exited()), NOW)) == [("e", 0)]


def test_an_ephemeral_container_stops_with_the_pod_and_does_not_keep_it() -> None:
    pod = make_pod("p", container(), ephemeralContainers=[container("d")], restartPolicy="Never")
    known = record(main=exited(), d=running())

    assert outcome(pod, known) == "Succeeded"
    stops = [a for a in decide(pod, known, NOW).actions if isinstance(a, Stop)]
    assert [stop.container.name for stop in stops] == ["d"]
