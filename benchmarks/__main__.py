"""`make bench`: run every benchmark, print the table, keep it in `benchmarks/results/`."""

from __future__ import annotations

import importlib
import os
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
SUITE = (
    "arena_startup",
    "arena_list",
    "dashboard",
    "watch_decode",
    "client_binds",
    "local_apiserver",
    "apiserver_load",
    "scheduler_decisions",
)
"""Benchmarks that fit in five minutes. Run the others by name: client_calls, http_client,
scheduler_backlog, scheduler_latency, operator_backlog, local_cluster."""


def _notes(file: Path) -> list[str]:
    """The paragraphs below the title, the date and the table of earlier results: they stay."""
    paragraphs = file.read_text().strip().split("\n\n") if file.exists() else []
    return ["\n\n".join(paragraphs[3:]), ""] if paragraphs[3:] else []


def main(names: list[str]) -> int:
    missed = 0
    for name in names or SUITE:
        print(f"{name} …", flush=True)
        ratios = importlib.import_module(f"benchmarks.{name}").run()
        lines = [
            f"# {name}",
            "",
            f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, Python {platform.python_version()}, "
            f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}. "
            "Medians of repeated, alternating runs.",
            "",
            "| what | ours | peer | ratio | bar | |",
            "|---|---|---|---|---|---|",
            *(ratio.row() for ratio in ratios),
            "",
        ]
        RESULTS.mkdir(exist_ok=True)
        file = RESULTS / f"{name}.md"
        file.write_text("\n".join([*lines, *_notes(file)]))
        print("\n".join(lines[4:]), flush=True)
        missed += sum(not ratio.holds for ratio in ratios)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
