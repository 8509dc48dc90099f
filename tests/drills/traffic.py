"""Jobs that arrive, run and end all the time, and what must become of each.

A thread creates jobs of every kind, lets each run for a while and ends it: its containers succeed
or fail, or its user deletes it. Residents are jobs that run from the beginning to the end of a
drill. While the API server does not answer, the thread tries again.
"""

from __future__ import annotations

import http.client
import itertools
import threading
import time
from dataclasses import dataclass
from typing import Any, Literal

from kubekit.objects.meta import Raw
from tests.drills.cluster import DrillCluster
from tests.drills.pod_history import JOB, ROLE
from tests.waiting import until

Fate = Literal["succeed", "fail", "delete", "stay"]
PATIENCE = 200.0
EXIT = "muster.dev/test-exit-code"
SHAPES: dict[str, tuple[str, dict[str, int]]] = {
    "TFJob": ("tfReplicaSpecs", {"PS": 1, "Worker": 3}),
    "PyTorchJob": ("pytorchReplicaSpecs", {"Master": 1, "Worker": 2}),
    "JAXJob": ("jaxReplicaSpecs", {"Worker": 4}),
    "MPIJob": ("mpiReplicaSpecs", {"Launcher": 1, "Worker": 2}),
}
CONTAINERS = {"TFJob": "tensorflow", "PyTorchJob": "pytorch", "JAXJob": "jax", "MPIJob": "mpi"}
DECISIVE = {"TFJob": "worker", "PyTorchJob": "master", "JAXJob": "worker", "MPIJob": "launcher"}
"""The role whose end is the end of the job."""
WAYS: list[tuple[str, Fate]] = [
    ("TFJob", "succeed"),
    ("PyTorchJob", "succeed"),
    ("TFJob", "fail"),
    ("MPIJob", "succeed"),
    ("JAXJob", "succeed"),
    ("TFJob", "delete"),
    ("JAXJob", "fail"),
]


@dataclass
class DrillJob:
    """One job, and what its end must be."""

    kind: str
    name: str
    fate: Fate
    created: bool = False
    running_since: float = 0.0
    state: str = ""
    """Succeeded or Failed once it has ended, Gone once it is deleted."""

    @property
    def wanted(self) -> str:
        return {"succeed": "Succeeded", "fail": "Failed", "delete": "Gone", "stay": ""}[self.fate]

    @property
    def size(self) -> int:
        """The members of its gang; a launcher is none."""
        roles = SHAPES[self.kind][1]
        return sum(count for role, count in roles.items() if role != "Launcher")


