"""Running `arena submit … --dry-run` on a machine without a cluster, and reading its objects."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from muster.api.meta import Raw
from muster.cli import main
from muster.jobs.job_kinds import JOB_KIND_BY_NAME

BARE = {"tfjob": "Worker", "mpijob": "Worker", "pytorchjob": "Master", "jaxjob": "Worker"}
"""The role to look at where a flag is for all of them."""


@dataclass(frozen=True)
class DryRun:
    """What a dry run printed."""

    objects: list[Raw]

    @property
    def job(self) -> Raw:
        return next(item for item in self.objects if item["kind"] in JOB_KIND_BY_NAME)

    @property
    def replicas(self) -> Raw:
        found: Raw = self.job["spec"][JOB_KIND_BY_NAME[self.job["kind"]].replicas_field]
        return found

    def pod(self, role: str) -> Raw:
        found: Raw = self.replicas[role]["template"]["spec"]
        return found

    def at(self, path: str) -> Any:
        """A field: `job/…`, `ROLE/…` (its replica), `pod:ROLE/…`, `main:ROLE/…`, `KIND/…`."""
        head, _, rest = path.partition("/")
        what, _, role = head.partition(":")
        found: Any
        if what == "job":
            found = self.job
        elif what in ("pod", "main", "init"):
            found = self.pod(role)
            lists = {"main": "containers", "init": "initContainers"}
            found = found if what == "pod" else (found.get(lists[what]) or [{}])[0]
        elif what in self.replicas:
            found = self.replicas[what]
        else:
            found = next((item for item in self.objects if item["kind"] == what), None)
        for step in rest.split("/") if rest else []:
            step = step.replace("~", "/")
            if isinstance(found, list):
                found = next((row for row in found if row.get("name") == step), None)
            elif isinstance(found, dict):
                found = found.get(step)
        return found


class Machine:
    """A home directory of its own, and the command line in it."""

    def __init__(
        self, home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.home = home
        self.capsys = capsys
        self.monkeypatch = monkeypatch
        monkeypatch.setenv("HOME", str(home))
        monkeypatch.setenv("MUSTER_HOME", str(home / "muster"))
        for name in ("KUBECONFIG", "ARENA_CONFIG", "MLFLOW_TRACKING_URI"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)

    def run(self, *words: str) -> tuple[int, str, str]:
        code = main.run("arena", list(words))
        captured = self.capsys.readouterr()
        return code, captured.out, captured.err

    def dry(self, *words: str) -> DryRun:
        """The objects of `arena submit …`."""
        code, out, err = self.run("submit", *words, "--dry-run=client", "-o", "json")
        assert code == 0, err
        shown = json.loads(out)
        return DryRun(shown["items"] if shown["kind"] == "List" else [shown])
