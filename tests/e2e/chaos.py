"""Random but repeatable failures of a local cluster, and a record of which jobs they hit.

One failure at a time: a container's process, its shim, a pod's first process, every process of a
node, or the daemon (which is started again) is killed with SIGKILL, or a pod is deleted.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from random import Random

import psutil

from kubekit.errors import MusterError
from kubekit.objects.core import Pod
from kubekit.objects.kinds import PODS
from kubekit.objects.meta import Key
from localkube.node.runtime.pod_records import PodRecords
from tests.e2e.local_cluster import LocalCluster
from tests.waiting import until

JOB = "training.kubeflow.org/job-name"
FAILURES = [*["process"] * 4, *["delete"] * 2, *["shim"] * 3, *["pause"] * 2]
FAILURES += ["daemon", "node", "fork-server"]
PATIENCE = 60.0
MOST_RESTARTS = 2  # Each further restart has a longer backoff, up to minutes.
MayHit = Callable[[Pod], bool]


def _any(_: Pod) -> bool:
    return True


class Chaos:
    """Kills and deletes pods of one cluster. `killed` and `deleted` count failures by job."""

    def __init__(
        self, local: LocalCluster, start: Callable[[], None], random: Random, may_hit: MayHit = _any
    ) -> None:
        self.killed: Counter[str] = Counter()
        self.deleted: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        self._local = local
        self._start = start
        self._may_hit = may_hit
        self._random = random
        self._records = PodRecords(local.home / "data" / "pods")

    def __str__(self) -> str:
        return f"failures {self.failures}, killed {self.killed}, deleted {self.deleted}"

    def cause_failures(self, seconds: float, every: float) -> None:
        """Cause failures for so many seconds, each kind at least once."""
        end = time.monotonic() + seconds
        while True:
            for name in self._random.sample(FAILURES, len(FAILURES)):
                self._cause_failure(name)
                time.sleep(self._random.uniform(0.5, 1.5) * every)  # pace: failures
            if time.monotonic() > end:
                return

    def _cause_failure(self, name: str) -> None:
        # There may be no such pod for a while after a failure.
        pods = until(self.running, timeout=PATIENCE, every=0.2, what="a pod to hit")
        self.hit(name, pods)

    def hit(self, name: str, pods: list[Pod]) -> None:
        """Cause this failure to one of the pods, or to the daemon."""
        self.failures[name] += 1
        pod = self._random.choice(pods)
        if name == "daemon":
            self._local.kill_daemon()
            if self._random.random() < 0.5:
                self._kill(pod, self._process)
            self._start()
        elif name == "delete":
            self._delete(pod)
        elif name == "node":
            for each in [p for p in pods if p.spec.node_name == pod.spec.node_name]:
                self._kill(each, self._shim)
                self._kill(each, self._pause)
        elif name == "fork-server":
            self._kill_fork_server()
        else:
            methods = {"process": self._process, "shim": self._shim, "pause": self._pause}
            self._kill(pod, methods[name])

    def running(self) -> list[Pod]:
        """Pods that may be hit.

        Pods that restarted often are left to recover, and so are jobs with a succeeded pod: it
        does not run again for a peer that comes back.
        """
        with self._local.client() as client:
            pods = client.list(PODS, "default").items
        pods = [pod for pod in pods if JOB in pod.metadata.labels]
        succeeded = {pod.metadata.labels[JOB] for pod in pods if pod.status.phase == "Succeeded"}
        return sorted(
            (
                pod
                for pod in pods
                if pod.status.phase == "Running"
                and pod.metadata.deletion_timestamp is None
                and pod.metadata.labels[JOB] not in succeeded
                and self._may_hit(pod)
                and all(c.restart_count < MOST_RESTARTS for c in pod.status.container_statuses)
            ),
            key=lambda pod: pod.metadata.name,
        )

    def _kill(self, pod: Pod, pid_of: Callable[[Pod], int]) -> None:
        pid = pid_of(pod)
        if pid and self._process(pod):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                self.killed[pod.metadata.labels[JOB]] += 1

    def _kill_fork_server(self) -> None:
        for child in psutil.Process(self._local.daemon).children():
            with contextlib.suppress(psutil.Error):  # it has exited meanwhile
                if any("import fork_server" in word for word in child.cmdline()):
                    child.kill()

    def _delete(self, pod: Pod) -> None:
        key = Key("default", pod.metadata.name)
        with self._local.client() as client, contextlib.suppress(MusterError):
            self.deleted[pod.metadata.labels[JOB]] += 1  # Also if there is no answer.
            client.delete(PODS, key, uid=pod.metadata.uid, grace=self._random.choice([0, 1]))

    def _process(self, pod: Pod) -> int:
        """The container's process while it lives."""
        attempt = self._records.read(pod.metadata.uid).last(pod.spec.containers[0].name)
        return attempt.pid if attempt is not None and attempt.alive else 0

    def _pause(self, pod: Pod) -> int:
        return self._records.read(pod.metadata.uid).pause

    def _shim(self, pod: Pod) -> int:
        for process in psutil.process_iter(["pid", "cmdline"]):
            words = process.info["cmdline"] or []
            if any("shim" in word for word in words) and any(
                pod.metadata.uid in word for word in words
            ):
                return int(process.info["pid"])
        return 0
