"""Where the repository lies: tests read its documents, examples and sources from here."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[1]
