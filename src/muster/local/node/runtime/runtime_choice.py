"""Which runtime this machine allows: found by trying, once, when the agent is made.

Which one it was is kept in the data directory as long as anything of it may be on the machine: what
a killed daemon left can only be ended in the way in which it was run.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Literal, get_args

from muster.errors import UsageError
from muster.local.node.runtime.pod_records import write_atomically
from muster.local.node.runtime.shims import start_program

Kind = Literal["root", "rootless", "plain"]
_KEPT = "runtime"


@dataclass(frozen=True)
class RuntimeChoice:
    """How pods are run, and why not better."""

    kind: Kind
    why: str = ""

    @property
    def name(self) -> str:
        """For people."""
        names = {"root": "namespaces", "rootless": "namespaces without root", "plain": "plain"}
        return names[self.kind]

    @property
    def sentence(self) -> str:
        """What to tell the user; nothing if all is as it should be."""
        if self.kind != "plain":
            return ""
        because = f" ({self.why})" if self.why else ""
        return (
            f"pods run without namespaces{because}: they share this machine's network and files, "
            "so every replica gets a port of its own, and volumes are below $MUSTER_ROOT"
        )


def choose_runtime(wanted: str) -> RuntimeChoice:
    """The runtime asked for: `auto`, `namespaces` or `plain`."""
    if wanted == "plain":
        return RuntimeChoice("plain")
    why = ""
    for kind, how in _ways():
        why = _trial(how)
        if not why:
            return RuntimeChoice(kind)
    if wanted == "namespaces":
        raise UsageError(
            f"this machine does not allow namespaces: {why}",
            hint="`--runtime plain` runs pods without them.",
        )
    return RuntimeChoice("plain", f"not allowed here: {why}")


def save_choice(data_dir: Path, choice: RuntimeChoice) -> None:
    """Remember how pods are run from now on."""
    write_atomically(data_dir / _KEPT, f"{choice.kind}\n")


def saved_choice(data_dir: Path) -> RuntimeChoice | None:
    """How the pods were run of which there may be something left; None if nothing is."""
    try:
        kind = (data_dir / _KEPT).read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return None
    return next((RuntimeChoice(known) for known in get_args(Kind) if known == kind), None)


def forget_choice(data_dir: Path) -> None:
    """Nothing is left."""
    (data_dir / _KEPT).unlink(missing_ok=True)


def _ways() -> list[tuple[Kind, str]]:
    rootless: list[tuple[Kind, str]] = [("rootless", "user")]
    return [("root", "direct"), *rootless] if os.geteuid() == 0 else rootless


def _trial(how: str) -> str:
    """Why it is not allowed; nothing if it is."""
    with NamedTemporaryFile(prefix="muster-trial-") as said:
        pid = start_program("try_namespaces", [how], {}, Path(said.name))
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        lines = said.read().decode(errors="replace").strip().splitlines()
    return "" if code == 0 else (lines[-1] if lines else f"the trial ended with {code}")
