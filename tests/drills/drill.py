"""One drill: jobs run and arrive, something fails, and afterwards everything must be right."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from kubekit.objects.meta import Raw
from tests.drills import verdict
from tests.drills.cluster import DrillCluster
from tests.drills.pod_history import read_history, reconcile_with_server, refused_requests
from tests.drills.traffic import Traffic

ALLOWED_HALF = 10.0
"""Seconds for which a gang may be half bound while nothing is out of order."""
RESIDENTS = ("TFJob", "PyTorchJob")


@dataclass
class Drill:
    """The running drill."""

    cluster: DrillCluster
    traffic: Traffic
    started: float
    pods_may_be_lost: bool = False
    waiting_pods_may_change: bool = False
    """Whether pods without a node may be recreated: another dialect has other labels."""
    rejects_within: float = 0.0
    """Seconds in which a kubelet rejects a pod for which its node has no room."""
    report: Report | None = None
    """What was seen, after the end."""

    @contextmanager
    def trouble(self) -> Iterator[None]:
        """The time in which something is out of order, until everything works again."""
        started = time.time()
        yield
        self.cluster.troubles.append((started, time.time()))

    def repeat(self, cause: Callable[[], object], *, times: int, after: int) -> None:
        """Cause trouble several times, each time after so many more jobs have ended."""
        for _ in range(times):
            self.traffic.until_more_end(after)
            with self.trouble():
                cause()


@dataclass(frozen=True)
class Report:
    """What was seen, for the record."""

    jobs: int
    pods: int
    binds: int
    recreated: int
    failed_requests: int
    halves: int
    longest_half: float

    def __str__(self) -> str:
        return (
            f"{self.jobs} jobs, {self.pods} pods ({self.recreated} recreated), {self.binds} binds, "
            f"{self.failed_requests} failed requests; {self.halves} gangs half bound, "
            f"at most for {self.longest_half:.1f} s"
        )


@contextmanager
def drill(
    cluster: DrillCluster,
    namespace: str,
    *,
    at_once: int = 5,
    residents: tuple[str, ...] = RESIDENTS,
) -> Iterator[Drill]:
    """Runs traffic around the trouble in the `with` block, then judges."""
    with Traffic(cluster, namespace, at_once=at_once) as traffic:
        traffic.stay(*residents)
        before = _uids_of_residents(traffic)
        current = Drill(cluster, traffic, time.time())
        yield current
        traffic.until_more_end(3)
        traffic.finish()
        traffic.until(lambda: not any(map(_is_left_over, _pods(traffic))), "clean-up")
        cluster.assert_daemons_run()
        current.report = judge(current, before)
        print(f"\n{namespace}: {current.report}")
        _remove_residents(traffic)


def judge(current: Drill, residents: dict[str, set[str]]) -> Report:
    """Every promise, from the audit log and the objects that are left."""
    cluster, traffic = current.cluster, current.traffic
    now = time.time()
    lives = read_history(cluster.plane.audit_log)
    reconcile_with_server(lives, _all_pods(cluster), cluster.troubles)
    everywhere = [life for life in lives.values() if life.freed > current.started]
    lives = {uid: life for uid, life in lives.items() if life.namespace == traffic.namespace}
    sizes = {f"{traffic.namespace}/{job.name}": job.size for job in traffic.jobs.values()}
    halves = verdict.half_gangs(lives, sizes, now)
    recreated = verdict.recreated(lives.values())
    faults: dict[str, object] = {
        "bound twice": verdict.bound_twice(lives.values()),
        "over-committed": verdict.over_committed(everywhere, cluster.gpus, current.rejects_within),
        "doubled": verdict.doubled(lives.values()),
        "half": [half for half in halves if half.seconds_outside(cluster.troubles) > ALLOWED_HALF],
        "forbidden": refused_requests(cluster.plane.audit_log, cluster.troubles),
        "residents": [name for name, own in _residents(traffic).items() if not _run(own)],
    }
    if not current.pods_may_be_lost:
        may_change = current.waiting_pods_may_change
        kept = [life for life in lives.values() if life.binds or not may_change]
        faults["recreated"] = verdict.recreated(kept)
        faults["replaced"] = [
            name for name, uids in _uids_of_residents(traffic).items() if uids != residents[name]
        ]
    found = {name: rows for name, rows in faults.items() if rows}
    assert not found, f"{found}\n{cluster.log_tails()}"
    binds = sum(len(life.binds) for life in lives.values())
    longest = max((half.end - half.start for half in halves), default=0.0)
    return Report(
        jobs=len(traffic.jobs),
        pods=len(lives),
        binds=binds,
        recreated=sum(sum(counts.values()) for counts in recreated.values()),
        failed_requests=traffic.outages,
        halves=len(halves),
        longest_half=longest,
    )


def _run(pods: list[Raw]) -> bool:
    return bool(pods) and all(pod["status"]["phase"] == "Running" for pod in pods)


def _is_left_over(pod: Raw) -> bool:
    job = pod["metadata"]["labels"]["training.kubeflow.org/job-name"]
    return not job.startswith("resident-") and pod["status"]["phase"] in ("Pending", "Running")


def _pods(traffic: Traffic) -> list[Raw]:
    path = f"/api/v1/namespaces/{traffic.namespace}/pods"
    pods: list[Raw] = traffic.cluster.plane.request("GET", path)[1]["items"]
    return pods


def _all_pods(cluster: DrillCluster) -> list[Raw]:
    pods: list[Raw] = cluster.plane.request("GET", "/api/v1/pods")[1]["items"]
    return pods


def _residents(traffic: Traffic) -> dict[str, list[Raw]]:
    names = {job.name for job in traffic.of("stay")}
    found: dict[str, list[Raw]] = {name: [] for name in names}
    for pod in _pods(traffic):
        name = pod["metadata"]["labels"]["training.kubeflow.org/job-name"]
        if name in names:
            found[name].append(pod)
    return found


def _uids_of_residents(traffic: Traffic) -> dict[str, set[str]]:
    return {
        name: {pod["metadata"]["uid"] for pod in pods} for name, pods in _residents(traffic).items()
    }


def _remove_residents(traffic: Traffic) -> None:
    for job in traffic.of("stay"):
        job.fate = "delete"
    traffic.finish()
