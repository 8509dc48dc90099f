"""The message of a failed job -> a sentence in plain words, the pod that failed, its last lines.

The operator writes training-operator's sentence (`TFJob ns/j has failed because 1 Worker replica(s)
failed.`), which other clients read, and adds the first pod that failed. A person reads `worker 1
exited with code 2: …` instead.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from muster.jobs import pod_status
from muster.jobs.job_state import in_words

_BEGINNING = re.compile(r"\w+ \S+ has failed because ")
_FIRST = re.compile(r"(?P<cause>.*?)\.? First: pod (?P<pod>\S+) (?P<ending>.*)", re.DOTALL)
_COUNT = re.compile(r"(?P<count>\d+) (?P<role>\w+) replica\(s\) failed")
_REPLICA = re.compile(r"(?P<role>[a-z]+)-(?P<index>\d+)")


class Failure(NamedTuple):
    reason: str
    last_lines: tuple[str, ...] = ()
    pod: str = ""
    """The pod that failed first; empty if the message names none."""


def read_failure(message: str, job: str) -> Failure:
    """The parts of the message of a failed job of this name, whoever wrote it."""
    sentence, lines = pod_status.split_failure(message)
    sentence = _BEGINNING.sub("", sentence, count=1)
    first = _FIRST.fullmatch(sentence)
    if first is None:
        return Failure(sentence, lines)
    cause, pod, ending = first.groups()
    replica = _replica(pod, job)
    counted = _COUNT.fullmatch(cause)
    if counted is None:
        return Failure(f"{cause}; {replica} {ending}", lines, pod)
    if counted["count"] == "1":
        return Failure(f"{replica} {ending}", lines, pod)
    roles = f"{counted['role'].lower()}s"
    return Failure(f"{counted['count']} {roles} failed; the first, {replica}, {ending}", lines, pod)


def _replica(pod: str, job: str) -> str:
    """`worker 1`; the name of a pod whose name does not tell."""
    rest = pod.removeprefix(f"{job}-")
    if rest.startswith("launcher-"):
        return "launcher"
    replica = _REPLICA.fullmatch(rest)
    return in_words(replica["role"], int(replica["index"]), pod) if replica else f"pod {pod}"
