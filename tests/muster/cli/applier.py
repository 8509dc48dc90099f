"""A namespace of its own on a cluster, `arena apply` pointed there, and objects to apply."""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from kubekit.client.auth import kube_config
from kubekit.client.blocking_client import BlockingClient
from kubekit.objects.kinds import CONFIG_MAPS
from kubekit.objects.meta import Key, Raw
from muster.cli import main
from tests.builders import pod


@dataclass(frozen=True)
class Applier:
    """A cluster, a namespace of its own, and the command line pointed there."""

    kubeconfig: Path
    namespace: str
    capture: pytest.CaptureFixture[str]
    patch: pytest.MonkeyPatch

    def arena(
        self, verb: str, *words: str, stdin: str | Iterable[Raw] = ""
    ) -> tuple[int, list[str], str]:
        """Exit code, lines of stdout, and stderr without the line that names the cluster."""
        text = stdin if isinstance(stdin, str) else yaml.safe_dump_all(stdin)
        self.patch.setattr("sys.stdin", io.StringIO(text))
        flags = ["--kubeconfig", str(self.kubeconfig), "-n", self.namespace]
        code = main.run("arena", [verb, *flags, *words])
        out = self.capture.readouterr()
        err = out.err.partition("\n")[2] if out.err.startswith("cluster: ") else out.err
        return code, out.out.splitlines(), err

    def apply(self, *items: Raw, flags: tuple[str, ...] = ()) -> tuple[int, list[str], str]:
        return self.arena("apply", "-f", "-", *flags, stdin=items)

    def client(self) -> BlockingClient:
        return BlockingClient(kube_config.load(self.kubeconfig))

    def data(self, name: str) -> dict[str, str] | None:
        """The data of a ConfigMap; None if it does not exist."""
        with self.client() as client:
            config_map = client.find(CONFIG_MAPS, Key(self.namespace, name))
        return dict(config_map.data) if config_map else None


def deployment(name: str, replicas: int = 1) -> Raw:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod(name)["spec"]},
        },
    }
