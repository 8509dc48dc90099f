"""The archive of logs stays within its bound, and removes the right logs for that."""

from __future__ import annotations

from hypothesis import given, strategies as st

from localkube.node.log_archive_cleaner import OVERHEAD, Entry, over_replica_bound, over_total_bound

JOBS = "abcd"
entries = st.lists(
    st.builds(
        Entry,
        job=st.sampled_from(JOBS),
        replica=st.sampled_from(["w-0", "w-1"]),
        name=st.uuids().map(str),
        at=st.integers(0, 20).map(float),
        size=st.integers(0, 1000),
    ),
    max_size=30,
    unique_by=lambda entry: entry.name,
)
ends = st.dictionaries(st.sampled_from(JOBS), st.integers(0, 3).map(float))
limits = st.integers(0, 40 * (OVERHEAD + 500))


def charge(rows: list[Entry]) -> int:
    return sum(row.charge for row in rows)


@given(entries, limits)
def test_each_replica_keeps_its_newest_attempts_within_its_bound(
    rows: list[Entry], limit: int
) -> None:
    removed = over_replica_bound(rows, limit)

    for key in {(row.job, row.replica) for row in rows}:
        own = [row for row in rows if (row.job, row.replica) == key]
        left = [row for row in own if row not in removed]
        gone = [row for row in own if row in removed]
        assert left
        assert charge(left) <= limit or len(left) == 1
        assert max((row.at for row in gone), default=-1.0) <= min(row.at for row in left)


@given(entries, ends, limits)
def test_all_logs_together_stay_within_the_bound(
    rows: list[Entry], ended: dict[str, float], limit: int
) -> None:
    removed = over_total_bound(rows, ended, limit)

    left = [row for row in rows if row not in removed]
    running = {row.job for row in rows if row.job not in ended}
    # No running job loses all its logs.
    assert running <= {row.job for row in left}
    assert charge(left) <= limit or len(left) == len(running)
    # Nothing is removed in vain: without the last removal the logs were too large.
    assert not removed or charge(left) + removed[-1].charge > limit


@given(entries, ends, limits)
def test_logs_of_the_job_that_ended_first_are_removed_first(
    rows: list[Entry], ended: dict[str, float], limit: int
) -> None:
    removed = over_total_bound(rows, ended, limit)

    left = [row for row in rows if row not in removed]
    if any(row.job not in ended for row in removed):
        assert not any(row.job in ended for row in left)
    last_end = max((ended[row.job] for row in removed if row.job in ended), default=-1.0)
    assert all(ended[row.job] >= last_end for row in left if row.job in ended)


def test_an_empty_log_is_charged_for_its_files() -> None:
    rows = [Entry("a", "w-0", str(number), float(number), 0) for number in range(3)]

    assert over_total_bound(rows, {"a": 0.0}, 2 * OVERHEAD) == rows[:1]
