"""The runtime that this machine allows, found by trying when the agent is created.

The choice is saved in the data directory as long as pods may be left: only the runtime that started
the pods of a killed daemon can stop them.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Literal, get_args

from kubekit.errors import UsageError
from localkube.node.runtime.processes import start_program
from localkube.node.standalone.linux import files

Kind = Literal["root", "rootless", "plain"]
_FILE = "runtime"


@dataclass(frozen=True)
class RuntimeChoice:
    """`reason` says why no better runtime is used."""

    kind: Kind
    reason: str = ""

    @property
    def name(self) -> str:
        """The runtime as `arena status` shows it."""
        names = {"root": "namespaces", "rootless": "namespaces without root", "plain": "plain"}
        return names[self.kind]

    @property
    def note(self) -> str:
        """A warning about the limits of this runtime; empty if there are none."""
        if self.kind != "plain":
            return ""
        reason = f" ({self.reason})" if self.reason else ""
        return (
            f"pods run without namespaces{reason}: they share this machine's network and files, "
            "so every replica gets its own port, and volumes are below $MUSTER_ROOT"
        )


def choose_runtime(setting: str) -> RuntimeChoice:
    """The runtime for a setting of `auto`, `namespaces` or `plain`."""
    if setting == "plain":
        return RuntimeChoice("plain")
    reason = ""
    for kind, method in _methods():
        reason = _try(method)
        if not reason:
            return RuntimeChoice(kind)
    if setting == "namespaces":
        raise UsageError(
            f"this machine does not allow namespaces: {reason}",
            hint="`--runtime plain` runs pods without them.",
        )
    return RuntimeChoice("plain", f"not allowed here: {reason}")


def save_choice(data_dir: Path, choice: RuntimeChoice) -> None:
    saved = saved_choice(data_dir)
    if saved is None or saved.kind != choice.kind:  # on a full disk nothing can be written
        files.write_atomically(data_dir / _FILE, f"{choice.kind}\n")


def saved_choice(data_dir: Path) -> RuntimeChoice | None:
    """The runtime of pods that may be left; None if there are none."""
    try:
        kind = (data_dir / _FILE).read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return None
    return next((RuntimeChoice(known) for known in get_args(Kind) if known == kind), None)


def forget_choice(data_dir: Path) -> None:
    """No pods are left."""
    (data_dir / _FILE).unlink(missing_ok=True)


def _methods() -> list[tuple[Kind, str]]:
    # Root in a container may lack the rights of root, but still be allowed user namespaces.
    rootless: list[tuple[Kind, str]] = [("rootless", "user")]
    return [("root", "direct"), *rootless] if os.geteuid() == 0 else rootless


def _try(method: str) -> str:
    """Why namespaces cannot be made by this method; empty if they can."""
    with NamedTemporaryFile(prefix="muster-trial-") as errors:
        pid = start_program("try_namespaces", [method], {}, Path(errors.name))
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        lines = errors.read().decode(errors="replace").strip().splitlines()
    return "" if code == 0 else (lines[-1] if lines else f"the trial exited with {code}")
