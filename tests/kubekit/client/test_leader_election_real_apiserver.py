"""Leader election among processes on a real kube-apiserver."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from tests.controlplane.control_plane import ControlPlane
from tests.kubekit.client.lease_contender import DEADLINE, DURATION
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


pytestmark = [pytest.mark.kube, pytest.mark.slow]


class Contenders:
    """Processes that want one lease, and the file in which they note when they may act."""

    def __init__(self, kubeconfig: Path, namespace: str, file: Path) -> None:
        self._kubeconfig, self._namespace, self._file = kubeconfig, namespace, file
        self._file.touch()
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, identity: str) -> None:
        self.processes[identity] = subprocess.Popen(
            [
                *(sys.executable, "-m", "tests.kubekit.client.lease_contender"),
                *(str(self._kubeconfig), self._namespace, identity, str(self._file)),
            ]
        )

    def notes(self) -> list[tuple[float, str]]:
        lines = self._file.read_text().rpartition("\n")[0].splitlines()
        return sorted((float(t), who) for t, who in (line.split() for line in lines))

    def leader(self) -> str:
        notes = self.notes()
        return notes[-1][1] if notes else ""

    def signal(self, identity: str, number: signal.Signals) -> None:
        self.processes[identity].send_signal(number)

    def terms(self) -> list[tuple[str, float, float]]:
        """The terms of the leaders; two leaders at once would show as many short terms."""
        terms: list[tuple[str, float, float]] = []
        for moment, leader in self.notes():
            if terms and terms[-1][0] == leader:
                terms[-1] = (leader, terms[-1][1], moment)
            else:
                terms.append((leader, moment, moment))
        return terms


@contextmanager
def contenders(kubeconfig: Path, namespace: str, file: Path) -> Iterator[Contenders]:
    several = Contenders(kubeconfig, namespace, file)
    try:
        yield several
    finally:
        for process in several.processes.values():
            process.kill()
            process.wait()


def test_two_processes_contend_for_a_lease_and_never_both_act(
    control_plane: ControlPlane, fresh_namespace: str, tmp_path: Path
) -> None:
    with contenders(control_plane.kubeconfig, fresh_namespace, tmp_path / "notes") as several:
        several.start("a")
        several.start("b")
        first = until(several.leader, what="a leader")
        second = "b" if first == "a" else "a"
        count = len(several.notes())
        until(lambda: len(several.notes()) > count + 100)
        several.signal(first, signal.SIGKILL)
        until(lambda: several.leader() == second, what="the other leads after a crash")

        several.start("c")
        several.signal(second, signal.SIGSTOP)
        until(lambda: several.leader() == "c", what="the third leads while the second is frozen")
        several.signal(second, signal.SIGCONT)
        count = len(several.notes())
        until(lambda: len(several.notes()) > count + 200, what="the third goes on")

        several.signal("c", signal.SIGTERM)
        assert several.processes["c"].wait(60) == 0
        path = f"/apis/coordination.k8s.io/v1/namespaces/{fresh_namespace}/leases/contended"
        _, lease = control_plane.request("GET", path)
        assert lease["spec"]["holderIdentity"] != "c", "given back on the way out"
        until(lambda: several.leader() == second, what="the second leads again")

    reigns = several.terms()
    assert {who for who, _, _ in reigns} == {first, second, "c"}
    for (former, _, ended), (_, began, _) in pairwise(reigns):
        # Whoever did not give the lease back must first have been silent for the margin.
        assert former == "c" or began - ended > DURATION - DEADLINE
