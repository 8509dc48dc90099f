"""Liveness and readiness: named checks and their results.

Components add checks to the one `Health` of their process; `telemetry/metrics.py` serves the
results as /healthz and /readyz. A check returns "" if all is well, else one sentence that names the
problem. It runs on the event loop at every probe, so it must not wait.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

Check: TypeAlias = Callable[[], str]


@dataclass(frozen=True)
class HealthReport:
    """The results of checks by name; "" means healthy."""

    results: dict[str, str]
    notes: dict[str, str] = field(default_factory=dict)
    """Remarks that do not affect the result."""

    @property
    def healthy(self) -> bool:
        return not any(self.results.values())

    def __str__(self) -> str:
        results = "".join(
            f"[-] {name}: {problem}\n" if problem else f"[+] {name}: ok\n"
            for name, problem in sorted(self.results.items())
        )
        notes = (f"[~] {name}: {note}\n" for name, note in sorted(self.notes.items()) if note)
        return (results or "ok\n") + "".join(notes)


@dataclass
class Health:
    """The checks of one process. A failed `live` check means restart, a failed `ready` one wait."""

    _live: dict[str, Check] = field(default_factory=dict)
    _ready: dict[str, Check] = field(default_factory=dict)
    _notes: dict[str, Check] = field(default_factory=dict)

    def live(self, name: str, check: Check) -> None:
        """Add or replace a liveness check: if it fails, the process should be restarted."""
        self._live[name] = check

    def ready(self, name: str, check: Check) -> None:
        """Add or replace a readiness check: while it fails, the process cannot serve."""
        self._ready[name] = check

    def note(self, name: str, check: Check) -> None:
        """Add or replace a remark that readiness shows but does not depend on."""
        self._notes[name] = check

    def liveness(self) -> HealthReport:
        return HealthReport({name: check() for name, check in self._live.items()})

    def readiness(self) -> HealthReport:
        """All checks, because ready implies alive."""
        checks = {**self._live, **self._ready}
        notes = {name: note() for name, note in self._notes.items()}
        return HealthReport({name: check() for name, check in checks.items()}, notes)
