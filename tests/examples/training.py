"""Training processes as a job would start them, on loopback, and the Python that has the packages.

TensorFlow and its like are heavy and are not needed to develop Muster, so they may live in another
environment: MUSTER_TRAINING_PYTHON names its interpreter. Tests of missing packages are skipped,
unless MUSTER_REQUIRE names them.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Self

from tests.prerequisites import missing_prerequisite
from tests.waiting import until

PYTHON = os.environ.get("MUSTER_TRAINING_PYTHON") or sys.executable
Codes = dict[str, int | None]
CONTRACT = re.compile("TF_CONFIG|COORDINATOR_|NUM_PROCESSES|PROCESS_ID|OMPI_|PMIX_|PRTE_")


def need(prerequisite: str, *modules: str) -> None:
    """Skip without these modules; fail instead where `prerequisite` is required."""
    missing = [name for name in modules if name not in installed()]
    if missing:
        missing_prerequisite(prerequisite, f"{PYTHON} has no {', '.join(missing)}")


def mpirun() -> str:
    """The launcher that belongs to the interpreter's own MPI, else the machine's."""
    beside = Path(PYTHON).with_name("mpirun")
    program = str(beside) if beside.exists() else shutil.which("mpirun")
    return program or missing_prerequisite("mpirun", f"no mpirun beside {PYTHON} nor on the PATH")


@functools.cache
def installed() -> frozenset[str]:
    """Which of the training packages the interpreter has, without the cost of importing them."""
    names = ["tensorflow", "tensorboard", "jax", "mpi4py", "numpy", "kubeflow"]
    script = f"import importlib.util as u; print([n for n in {names} if u.find_spec(n)])"
    shown = subprocess.run([PYTHON, "-c", script], capture_output=True, text=True, check=True)
    return frozenset(re.findall(r"\w+", shown.stdout))


def free_ports(count: int) -> list[int]:
    """Free ports; all are bound at the same time, so that no two are the same."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


class Processes:
    """Processes of one job, by name; those that still run at the end of the block are killed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._started: dict[str, tuple[list[str], dict[str, str]]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for name in self._running:
            self._kill(name)

    def start(self, name: str, command: list[str], **contract: str) -> None:
        """Run the command without variables of our own environment that a job would set."""
        environment = {
            name: value for name, value in os.environ.items() if not CONTRACT.match(name)
        }
        folder = str(self._folder)
        self._started[name] = (command, contract)
        with (self._folder / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(
                command,
                env={**environment, "TMPDIR": folder, "KERAS_HOME": folder, **contract},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def kill_and_restart(self, name: str) -> None:
        """Kill a process and start it again with the same address, environment and log."""
        self._kill(name)
        command, contract = self._started[name]
        self.start(name, command, **contract)

    def _kill(self, name: str) -> None:
        process = self._running[name]
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def start_tensorflow(self, command: list[str], **replicas: int) -> None:
        """Start one process per replica, each with its TF_CONFIG."""
        names = [(role, index) for role, count in replicas.items() for index in range(count)]
        ports = dict(zip(names, free_ports(len(names)), strict=True))
        cluster = {
            role: [f"localhost:{ports[role, index]}" for index in range(count)]
            for role, count in replicas.items()
        }
        for role, index in names:
            config = {"cluster": cluster, "task": {"type": role, "index": index}}
            self.start(f"{role}-{index}", command, TF_CONFIG=json.dumps(config))

    def exit_codes(self, *names: str, timeout: float = 180.0, after_failure: float = 15.0) -> Codes:
        """The exit codes of these processes, or of all; None for one that waits for a peer."""

        def codes() -> Codes:
            return {name: self._running[name].poll() for name in names or self._running}

        def all_ended() -> bool:
            return None not in codes().values()

        until(
            lambda: all_ended() or any(codes().values()),
            timeout=timeout,
            what=f"the end of {', '.join(codes())}",
        )
        with contextlib.suppress(AssertionError):
            until(all_ended, timeout=after_failure)
        return codes()

    def log(self, name: str) -> str:
        return (self._folder / f"{name}.log").read_text()

    def losses(self, name: str) -> dict[int, float]:
        """The loss at each step that the process printed."""
        lines = re.findall(r"^step (\d+) loss ([\d.]+)$", self.log(name), re.MULTILINE)
        return {int(step): float(loss) for step, loss in lines}
