"""Words for tests of something else: a sentence is pinned only by the tests of its own module.

How a pod ended is pinned by `tests/muster/jobs/test_pod_status.py`.
"""

from __future__ import annotations

from muster.jobs import pod_status
from muster.jobs.job_status import Ending


def exited(code: int, line: str = "", container: str = "") -> str:
    """`exited with code 3: boom`, in the words of the day."""
    lines = (line,) if line else ()
    ending = Ending("", container=container, exit_code=code, last_lines=lines)
    return pod_status.with_line(ending)
