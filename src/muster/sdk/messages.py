"""Sentences that calls have for the user, as log records of the logger `muster`.

Warnings appear on stderr unless the program configures logging; notes only if it asks for them.
"""

from __future__ import annotations

import logging

log = logging.getLogger("muster")


def warn(sentence: str) -> None:
    log.warning(sentence.removeprefix("warning: "))


def note(sentence: str) -> None:
    log.info(sentence)
