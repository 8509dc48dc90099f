"""The lines below the table of `list`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from muster.cli.show.job_table import reason_notes, row
from muster.jobs.view.summary import summarize
from tests.muster.jobs.test_summary import job, pod

END = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)


def test_a_job_that_failed_within_the_hour_says_why() -> None:
    failed = replace(summarize(job("Failed"), []), finished=END, reason="worker 1 exited: boom")

    assert reason_notes([failed], END + timedelta(minutes=59)) == [
        f"{failed.name}: {failed.reason}"
    ]
    assert reason_notes([failed], END + timedelta(minutes=61)) == []
    assert len(reason_notes([failed] * 9, END)) == 6


def test_waiting_jobs_say_why_in_a_few_words() -> None:
    waiting = replace(summarize(job(), []), status="PENDING", reason="no node " + "is free " * 40)

    (note,) = reason_notes([waiting], END)

    assert note.startswith(f"{waiting.name} waits: no node is free is free")
    assert note.endswith("free …")
    assert len(note) < 140
    assert reason_notes([waiting] * 5, END)[3:] == ["2 more jobs are waiting"]


def test_a_finished_job_whose_chief_is_gone_shows_the_node_of_the_pod_that_is_left() -> None:
    left = [pod(index=1, phase="Failed", hostIP="10.0.0.2")]

    assert row(summarize(job("Failed"), left), timedelta())[-1] == "10.0.0.2"
    assert row(summarize(job("Running"), left), timedelta())[-1] == "N/A"
