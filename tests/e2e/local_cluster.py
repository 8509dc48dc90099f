"""A local cluster of its own for end-to-end tests, driven only through the `arena` command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil

from kubekit.client.auth import kube_config
from kubekit.client.blocking_client import BlockingClient
from kubekit.objects.core import Pod
from kubekit.objects.kinds import PODS
from kubekit.objects.meta import Key, Raw
from tests.repository import ROOT
from tests.waiting import until

ARENA = Path(sys.executable).with_name("arena")
INHERITED = ("HOME", "LANG", "PYTHONPATH")
EXAMPLES = ROOT / "examples"


class LocalCluster:
    """One MUSTER_HOME and the commands run in it, with this Python's environment active."""

    def __init__(self, home: Path, python: str = sys.executable) -> None:
        self.home = home
        inherited = {key: os.environ[key] for key in INHERITED if key in os.environ}
        path = f"{Path(python).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        self.env = {**inherited, "PATH": path, "MUSTER_HOME": str(home)}

    def arena(
        self, *words: str, check: bool = True, timeout: float = 240, cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run `arena …`; a failure shows its output and the end of the daemon's log."""
        # An ordinary user's test has no environment of its own, only PYTHONPATH.
        command = [ARENA] if ARENA.exists() else [sys.executable, "-m", "muster"]
        result = subprocess.run(
            [*command, *words],
            cwd=cwd,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=timeout,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        if check and result.returncode:
            raise AssertionError(
                f"arena {' '.join(words)} ended with {result.returncode}\n{result.stdout}"
                f"{result.stderr}\n{self.log_tail()}"
            )
        return result

    def start(self, *words: str) -> subprocess.Popen[str]:
        """`arena …`, running beside the test, with pipes for its output."""
        command = [ARENA] if ARENA.exists() else [sys.executable, "-m", "muster"]
        return subprocess.Popen(
            [*command, *words],
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def up(self, *flags: str) -> None:
        self.arena("up", "--detach", *flags)

    def down(self) -> None:
        self.arena("down")

    def submit(self, name: str, *flags: str, command: str) -> None:
        self.arena("submit", "tf", f"--name={name}", "--image=python:3.12", *flags, command)

    def apply(self, *objects: Raw) -> None:
        """`arena apply` of these objects."""
        file = self.home / "applied.json"
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
        self.arena("apply", "-f", str(file))

    def job(self, name: str) -> dict[str, Any]:
        job: dict[str, Any] = json.loads(self.arena("get", name, "-o", "json").stdout)
        return job

    def wait_job(self, name: str, *statuses: str, timeout: float = 120) -> dict[str, Any]:
        def reached() -> dict[str, Any] | None:
            job = self.job(name)
            return job if job["status"] in statuses else None

        try:
            return until(reached, timeout=timeout, every=0.3, what=f"{name} {statuses}")
        except AssertionError as error:
            shown = self.arena("get", name, check=False).stdout
            raise AssertionError(f"{error}\n{shown}\n{self.log_tail()}") from error

    def pod(self, name: str) -> Pod:
        with self.client() as client:
            return client.get(PODS, Key("default", name))

    def client(self) -> BlockingClient:
        return BlockingClient(kube_config.load(self.home / "kubeconfig"))

    def shim_of(self, pod: str) -> int:
        """The host pid of the shim of the pod's container; commands run in it have later shims."""
        uid = self.pod(pod).metadata.uid
        shims = [
            (process.info["create_time"], process.info["pid"])
            for process in psutil.process_iter(["pid", "cmdline", "create_time"])
            if any("shim" in word for word in process.info["cmdline"] or [])
            and any(uid in word for word in process.info["cmdline"] or [])
        ]
        return int(min(shims)[1])

    def inside(self, pod: str) -> str:
        """The node's files about a pod, and the pod's processes."""
        uid = self.pod(pod).metadata.uid
        folder = self.home / "data" / "pods" / uid
        notes = [
            f"{file.relative_to(folder)}: {file.read_text(errors='replace')[:500]}"
            for file in sorted(folder.rglob("*"))
            if "root" not in file.parts[len(folder.parts) :]  # Root file systems do not matter.
            and file.is_file()
        ]
        lines = [
            f"{process.info['pid']} {process.info['status']} {process.info['cmdline']}"
            for process in psutil.process_iter(["pid", "status", "cmdline"])
            if any(uid in word for word in process.info["cmdline"] or [])
        ]
        return "\n".join([*notes, *lines])

    @property
    def daemon(self) -> int:
        return int((self.home / "daemon.lock").read_text())

    def kill_daemon(self) -> None:
        """Kill the daemon and wait for its end: until then it locks the home."""
        pid = self.daemon
        os.kill(pid, signal.SIGKILL)
        until(lambda: over(pid), what="the daemon's end")

    def log_tail(self, lines: int = 30) -> str:
        log = self.home / "daemon.log"
        return "\n".join(log.read_text().splitlines()[-lines:]) if log.exists() else ""


def manifest(
    kind: str, name: str, replicas: dict[str, int], command: str, folder: Path, **template: Any
) -> Raw:
    """A job whose replicas run the command, with the folder mounted at its own path."""
    container = kind.removesuffix("Job").lower()
    mounts = [{"name": "folder", "mountPath": str(folder)}]
    pod = {
        "containers": [
            {
                "name": "tensorflow" if container == "tf" else container,
                "image": "python:3.12",
                "command": ["sh", "-c", command],
                "volumeMounts": mounts,
            }
        ],
        "volumes": [{"name": "folder", "hostPath": {"path": str(folder)}}],
        **template,
    }
    roles = {role: {"replicas": n, "template": {"spec": pod}} for role, n in replicas.items()}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {f"{container}ReplicaSpecs": roles},
    }


def remove(folder: Path) -> None:
    """Delete a cluster's folder. An overlay leaves a directory there that its owner cannot open."""
    subprocess.run(["rm", "-rf", folder], check=True)


def over(pid: int) -> bool:
    """Whether the process has ended, even if its parent has not waited for it."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def processes_with(word: str) -> dict[int, float]:
    """Host pid -> start time of the Python processes with this word in their command line.

    The start time shows if a pid was given to another process meanwhile.
    """
    started = {}
    for process in psutil.process_iter(["pid", "cmdline", "create_time"]):
        words = process.info["cmdline"] or []
        if word in words and "python" in Path(words[0]).name:
            started[process.info["pid"]] = process.info["create_time"]
    return started
