"""A busy cluster in virtual time: jobs of mixed sizes arrive, run for their time, and end."""

from __future__ import annotations

import heapq
from random import Random
from typing import NamedTuple

from muster.contract.gang import GangKey
from muster.contract.pod_groups import VOLCANO_POD_GROUPS
from tests.muster.scheduler.builders import gang, node, volcano_group
from tests.muster.scheduler.random_history import RandomHistory, bound, replace

GPUS, CPUS_PER_GPU = 8, 6
"""Of a node, which has 64 CPUs: jobs with GPUs leave 16 of them at least."""
CPUS_FOR_OTHERS = 12
"""CPUs per node for jobs without GPUs: a pod of 4 fits somewhere while they use no more."""


class Job(NamedTuple):
    """So many pods, what each requests, and how long they run."""

    name: str
    size: int
    gpus: int
    cpus: int
    seconds: float

    @property
    def key(self) -> GangKey:
        return GangKey("volcano", "default", self.name)


class BusyCluster(RandomHistory):
    """Jobs with GPUs at a load of 0.95 and small jobs without, and when each of them started."""

    def __init__(self, seed: int, *, nodes: int, jobs: int) -> None:
        super().__init__(preempt=False, starvation_after=20.0)
        self.random = Random(seed)
        for i in range(nodes):
            self._node(node(f"n{i:02d}", gpus=GPUS))
        self.arrivals = self._arrivals(nodes, jobs)
        self.running: dict[str, tuple[Job, float]] = {}
        """The jobs that run, and when each of them ends."""
        self.waiting: dict[str, Job] = {}
        self.arrived: dict[str, float] = {}
        self.started: dict[str, float] = {}
        self.latest: dict[str, float] = {}
        """When the jobs that were first in line and starving had to start."""

    def _arrivals(self, nodes: int, jobs: int) -> list[tuple[float, Job]]:
        """Jobs with GPUs that use 0.95 of all GPUs in the long run, and as many others."""
        at, random = 0.0, self.random
        heap: list[tuple[float, Job]] = []
        for number in range(jobs):
            gpus = random.choice([1, 1, 2, 4, 8, 8])
            most = max(1, nodes * GPUS // gpus)
            size = random.choice([1, 1, 2, 3, min(most, 8), max(1, most // 2), most])
            size, seconds = min(size, most), random.choice([5.0, 10.0, 30.0, 100.0])
            job = Job(f"g{number:03d}", size, gpus, gpus * CPUS_PER_GPU, seconds)
            heapq.heappush(heap, (at, job))
            at += random.expovariate(1.0) * size * gpus * seconds / (nodes * GPUS) / 0.95
            cpus, size = random.randint(1, 4), random.randint(1, 3)
            small = Job(f"c{number:03d}", size, 0, cpus, random.choice([5.0, 20.0]))
            heapq.heappush(heap, (at * random.random(), small))
        return heap

    def run(self) -> None:
        """Until all jobs have ended; looks after each event."""
        while self.arrivals or self.running or self.waiting:
            times = [at for at, _ in self.arrivals[:1]]
            times += [end for _, end in self.running.values()]
            timer = self.state.line.next_timer()
            times += [timer] if timer is not None else []
            self.now = max(self.now, min(times))
            self._end()
            while self.arrivals and self.arrivals[0][0] <= self.now:
                self._arrive(heapq.heappop(self.arrivals)[1])
            self.decide()
            self._land_all()
            self.decide()
            self._look()

    def _arrive(self, job: Job) -> None:
        if not job.gpus:  # it takes what is left over, or is given up
            small = [each for each, _ in self.running.values() if not each.gpus]
            used = sum(each.size * each.cpus for each in (*small, job))
            if used > CPUS_FOR_OTHERS * len(self.nodes):
                return
        self.groups[job.name] = group = volcano_group(job.name, job.size, created=self.now)
        self.state.group_changed(VOLCANO_POD_GROUPS, group.metadata.key, group)
        each = {"gpus": job.gpus, "cpu": str(job.cpus), "created": self.now}
        for member in gang(job.name, job.size, **each):
            self._pod(member)
        self.waiting[job.name], self.arrived[job.name] = job, self.now

    def _end(self) -> None:
        for job, end in list(self.running.values()):
            if end <= self.now:
                del self.running[job.name]
                for i in range(job.size):
                    old = self.pods[f"{job.name}-{i}"]
                    self._pod(replace(old, status=replace(old.status, phase="Succeeded")))
                    self.remove(f"{job.name}-{i}")
                group = self.groups.pop(job.name)
                self.state.group_changed(VOLCANO_POD_GROUPS, group.metadata.key, None)

    def _land_all(self) -> None:
        while self.in_flight:
            bind, member, where = self.in_flight.pop(0)
            self._pod(bound(self.pods[member.metadata.name], where, bind, self.now))
            self._check_capacity(where)
            job = self.waiting.pop(bind.gang.name, None)
            if job is not None:
                self.started[job.name] = self.now
                self.running[job.name] = (job, self.now + job.seconds)

    def _look(self) -> None:
        """Note until when the first in line must have started, once it starves."""
        if not self.waiting:
            return
        first = min((job.key for job in self.waiting.values()), key=self.state.place_of)
        waited = self.now - self.arrived[first.name]
        if waited >= self.settings.starvation_after and first.name not in self.latest:
            self.latest[first.name] = max(end for _, end in self.running.values())
