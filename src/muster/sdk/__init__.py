"""The Python API, which `import muster` exports: jobs, clusters and errors as objects.

The functions are those of the commands: both build the same manifests and talk to the same
clusters, through `muster.client`.

Sentences that calls have for the user are log records of the logger `muster`. Warnings appear on
stderr unless the program configures logging; notes only if it asks for them.
"""

from __future__ import annotations

import logging

log = logging.getLogger("muster")


def warn(sentence: str) -> None:
    log.warning(sentence.removeprefix("warning: "))


def note(sentence: str) -> None:
    log.info(sentence)
