"""A machine whose `arena submit` uses a namespace of its own on an API server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kubekit.client.auth import kube_config
from kubekit.client.blocking_client import BlockingClient
from kubekit.objects.kinds import CONFIG_MAPS, DEPLOYMENTS, SERVICES, Kind
from kubekit.objects.meta import Key, Raw
from muster.contract.job_kinds import TFJOBS
from tests.muster.cli.submit_dry_run import Machine

SUBMITTED: tuple[Kind[Any], ...] = (TFJOBS, CONFIG_MAPS, SERVICES, DEPLOYMENTS)
TF = ("submit", "tf", "--name=j", "--image=i", "--workers=2")


class Submitter(Machine):
    """The machine, with its command line pointed at a namespace of its own."""

    namespace = ""
    kubeconfig = Path()

    def arena(self, *words: str) -> tuple[int, list[str], str]:
        """Exit code, lines of stdout, and stderr without the line that names the cluster."""
        where = ("--kubeconfig", str(self.kubeconfig), "-n", self.namespace)
        code, out, err = self.run(*where, *words)
        return code, out.splitlines(), err.partition("\n")[2] if "cluster: " in err else err

    def client(self) -> BlockingClient:
        return BlockingClient(kube_config.load(self.kubeconfig))

    def find(self, kind: Kind[Any], name: str) -> Raw | None:
        with self.client() as client:
            return client.find(kind.read_as(dict), Key(self.namespace, name))

    def get(self, kind: Kind[Any], name: str) -> Raw:
        with self.client() as client:
            return client.get(kind.read_as(dict), Key(self.namespace, name))

    def objects(self) -> list[str]:
        """The names of all objects of the kinds that submit creates."""
        with self.client() as client:
            return [
                f"{kind.kind}/{item['metadata']['name']}"
                for kind in SUBMITTED
                for item in client.list(kind.read_as(dict), self.namespace).items
                if item["metadata"]["name"] != "kube-root-ca.crt"
            ]
