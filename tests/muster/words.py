"""Words for tests of something else: a sentence is pinned only by the tests of its own module.

How a pod ended is pinned by `tests/muster/jobs/test_pod_status.py`, how often a replica failed by
`test_job_sentences.py` beside it, and how often it restarted by `test_job_state.py`. Why a gang
waits is pinned in `tests/muster/scheduler/decisions/`: missing members and budgets by
`test_reasons.py`, too little room by `test_gang_decision.py`, domains by `test_topology.py`.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from kubekit.objects.quantity import parse_amount
from muster.contract.gang import Topology
from muster.jobs import job_sentences, pod_status
from muster.jobs.job_state import Crash
from muster.jobs.job_status import Ending, ReplicaFailures
from muster.scheduler.decisions import reasons
from muster.scheduler.placement.demand import DomainShortage, Unplaced


def tells(text: str, *facts: str) -> bool:
    """Whether a sentence tells these names and numbers, as whole words, however it is worded."""
    return all(re.search(rf"(?<!\w){re.escape(fact)}(?!\w)", text, re.IGNORECASE) for fact in facts)


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


def restarted(count: int, code: int, line: str = "", container: str = "") -> str:
    """How often a container restarted, and that it exited with this code the last time."""
    ending = exited(code, container=container)
    return Crash(container, count, code, ending, line, waits=True).rest_of_sentence


def short(count: int, resource: str = "nvidia.com/gpu") -> str:
    """`short 2 nvidia.com/gpu`: what the nodes lack."""
    return reasons.lacking({resource: parse_amount(resource, str(count))})


def no_domain(topology: Topology, **missing: Any) -> str:
    """Why a gang waits that needs one domain, if there is none at all."""
    return reasons.unplaced(Unplaced((), domain=DomainShortage(topology, **missing)), 1).text
