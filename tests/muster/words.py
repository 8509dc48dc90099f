"""Words for tests of something else: a sentence is pinned only by the tests of its own module.

How a pod ended is pinned by `tests/muster/jobs/test_pod_status.py`, how often a replica failed by
`test_job_sentences.py` beside it.
"""

from __future__ import annotations

from datetime import UTC, datetime

from muster.jobs import job_sentences, pod_status
from muster.jobs.job_status import Ending, ReplicaFailures


def exited(code: int, line: str = "", container: str = "") -> str:
    """`exited with code 3: boom`, in the words of the day."""
    lines = (line,) if line else ()
    ending = Ending("", container=container, exit_code=code, last_lines=lines)
    return pod_status.with_line(ending)


def failed_of_late(
    name: str, count: int, code: int, line: str = "", *, with_gang: bool = False
) -> str:
    """How often a replica failed, and that its last pod exited with this code."""
    last = Ending("pod", exit_code=code, last_lines=(line,) if line else ())
    row = ReplicaFailures(count, datetime(2026, 1, 2, tzinfo=UTC), last)
    return job_sentences.failed_of_late(name, row, with_gang=with_gang)
