"""A job's status on a real cluster, and the logs of Muster's daemons there."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from pathlib import Path

from kubekit.objects.meta import Raw
from tests.waiting import until


class RealCluster(ABC):
    """A real cluster whose daemons write their logs to a folder."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs

    @abstractmethod
    def shown_job(self, name: str) -> str:
        """The output of `arena get NAME -o json`."""

    def job(self, name: str) -> Raw:
        job: Raw = json.loads(self.shown_job(name))
        return job

    def until_job(self, name: str, status: str) -> Raw:
        """Wait until the job has a status."""

        def reached() -> Raw | None:
            job = self.job(name)
            return job if job["status"] == status else None

        try:
            return until(reached, timeout=60, every=0.2, what=f"{name} {status}")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.job(name)}\n{self.log_tails()}") from error

    def log_tails(self) -> str:
        """The last lines of every daemon's log."""
        return "\n".join(
            f"== {log.name}\n" + "\n".join(log.read_text().splitlines()[-20:])
            for log in sorted(self._logs.glob("*.log"))
        )
