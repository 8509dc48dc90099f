"""The table of rules: one row per kind of job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.operator.kinds.tensorflow import TensorFlow

if TYPE_CHECKING:
    from muster.jobs.job import Job
    from muster.operator.kinds.rules import Rules

RULES: dict[str, Rules] = {
    "TFJob": TensorFlow(),
}


def of(job: Job) -> Rules:
    """The rules of this job's kind."""
    return RULES[job.kind]
