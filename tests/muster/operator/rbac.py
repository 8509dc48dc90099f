"""Daemons on a real cluster with the rights that their code declares, and their requests.

The admission plugin OwnerReferencesPermissionEnforcement is on, so that a test fails if a right is
missing that only this plugin checks.
"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from kubekit.client.auth import kube_config
from kubekit.rights import Right, Rule, expand
from muster.install.objects import roles
from muster.install.objects.values import Values
from tests.audited_rights import Refusal, Request, denied, requests_of
from tests.controlplane.control_plane import ControlPlane
from tests.controlplane.process_flags import kubeconfig
from tests.muster.operator.clusters import define
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator

    from kubekit.client.auth.endpoint import Endpoint
    from kubekit.objects.meta import Raw

DAEMONS = ("operator", "scheduler")
NAMESPACE = "muster"


@dataclass(frozen=True)
class Watched:
    """A cluster in which both daemons run, each with its own service account."""

    plane: ControlPlane

    @property
    def admin(self) -> Endpoint:
        return kube_config.load(self.plane.kubeconfig)

    def account(self, daemon: str) -> str:
        return f"system:serviceaccount:{NAMESPACE}:muster-{daemon}"

    def requests(self, daemon: str) -> list[Request]:
        """Every request of a daemon so far."""
        return requests_of(self.plane, self.account(daemon))

    def denied(self, since: int = 0) -> list[tuple[str, Refusal]]:
        """The refusals that daemons met, from this place in the audit log on."""
        return [
            (daemon, refusal)
            for daemon in DAEMONS
            for refusal in denied(self.plane, self.account(daemon), since)
        ]


class MissingRights(AssertionError):
    """Daemons lacked rights; the message names each."""

    def __init__(self, missing: list[tuple[str, Refusal]]) -> None:
        lines = [f"muster-{daemon} may not {refusal}" for daemon, refusal in missing]
        super().__init__("\n".join(lines))
        self.missing = missing


async def run_stories(
    cluster: Watched, stories: Coroutine[Any, Any, None], go_on: float = 15.0
) -> None:
    """Run stories; a right that a daemon lacks ends them, and is named.

    Without a right, a story waits in vain: its own failure says nothing of the right. After the
    first refusal the stories go on for some seconds, so that every right that is missing is named.
    """
    start = cluster.plane.audit_log.stat().st_size
    task = asyncio.create_task(stories)
    while not task.done() and not cluster.denied(start):
        await asyncio.wait([task], timeout=0.5)
    await asyncio.wait([task], timeout=go_on)
    missing = cluster.denied(start)
    if missing:
        task.cancel()
        await asyncio.wait([task])
        raise MissingRights(missing)
    await task


def granted(daemon: str, *further: Rule) -> set[Right]:
    """All rights that the daemon declares, and those of further rules."""
    declared = roles.rights_of(daemon, Values())
    return set(expand((*declared.served, *declared.cluster, *declared.leases, *further)))


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
            objects = roles.build(daemon, Values(), NAMESPACE)
            _kubectl(plane, "apply", "-f", "-", text=yaml.safe_dump_all(objects))
            on.enter_context(_started(plane, daemon))
        yield Watched(plane)


def _kubectl(plane: ControlPlane, *words: str, text: str | None = None) -> str:
    result = plane.kubectl(*words, input=text)
    assert result.returncode == 0, result.stderr
    return result.stdout


@contextmanager
def without(plane: ControlPlane, daemon: str, right: Right) -> Iterator[None]:
    """The daemon's ClusterRole lacks one right."""
    path = f"/apis/rbac.authorization.k8s.io/v1/clusterroles/muster-{daemon}"
    _, role = plane.request("GET", path)
    rules = [rule for row in role["rules"] for rule in _split(row, right)]
    assert rules != role["rules"], f"{daemon} has no right to {right}"
    _write_rules(plane, path, rules)
    try:
        yield
    finally:
        _write_rules(plane, path, role["rules"])


def _split(rule: Raw, right: Right) -> Iterator[Raw]:
    """The rule as rules that do not give this right."""
    if right.group not in rule["apiGroups"] or right.resource not in rule["resources"]:
        yield rule
        return
    others = [name for name in rule["resources"] if name != right.resource]
    verbs = [verb for verb in rule["verbs"] if verb != right.verb]
    if others:
        yield {**rule, "resources": others}
    if verbs:
        yield {**rule, "resources": [right.resource], "verbs": verbs}


def _write_rules(plane: ControlPlane, path: str, rules: list[Raw]) -> None:
    _, role = plane.request("GET", path)
    status, answer = plane.request("PUT", path, {**role, "rules": rules})
    assert status == 200, answer


def kubeconfig_of(plane: ControlPlane, namespace: str, account: str, file: Path) -> Path:
    """Write a kubeconfig of this service account."""
    token = _kubectl(plane, "create", "token", account, "-n", namespace).strip()
    file.write_text(json.dumps(kubeconfig(plane.url, plane.authority.certificate, token=token)))
    return file


@contextmanager
def _started(plane: ControlPlane, daemon: str) -> Iterator[None]:
    config = plane.folder / f"{daemon}.kubeconfig"
    file = kubeconfig_of(plane, NAMESPACE, f"muster-{daemon}", config)
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
