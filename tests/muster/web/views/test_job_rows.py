"""The list of jobs: filter, sort and pages, as a reader chooses them in the address."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from muster.jobs.view.summary import JobSummary, summarize
from muster.web.views.job_rows import PAGE_SIZE, JobQuery, jobs_view
from tests.muster.web.objects import job

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def summary(name: str, *, age: int = 0, **options: object) -> JobSummary:
    created = NOW - timedelta(seconds=age)
    return summarize(job(name, created=created, **options), [])  # type: ignore[arg-type]


JOBS = [
    summary("resnet", age=30, kind="TFJob", workers=4, gpus=2),
    summary("bert", age=10, kind="PyTorchJob", namespace="team", state="Failed", message="no disk"),
    summary("gpt", age=20, kind="TFJob", namespace="team", state="Running"),
]


def names(**variables: str) -> list[str]:
    return [row.job.name for row in jobs_view(JOBS, JobQuery.read(variables), NOW).rows]


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, ["bert", "gpt", "resnet"]),
        ({"text": " NET "}, ["resnet"]),
        ({"text": "disk"}, ["bert"]),
        ({"namespace": "team"}, ["bert", "gpt"]),
        ({"kind": "TFJob", "namespace": "team"}, ["gpt"]),
        ({"state": "FAILED"}, ["bert"]),
        ({"text": "nothing"}, []),
        ({"sort": "-age"}, ["resnet", "gpt", "bert"]),
        ({"sort": "name"}, ["bert", "gpt", "resnet"]),
        ({"sort": "-name"}, ["resnet", "gpt", "bert"]),
        ({"sort": "-gpus"}, ["resnet", "bert", "gpt"]),
        ({"sort": "nonsense", "page": "x"}, ["bert", "gpt", "resnet"]),
    ],
)
def test_jobs_are_filtered_and_sorted(variables: dict[str, str], expected: list[str]) -> None:
    assert names(**variables) == expected


def test_states_are_counted_without_the_filter_of_states() -> None:
    view = jobs_view(JOBS, JobQuery(namespace="team", state="FAILED"), NOW)

    assert view.states == (("RUNNING", 1), ("FAILED", 1))
    assert (view.matching, view.total) == (1, 3)


def test_a_namespace_without_jobs_stays_chosen() -> None:
    assert "empty" in jobs_view(JOBS, JobQuery(namespace="empty"), NOW).namespaces


def test_many_jobs_are_cut_into_pages() -> None:
    jobs = [summary(f"job-{number:04}", age=number) for number in range(2 * PAGE_SIZE + 1)]
    last = jobs_view(jobs, JobQuery(page=3), NOW)

    assert [row.job.name for row in last.rows] == ["job-0200"]
    assert last.pages == 3
    assert jobs_view(jobs, JobQuery(page=99), NOW).rows == last.rows


def test_an_address_names_only_choices() -> None:
    query = JobQuery.read({"text": "a", "sort": "-name", "page": "2"})

    kept = {name: value for name, value in query.variables(state="FAILED").items() if value}
    assert kept == {"text": "a", "sort": "-name", "state": "FAILED"}


def test_a_duration_grows_while_a_job_runs_and_a_job_that_only_waits_has_none() -> None:
    jobs = [summary(name, age=5, state=name) for name in ("Created", "Running", "Succeeded")]
    rows = {row.job.name: row for row in jobs_view(jobs, JobQuery(), NOW).rows}

    assert {name: not row.job.only_waited for name, row in rows.items()} == {
        "Created": False,
        "Running": True,
        "Succeeded": True,
    }
