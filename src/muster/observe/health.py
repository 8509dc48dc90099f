"""Is this daemon alive, and is it ready? Named checks, and the verdict over them.

Components add checks to the one `Health` of their process; `observe/metrics.py` serves the verdicts
as /healthz and /readyz. A check answers "" when all is well, else one sentence saying what is not.
It is called on the event loop at every probe, so it looks at memory only and never waits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

Check: TypeAlias = Callable[[], str]


@dataclass(frozen=True)
class HealthReport:
    """The answers of some checks, by name; "" is well."""

    answers: dict[str, str]
    notes: dict[str, str] = field(default_factory=dict)
    """What is worth saying and changes nothing."""

    @property
    def healthy(self) -> bool:
        return not any(self.answers.values())

    def __str__(self) -> str:
        answers = "".join(
            f"[-] {name}: {trouble}\n" if trouble else f"[+] {name}: ok\n"
            for name, trouble in sorted(self.answers.items())
        )
        said = (f"[~] {name}: {note}\n" for name, note in sorted(self.notes.items()) if note)
        return (answers or "ok\n") + "".join(said)


@dataclass
class Health:
    """The checks of one process. A failed `live` check asks for a restart, `ready` for patience."""

    _live: dict[str, Check] = field(default_factory=dict)
    _ready: dict[str, Check] = field(default_factory=dict)
    _notes: dict[str, Check] = field(default_factory=dict)

    def live(self, name: str, check: Check) -> None:
        """Add a check (or replace that name's) without which the process is of no use any more."""
        self._live[name] = check

    def ready(self, name: str, check: Check) -> None:
        """Add a check (or replace that name's) without which the process cannot serve yet."""
        self._ready[name] = check

    def note(self, name: str, check: Check) -> None:
        """Add something (or replace that name's) that readiness tells and does not hang on."""
        self._notes[name] = check

    def liveness(self) -> HealthReport:
        return HealthReport({name: check() for name, check in self._live.items()})

    def readiness(self) -> HealthReport:
        """Ready means alive and more."""
        checks = {**self._live, **self._ready}
        notes = {name: note() for name, note in self._notes.items()}
        return HealthReport({name: check() for name, check in checks.items()}, notes)
