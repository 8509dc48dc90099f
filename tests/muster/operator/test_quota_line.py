"""Jobs that a ResourceQuota refuses stand in one line, and nobody is overtaken."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from kubekit.objects.meta import timestamp
from muster.jobs.quota_line import Standing, standing
from muster.operator.decide.owned_objects import QUOTA_PAUSE
from muster.operator.observe import informers
from tests.api_in_memory import ApiInMemory, status_response
from tests.muster.operator.builders import replica
from tests.muster.operator.simulation import NS, clock, operating, passes, phase, submit

if TYPE_CHECKING:
    from kubekit.client.request import Response

pytestmark = pytest.mark.looptime

GPUS = "requests.nvidia.com/gpu"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
QUOTA = f"/api/v1/{NS}/resourcequotas/team"


class QuotaServer(ApiInMemory):
    """A server with a ResourceQuota on GPUs, kept as the real one does: usage never exceeds it."""

    def __init__(self, gpus: int, **options: Any) -> None:
        super().__init__(**options)
        self.refusals: list[str] = []
        """The jobs whose pods were refused, in order."""
        self.hard(gpus)

    def hard(self, gpus: int) -> None:
        self.limit = gpus
        self._publish()

    def used(self) -> int:
        pods = (obj for path, obj in self.objects.items() if "/pods/" in path)
        return sum(gpus_of(pod) for pod in pods if not has_ended(pod))

    def started(self) -> list[str]:
        """The jobs that have all their pods, in the order of their names."""
        return started(self)

    def put(self, path: str, obj: dict[str, Any]) -> dict[str, Any]:
        metadata = {"creationTimestamp": timestamp(clock()), **obj["metadata"]}
        return super().put(path, {**obj, "metadata": metadata})

    def _create(self, path: str, body: dict[str, Any]) -> Response:
        if "/pods/" in path and self.used() + gpus_of(body) > self.limit:
            self.refusals.append(path.rpartition("/")[2].partition("-")[0])
            text = (
                f"exceeded quota: team, requested: {GPUS}={gpus_of(body)}, "
                f"used: {GPUS}={self.used()}, limited: {GPUS}={self.limit}"
            )
            return status_response(403, "Forbidden", f'pods "x" is forbidden: {text}')
        return super()._create(path, body)

    def _write(self, kind: str, path: str, obj: dict[str, Any]) -> None:
        super()._write(kind, path, obj)
        if "/pods/" in path:
            self._publish()

    def _publish(self) -> None:
        spec = {"hard": {GPUS: str(self.limit)}}
        status = {**spec, "used": {GPUS: str(self.used())}}
        if (self.get(QUOTA) or {}).get("status") != status:
            self.put(
                QUOTA,
                {"metadata": {"name": "team", "namespace": "ns"}, "spec": spec, "status": status},
            )


class QuotasOfClasses(ApiInMemory):
    """A server with a quota of GPUs for each priority class, by scope."""

    def __init__(self, limits: dict[str, int]) -> None:
        super().__init__()
        self.limits = limits
        for value, name in enumerate(limits, start=1):
            self.put(
                f"{CLASSES}/{name}", {"metadata": {"name": name, "namespace": ""}, "value": value}
            )
            scope = {"scopeName": "PriorityClass", "operator": "In", "values": [name]}
            hard = {GPUS: str(limits[name])}
            self.put(
                f"/api/v1/{NS}/resourcequotas/{name}",
                {
                    "metadata": {"name": name, "namespace": "ns"},
                    "spec": {"hard": hard, "scopeSelector": {"matchExpressions": [scope]}},
                    "status": {"hard": hard, "used": {GPUS: "0"}},
                },
            )

    def _create(self, path: str, body: dict[str, Any]) -> Response:
        name = body.get("spec", {}).get("priorityClassName", "")
        if "/pods/" in path and name:
            pods = (obj for path, obj in self.objects.items() if "/pods/" in path)
            used = sum(gpus_of(pod) for pod in pods if pod["spec"]["priorityClassName"] == name)
            if used + gpus_of(body) > self.limits[name]:
                text = (
                    f"exceeded quota: {name}, requested: {GPUS}={gpus_of(body)}, "
                    f"used: {GPUS}={used}, limited: {GPUS}={self.limits[name]}"
                )
                return status_response(403, "Forbidden", f'pods "x" is forbidden: {text}')
        return super()._create(path, body)


def started(server: ApiInMemory) -> list[str]:
    """The jobs that have pods, in the order of their names."""
    return sorted({name.partition("-")[0] for name in server.named("pods")})


def gpus_of(pod: dict[str, Any]) -> int:
    rows = (container.get("resources", {}) for container in pod["spec"]["containers"])
    return sum(int(row.get("limits", {}).get("nvidia.com/gpu", 0)) for row in rows)


def has_ended(pod: dict[str, Any]) -> bool:
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def workers(count: int, gpus: int = 1) -> dict[str, Any]:
    row = replica(count)
    (container,) = row["template"]["spec"]["containers"]
    container["resources"] = {"limits": {"nvidia.com/gpu": gpus}}
    return {"Worker": row}


def ask(server: ApiInMemory, name: str, gpus: int, priority: str = "") -> None:
    """Submit a job of so many workers with a GPU each."""
    policy = {"runPolicy": {"schedulingPolicy": {"priorityClass": priority}}} if priority else {}
    submit(server, name, roles=workers(gpus) if gpus else {"Worker": replica(1)}, **policy)


def run(server: ApiInMemory, name: str) -> None:
    for pod in server.named("pods"):
        if pod.startswith(f"{name}-"):
            server.patch(f"/api/v1/{NS}/pods/{pod}", {"spec": {"nodeName": "n"}})
            phase(server, pod, "Running")


def finish(server: ApiInMemory, name: str) -> None:
    server.remove(f"/apis/kubeflow.org/v1/{NS}/tfjobs/{name}")


def waiting(server: ApiInMemory, name: str) -> dict[str, Any]:
    job = server.get(f"/apis/kubeflow.org/v1/{NS}/tfjobs/{name}")
    assert job is not None
    found: dict[str, Any] = job["status"].get("waiting") or {}
    return found


async def test_the_oldest_job_gets_the_room_though_a_smaller_one_fits_sooner() -> None:
    server = QuotaServer(4)
    async with operating(server):
        for name, gpus in (("a", 2), ("b", 2), ("big", 4), ("small", 1)):
            ask(server, name, gpus)
            await passes()
        run(server, "a")
        run(server, "b")
        assert server.started() == ["a", "b"]
        assert waiting(server, "big")["quota"]["needs"] == {GPUS: "4"}

        finish(server, "a")
        await passes(60)
        assert server.started() == ["b"]
        finish(server, "b")
        await passes()
        assert server.started() == ["big"]
        finish(server, "big")
        await passes()
        assert server.started() == ["small"]
        assert waiting(server, "small") == {}


async def test_a_job_behind_another_does_not_ask_at_all() -> None:
    server = QuotaServer(2)
    async with operating(server):
        for name in ("a", "b", "c", "d"):
            ask(server, name, 2)
            await passes()
        await passes(10 * QUOTA_PAUSE)

    assert set(server.refusals) == {"b"}
    assert "in the line of the ResourceQuota team" in waiting(server, "d")["message"]


async def test_priority_counts_before_age() -> None:
    server = QuotaServer(2)
    server.put(f"{CLASSES}/high", {"metadata": {"name": "high", "namespace": ""}, "value": 100})
    async with operating(server):
        await passes()
        for name, priority in (("a", ""), ("old", ""), ("urgent", "high")):
            ask(server, name, 2, priority)
            await passes()
        run(server, "a")
        finish(server, "a")
        await passes()

    assert server.started() == ["urgent"]


async def test_the_first_asks_at_once_when_the_quota_grows() -> None:
    server = QuotaServer(2)
    async with operating(server):
        ask(server, "a", 2)
        await passes()
        run(server, "a")
        ask(server, "b", 2)
        await passes(2)
        server.hard(4)
        await passes(1)

        assert server.started() == ["a", "b"]


async def test_without_the_right_to_watch_quotas_the_first_asks_again_after_a_while() -> None:
    server = QuotaServer(2)
    server.forbidden = {"GET resourcequotas"}
    async with operating(server):
        ask(server, "a", 2)
        await passes()
        run(server, "a")
        ask(server, "b", 2)
        await passes(2)
        finish(server, "a")
        await passes(QUOTA_PAUSE + 1)

        assert server.started() == ["b"]


async def test_a_job_that_needs_more_than_the_quota_allows_holds_up_nobody() -> None:
    server = QuotaServer(4)
    async with operating(server):
        ask(server, "never", 8)
        await passes()
        ask(server, "b", 4)
        await passes()
        assert server.started() == ["b"]
        run(server, "b")
        ask(server, "c", 4)
        await passes()
        assert waiting(server, "never")["quota"]["limits"] == {GPUS: "4"}
        assert waiting(server, "never")["message"] == (
            f"can never start: it needs more than the ResourceQuota team allows in all: 8 {GPUS} "
            "of 4; use fewer replicas, or ask for a larger quota"
        )

        finish(server, "b")
        await passes(2 * QUOTA_PAUSE)
        assert server.started() == ["c"]
        assert len([name for name in server.refusals if name == "never"]) <= 8  # of its first try
        run(server, "c")
        server.hard(12)
        await passes()
        assert server.started() == ["c", "never"]


async def test_a_job_that_is_made_small_enough_for_the_quota_asks_again() -> None:
    server = QuotaServer(4)
    async with operating(server):
        ask(server, "a", 8)
        await passes(60)
        path, roles = f"/apis/kubeflow.org/v1/{NS}/tfjobs/a", workers(3)
        server.patch(path, {"spec": {"tfReplicaSpecs": roles}, "metadata": {"generation": 2}})
        await passes()

        assert len(server.named("pods")) == 3


async def test_a_job_that_fits_a_larger_quota_is_not_overtaken_any_more() -> None:
    server = QuotaServer(4)
    async with operating(server):
        ask(server, "a", 4)
        await passes()
        run(server, "a")
        for name, gpus in (("first", 4), ("large", 6), ("last", 2)):
            ask(server, name, gpus)
            await passes()
        await passes(QUOTA_PAUSE)
        server.hard(6)
        await passes()
        finish(server, "first")
        await passes()
        assert server.started() == ["a"]
        finish(server, "a")
        await passes()

        assert server.started() == ["large"]


async def test_a_job_that_waits_for_the_quota_of_its_class_keeps_no_other_class_waiting() -> None:
    server = QuotasOfClasses({"low": 2, "high": 1})
    async with operating(server):
        await passes()
        for name, gpus, priority in (("h", 1, "high"), ("waits", 1, "high"), ("a", 2, "low")):
            ask(server, name, gpus, priority)
            await passes()
        run(server, "h")
        run(server, "a")
        ask(server, "b", 1, "low")
        ask(server, "c", 1, "low")
        await passes(2 * QUOTA_PAUSE)
        assert started(server) == ["a", "h"]

        finish(server, "a")
        await passes(2 * QUOTA_PAUSE)

        assert started(server) == ["b", "c", "h"]


async def test_a_job_of_another_cluster_holds_up_nobody() -> None:
    """MultiKueue copies the status of the cluster that runs it."""
    server = QuotaServer(2)
    policy = {"managedBy": "kueue.x-k8s.io/multikueue"}
    async with operating(server):
        path = submit(server, "a", roles=workers(2), runPolicy=policy)
        quota = {"name": "team", "needs": {GPUS: "2"}, "limits": {GPUS: "2"}}
        server.patch(path, {"status": {"waiting": {"reason": "QuotaExceeded", "quota": quota}}})
        ask(server, "b", 2)
        await passes()

        assert server.started() == ["b"]


async def test_a_job_that_needs_nothing_of_what_the_quota_lacks_passes() -> None:
    server = QuotaServer(2)
    async with operating(server):
        for name, gpus in (("a", 2), ("b", 2), ("cpu", 0)):
            ask(server, name, gpus)
            await passes()

        assert server.started() == ["a", "cpu"]


async def test_a_refused_gang_does_not_ask_again_because_of_what_it_gave_back() -> None:
    server = QuotaServer(3)
    async with operating(server):
        ask(server, "a", 1)
        await passes()
        run(server, "a")
        ask(server, "b", 3)
        await passes(4 * QUOTA_PAUSE)

    # The first try, and one for each pause.
    assert len(server.refusals) <= 6
    assert server.started() == ["a"]


async def test_a_pod_that_counts_for_more_than_its_manifest_says_does_not_make_a_loop() -> None:
    """A LimitRange or a webhook may add requests that the operator does not know."""
    server = QuotaServer(3)
    server.limit = 1
    async with operating(server):
        ask(server, "b", 2)
        await passes(4 * QUOTA_PAUSE)

    # The published numbers always leave room for it.
    assert len(server.refusals) <= 12


async def test_a_running_job_that_lost_a_pod_goes_first() -> None:
    server = QuotaServer(2)
    server.put(f"{CLASSES}/high", {"metadata": {"name": "high", "namespace": ""}, "value": 100})
    async with operating(server):
        ask(server, "a", 2)
        await passes()
        run(server, "a")
        await passes()
        ask(server, "urgent", 2, "high")
        await passes()
        server.remove(f"/api/v1/{NS}/pods/a-worker-1")
        await passes()

        assert server.named("pods") == ["a-worker-0", "a-worker-1"]


async def test_the_line_survives_a_restart_of_the_operator() -> None:
    server = QuotaServer(2)
    async with operating(server):
        for name in ("a", "z", "b"):
            ask(server, name, 2)
            await passes()
        run(server, "a")
        await passes()
    since = waiting(server, "z")["quota"]["since"]
    finish(server, "a")
    async with operating(server):
        await passes()

        assert server.started() == ["z"]
    assert waiting(server, "b")["quota"]["since"] > since


async def test_the_line_is_counted() -> None:
    server = QuotaServer(1)
    async with operating(server):
        for name in ("a", "b", "c"):
            ask(server, name, 1)
            await passes()
        assert informers.IN_LINE.labels("ns")._value.get() == 2
        finish(server, "b")
        await passes()
        assert informers.IN_LINE.labels("ns")._value.get() == 1


@pytest.mark.parametrize("seed", range(6))
async def test_nobody_is_overtaken_and_everybody_starts(seed: int) -> None:
    """Jobs of all sizes and two priorities come, run and go; whoever stood in line goes first."""
    dice = random.Random(seed)
    server = QuotaServer(8, seed=seed, slow=0.05)
    server.put(f"{CLASSES}/high", {"metadata": {"name": "high", "namespace": ""}, "value": 100})
    coming = {f"j{n}": (dice.randint(1, 8), dice.choice(("", "", "high"))) for n in range(16)}
    left, seen = dict(coming), set[str]()

    def started() -> set[str]:
        pods = Counter(name.partition("-")[0] for name in server.named("pods"))
        return {name for name, count in pods.items() if count == coming[name][0]}

    def in_line() -> list[Standing]:
        jobs = [job for path, job in server.objects.items() if "/tfjobs/" in path]
        found = (standing("TFJob", job) for job in jobs)
        return sorted(row for row in found if row is not None)

    async with operating(server):
        await passes()
        for _ in range(1200):
            before = in_line()
            if left and dice.random() < 0.1:
                name = next(iter(left))
                ask(server, name, *left.pop(name))
            await passes(0.5)
            now = started()
            for name in sorted(now - seen):
                own = 100 if coming[name][1] else 0
                names = [row.key.name for row in before]
                ahead = before[: names.index(name)] if name in names else before
                passed = [row.key.name for row in ahead if row.wait.priority >= own]
                assert [other for other in passed if other not in now] == [], name
                run(server, name)
            seen |= now
            if dice.random() < 0.1 and (running := sorted(started())):
                finish(server, dice.choice(running))
            if len(seen) == len(coming):
                break

    assert seen == {*coming}