class Traffic:
    """The jobs of one namespace. Use it in a `with` block; at the end nothing new is created."""

    def __init__(
        self, cluster: DrillCluster, namespace: str, *, at_once: int = 5, lifetime: float = 1.0
    ) -> None:
        self.cluster, self.namespace = cluster, namespace
        self.jobs: dict[str, DrillJob] = {}
        self.outages = 0
        """Requests that failed."""
        self.lost_kinds: set[str] = set()
        """Kinds whose jobs all go with their CRD."""
        self._at_once, self._lifetime = at_once, lifetime
        self._numbers, self._ways = itertools.count(), itertools.cycle(WAYS)
        self._arriving = True
        self._ended = threading.Event()
        self._crash: BaseException | None = None

    def __enter__(self) -> Traffic:
        body = {"metadata": {"name": self.namespace}}
        status, answer = self.cluster.plane.request("POST", "/api/v1/namespaces", body)
        assert status == 201, answer
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def stay(self, *kinds: str) -> None:
        """Add jobs that run until the end, and wait until they do."""
        for kind in kinds:
            name = f"resident-{kind.lower()}-{next(self._numbers)}"
            self.jobs[name] = DrillJob(kind, name, "stay")
        self.until(lambda: all(job.running_since for job in self.of("stay")), "residents run")

    def of(self, fate: Fate) -> list[DrillJob]:
        return [job for job in list(self.jobs.values()) if job.fate == fate]

    @property
    def done(self) -> int:
        return sum(bool(job.state) for job in list(self.jobs.values()))

    def until_more_end(self, count: int, timeout: float = PATIENCE) -> None:
        """Wait until so many more jobs have come to their end."""
        goal = self.done + count
        self.until(lambda: self.done >= goal, f"{count} more jobs end", timeout)

    def finish(self, timeout: float = PATIENCE) -> None:
        """Create no more jobs, and wait until all have come to their end."""
        self._arriving = False
        self.until(lambda: not self.unfinished(), "every job ends", timeout)

    def unfinished(self) -> list[DrillJob]:
        return [job for job in list(self.jobs.values()) if job.wanted and not job.state]

    def until(self, check: Any, what: str, timeout: float = PATIENCE) -> None:
        def checked() -> bool:
            if self._crash:
                raise self._crash
            return bool(check())

        try:
            until(checked, timeout=timeout, every=0.05, what=what)
        except AssertionError as error:
            rest = "\n".join(map(str, self.unfinished()))
            states = self.cluster.plane.kubectl("get", "pods", "-n", self.namespace, "-o", "wide")
            logs = self.cluster.log_tails()
            raise AssertionError(f"{error}\n{rest}\n{states.stdout}\n{logs}") from error

    def _run(self) -> None:
        while not self._ended.wait(0.15):
            try:
                self._create()
                self._observe()
            except (OSError, http.client.HTTPException, _Unavailable):
                self.outages += 1
            except BaseException as error:  # noqa: BLE001 - raised again in the test's thread
                self._crash = error
                return

    def _create(self) -> None:
        active = [job for job in list(self.jobs.values()) if not job.state and job.fate != "stay"]
        if self._arriving and len(active) < self._at_once:
            kind, fate = next(self._ways)
            number = next(self._numbers)
            name = f"{kind.lower()[:2]}-{fate}-{number}"
            self.jobs[name] = DrillJob(kind, name, fate)
        for job in [job for job in list(self.jobs.values()) if not job.created]:
            self._request("POST", self._path(job.kind), manifest(job), also=(409,))
            job.created = True

    def _observe(self) -> None:
        pods = self._request("GET", f"/api/v1/namespaces/{self.namespace}/pods")["items"]
        for kind in SHAPES:
            listed = self._request("GET", self._path(kind))["items"]
            there = {item["metadata"]["name"]: item for item in listed}
            for job in [job for job in list(self.jobs.values()) if job.kind == kind]:
                if job.created and not job.state:
                    own = [p for p in pods if p["metadata"].get("labels", {}).get(JOB) == job.name]
                    self._advance(job, there.get(job.name), own)

    def _advance(self, job: DrillJob, found: Raw | None, pods: list[Raw]) -> None:
        if found is None:
            assert job.fate == "delete" or job.kind in self.lost_kinds, f"{job} is gone"
            job.state = "" if pods else "Gone"
            return
        on = {
            row["type"]
            for row in found.get("status", {}).get("conditions") or ()
            if row["status"] == "True"
        }
        job.state = next((end for end in ("Succeeded", "Failed") if end in on), "")
        if job.state:
            assert job.state == job.wanted, f"{job}: {found['status']}"
            return
        if "Running" in on and not job.running_since:
            job.running_since = time.monotonic()
        if job.running_since and time.monotonic() > job.running_since + self._lifetime:
            self._end(job, pods)

    def _end(self, job: DrillJob, pods: list[Raw]) -> None:
        if job.fate == "delete":
            self._request("DELETE", f"{self._path(job.kind)}/{job.name}", also=(404,))
        if job.fate not in ("succeed", "fail"):
            return
        change = {"metadata": {"annotations": {EXIT: "0" if job.fate == "succeed" else "3"}}}
        for pod in pods:
            metadata = pod["metadata"]
            if metadata["labels"][ROLE] == DECISIVE[job.kind] and EXIT not in metadata.get(
                "annotations", {}
            ):
                path = f"/api/v1/namespaces/{self.namespace}/pods/{metadata['name']}"
                self._request("PATCH", path, change, also=(404,))

    def _path(self, kind: str) -> str:
        return f"/apis/kubeflow.org/v1/namespaces/{self.namespace}/{kind.lower()}s"

    def _request(
        self, method: str, path: str, body: Raw | None = None, also: tuple[int, ...] = ()
    ) -> Raw:
        status, answer = self.cluster.plane.request(method, path, body)
        if status >= 500 or (status in (403, 404, 429) and status not in also):
            raise _Unavailable(str(answer))
        assert status < 300 or status in also, f"{method} {path}: {answer}"
        result: Raw = answer
        return result


class _Unavailable(Exception):
    """The server does not serve this now."""


def manifest(job: DrillJob) -> Raw:
    """A job whose replicas use a GPU each, but for parameter servers and launchers."""
    field, roles = SHAPES[job.kind]
    policy = "Never" if job.fate == "fail" else "OnFailure"
    specs = {
        role: {
            "replicas": count,
            "restartPolicy": policy,
            "template": {"spec": {"containers": [_container(job.kind, role)]}},
        }
        for role, count in roles.items()
    }
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": job.kind,
        "metadata": {"name": job.name},
        "spec": {field: specs, "runPolicy": {"cleanPodPolicy": "Running"}},
    }


def _container(kind: str, role: str) -> Raw:
    container: Raw = {"name": CONTAINERS[kind], "image": "i", "command": ["train"]}
    container["resources"] = {"requests": {"cpu": "100m"}}
    if role not in ("PS", "Launcher"):
        container["resources"]["limits"] = {"nvidia.com/gpu": 1}
    return container
