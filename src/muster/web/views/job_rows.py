"""The list of jobs: filtered, sorted and cut into pages.

A reader with thousands of jobs gets one page of rows; text, namespace, kind and state narrow it.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec

from kubekit.objects.annotation_values import read_integer
from muster.jobs.job_state import STATES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from muster.jobs.view.summary import JobSummary

PAGE_SIZE = 100
COLUMNS = {
    "name": "Name",
    "namespace": "Namespace",
    "kind": "Kind",
    "state": "State",
    "replicas": "Replicas",
    "gpus": "GPUs",
    "age": "Age",
    "duration": "Duration",
}
DEFAULT_SORT = "age"


class JobQuery(msgspec.Struct, frozen=True):
    """The choice of a reader: the variables of the address."""

    text: str = ""
    namespace: str = ""
    kind: str = ""
    state: str = ""
    sort: str = DEFAULT_SORT
    """A column; with `-` before it, in the opposite order."""
    page: int = 1

    @classmethod
    def read(cls, variables: Mapping[str, str]) -> JobQuery:
        """From an address; values that make no sense count as not given."""
        sort, page = variables.get("sort", ""), variables.get("page", "")
        return cls(
            text=variables.get("text", "").strip()[:200],
            namespace=variables.get("namespace", ""),
            kind=variables.get("kind", ""),
            state=variables.get("state", ""),
            sort=sort if sort.removeprefix("-") in COLUMNS else DEFAULT_SORT,
            page=read_integer(page) or 1,
        )

    def variables(self, **changed: object) -> dict[str, object]:
        """For an address that differs in `changed`; a new choice begins on its first page."""
        values = {**msgspec.structs.asdict(self), "page": 0, **changed}
        return {**values, "sort": "" if values["sort"] == DEFAULT_SORT else values["sort"]}


class JobRow(msgspec.Struct, frozen=True):
    """One line of the table."""

    job: JobSummary
    replicas: str
    gpus: str
    age: float
    duration: float
    running_since: datetime | None
    """The start of a duration that still grows."""


class Column(msgspec.Struct, frozen=True):
    title: str
    sort: str
    """The order that a click on it gives."""
    direction: str
    """`ascending`, `descending`, or `none` if the table is not sorted by it."""


class JobsView(msgspec.Struct, frozen=True):
    query: JobQuery
    rows: tuple[JobRow, ...]
    columns: tuple[Column, ...]
    total: int
    """Jobs in the cluster."""
    matching: int
    """Jobs that the filter lets through."""
    pages: int
    namespaces: tuple[str, ...]
    kinds: tuple[str, ...]
    states: tuple[tuple[str, int], ...]
    """Every state with the number of jobs, of those that match the rest of the filter."""


def jobs_view(jobs: Sequence[JobSummary], query: JobQuery, now: datetime) -> JobsView:
    """One page of the list."""
    others = [job for job in jobs if _matches(job, query)]
    matching = [job for job in others if query.state in ("", job.status)]
    _sort(matching, query.sort, now)
    pages = max(1, -(-len(matching) // PAGE_SIZE))
    page = min(query.page, pages)
    counts = Counter(job.status for job in others)
    return JobsView(
        query=msgspec.structs.replace(query, page=page),
        rows=tuple(_row(job, now) for job in matching[(page - 1) * PAGE_SIZE : page * PAGE_SIZE]),
        columns=tuple(_column(name, title, query.sort) for name, title in COLUMNS.items()),
        total=len(jobs),
        matching=len(matching),
        pages=pages,
        namespaces=_choices((job.namespace for job in jobs), query.namespace),
        kinds=_choices((job.kind for job in jobs), query.kind),
        states=tuple((state, counts[state]) for state in STATES if counts[state]),
    )


def _matches(job: JobSummary, query: JobQuery) -> bool:
    """Whether everything but the state matches; the text is looked for in name and reason."""
    if query.namespace not in ("", job.namespace) or query.kind not in ("", job.kind):
        return False
    text = query.text.lower()
    return not text or text in job.name.lower() or text in job.reason.lower()


def _choices(values: Iterable[str], chosen: str) -> tuple[str, ...]:
    return tuple(sorted({*values, *([chosen] if chosen else ())}))


def _row(job: JobSummary, now: datetime) -> JobRow:
    gpus = f"{job.allocated_gpus} of {job.requested_gpus}" if not job.over else job.requested_gpus
    return JobRow(
        job=job,
        replicas=job.counts or str(job.replicas or ""),
        gpus=str(gpus) if job.requested_gpus else "",
        age=job.age(now).total_seconds(),
        duration=job.duration(now).total_seconds(),
        running_since=job.running_since(now),
    )


def _column(name: str, title: str, sort: str) -> Column:
    if sort == name:
        return Column(title, f"-{name}", "ascending")
    return Column(title, name, "descending" if sort == f"-{name}" else "none")


def _sort(jobs: list[JobSummary], sort: str, now: datetime) -> None:
    """Sort in place; equal jobs are sorted by name. Smallest age first: the newest job."""
    column = sort.removeprefix("-")
    keys: dict[str, Callable[[JobSummary], Any]] = {
        "name": lambda job: job.name,
        "namespace": lambda job: job.namespace,
        "kind": lambda job: job.kind,
        "state": lambda job: STATES.index(job.status),
        "replicas": lambda job: job.replicas,
        "gpus": lambda job: job.requested_gpus,
        "age": lambda job: job.age(now),
        "duration": lambda job: job.duration(now),
    }
    jobs.sort(key=lambda job: job.key)
    jobs.sort(key=keys[column], reverse=sort.startswith("-"))
