"""Running `arena submit … --dry-run` on a machine without a cluster, and reading its objects."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kubekit.objects.meta import Raw
from muster.cli import main
from muster.contract.job_kinds import JOB_KIND_BY_NAME

BARE = {"tfjob": "Worker", "mpijob": "Worker", "pytorchjob": "Master", "jaxjob": "Worker"}
"""The role to look at where a flag is for all of them."""


@dataclass(frozen=True)
class DryRun:
    """The objects that a dry run printed."""

    objects: list[Raw]

    @property
    def job(self) -> Raw:
        return next(item for item in self.objects if item["kind"] in JOB_KIND_BY_NAME)

    @property
    def replicas(self) -> Raw:
        replicas: Raw = self.job["spec"][JOB_KIND_BY_NAME[self.job["kind"]].replicas_field]
        return replicas

    def pod(self, role: str) -> Raw:
        spec: Raw = self.replicas[role]["template"]["spec"]
        return spec

    def at(self, path: str) -> Any:
        """A field: `job/…`, `ROLE/…` (its replica), `pod:ROLE/…`, `main:ROLE/…`, `KIND/…`."""
        head, _, rest = path.partition("/")
        place, _, role = head.partition(":")
        node: Any
        if place == "job":
            node = self.job
        elif place in ("pod", "main", "init"):
            node = self.pod(role)
            lists = {"main": "containers", "init": "initContainers"}
            node = node if place == "pod" else (node.get(lists[place]) or [{}])[0]
        elif place in self.replicas:
            node = self.replicas[place]
        else:
            node = next((item for item in self.objects if item["kind"] == place), None)
        for step in rest.split("/") if rest else []:
            step = step.replace("~", "/")
            if isinstance(node, list):
                node = next((row for row in node if row.get("name") == step), None)
            elif isinstance(node, dict):
                node = node.get(step)
        return node


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
        flags = ("--dry-run=client", "-o", "json")
        # Behind the kind, where the words of an unquoted command do not swallow them.
        line = (*words, *flags) if words[0].startswith("-") else (words[0], *flags, *words[1:])
        code, out, err = self.run("submit", *line)
        assert code == 0, err
        shown = json.loads(out)
        return DryRun(shown["items"] if shown["kind"] == "List" else [shown])
