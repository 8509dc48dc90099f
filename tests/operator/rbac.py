"""Daemons on a real cluster with the rights that their pages document, and their requests.

The admission plugin OwnerReferencesPermissionEnforcement is on, so that a test fails if a right is
missing that only this plugin checks.
"""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from muster.kube.auth import kube_config
from tests.controlplane.control_plane import ControlPlane
from tests.controlplane.process_flags import kubeconfig
from tests.operator.clusters import define
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from muster.api.meta import Raw
    from muster.kube.auth.endpoint import Endpoint

DAEMONS = ("operator", "scheduler")
DOCS = Path(__file__).parents[2] / "docs"
NAMESPACE = "muster"


@dataclass(frozen=True, order=True)
class Right:
    """A verb on a resource; a subresource follows a slash."""

    verb: str
    group: str
    resource: str


@dataclass(frozen=True)
class Watched:
    """A cluster in which both daemons run, each with its own service account."""

    plane: ControlPlane

    @property
    def admin(self) -> Endpoint:
        return kube_config.load(self.plane.kubeconfig)

    def requests(self, daemon: str) -> list[tuple[Right, int, str]]:
        """The right, response code and URI of every request of a daemon so far."""
        who = f"system:serviceaccount:{NAMESPACE}:muster-{daemon}"
        rows = [json.loads(line) for line in self.plane.audit_log.read_text().splitlines()]
        own = [row for row in rows if row["user"]["username"] == who]
        return [(_right(row["objectRef"]), *_answer(row)) for row in map(_complete, own)]


def _complete(row: Raw) -> Raw:
    return {**row, "objectRef": {**row.get("objectRef", {}), "verb": row["verb"]}}


def _right(ref: Raw) -> Right:
    parts = [ref.get("resource", ""), ref.get("subresource", "")]
    return Right(ref["verb"], ref.get("apiGroup", ""), "/".join(part for part in parts if part))


def _answer(row: Raw) -> tuple[int, str]:
    return row.get("responseStatus", {}).get("code", 0), row["requestURI"]


def page(daemon: str) -> str:
    return (DOCS / f"{daemon}.md").read_text()


def documented(daemon: str) -> list[Raw]:
    """The roles on the daemon's page."""
    blocks = re.findall(r"```yaml\n(.*?)```", page(daemon), re.DOTALL)
    (text,) = [block for block in blocks if "kind: ClusterRole" in block]
    return list(yaml.safe_load_all(text))


def commands(daemon: str) -> list[list[str]]:
    """The commands on the daemon's page that bind its roles."""
    lines = re.findall(rf"^kubectl (create .*muster-{daemon}.*)$", page(daemon), re.MULTILINE)
    return [shlex.split(line) for line in lines]


def granted(daemon: str) -> set[Right]:
    """All rights that the documented roles grant."""
    return {
        Right(verb, group, resource)
        for role in documented(daemon)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


@contextmanager
def running(binaries: Path) -> Iterator[Watched]:
    """A cluster with nodes on which pods run, and the daemons."""
    strict = ["--enable-admission-plugins=OwnerReferencesPermissionEnforcement"]
    with (
        ControlPlane(binaries, audit="Metadata", apiserver_args=strict) as plane,
        ExitStack() as on,
    ):
        define(plane)
        plane.start_controller_manager()
        plane.start_kwok()
        for number in range(3):
            plane.add_node(f"n{number}", gpus=8)
        _kubectl(plane, "create", "namespace", NAMESPACE)
        for daemon in DAEMONS:
            _kubectl(plane, "apply", "-f", "-", text=yaml.safe_dump_all(documented(daemon)))
            for command in commands(daemon):
                _kubectl(plane, *command)
            on.enter_context(_started(plane, daemon))
        yield Watched(plane)


def _kubectl(plane: ControlPlane, *words: str, text: str | None = None) -> str:
    result = plane.kubectl(*words, input=text)
    assert result.returncode == 0, result.stderr
    return result.stdout


@contextmanager
def _started(plane: ControlPlane, daemon: str) -> Iterator[None]:
    token = _kubectl(plane, "create", "token", f"muster-{daemon}", "-n", NAMESPACE).strip()
    file = plane.folder / f"{daemon}.kubeconfig"
    file.write_text(json.dumps(kubeconfig(plane.url, plane.authority.certificate, token=token)))
    words = [sys.executable, "-m", "muster", daemon, f"--kubeconfig={file}", "--leader-elect"]
    log = plane.folder / f"{daemon}.log"
    with log.open("w") as out, subprocess.Popen(words, stdout=out, stderr=out) as process:
        try:
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


def lead(cluster: Watched) -> None:
    """Wait until both daemons hold their leases."""

    def leads(daemon: str) -> bool:
        path = f"/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/muster-{daemon}"
        code, lease = cluster.plane.request("GET", path)
        return code == 200 and bool(lease["spec"].get("holderIdentity"))

    until(lambda: all(leads(daemon) for daemon in DAEMONS), timeout=60, what="both at work")


def body(kind: str, version: str, name: str, spec: Any, **metadata: Any) -> Raw:
    return {
        "apiVersion": f"kubeflow.org/{version}",
        "kind": kind,
        "metadata": {"name": name, **metadata},
        "spec": spec,
    }
