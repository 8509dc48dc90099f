"""`arena prune` deletes jobs that ended long enough ago."""

from __future__ import annotations

from tests.muster.cli.place import Place, ended


def test_only_jobs_that_ended_long_enough_ago_are_pruned(place: Place) -> None:
    place.job("old", **ended("Succeeded"))
    place.job("bad", **ended("Failed"))
    place.job("waits")
    place.job("fresh", **ended("Succeeded", "2999-01-01T00:00:00Z"))

    listed = place.arena("prune", "--since", "1h", "--dry-run")[1]
    assert sorted(line.split()[3] for line in listed.splitlines()) == ["bad", "old"]
    assert len(place.names()) == 4

    assert place.arena("prune", "--since", "1h", "--yes")[0] == 0
    assert place.names() == ["fresh", "waits"]
    assert place.arena("prune", "--since", "1h", "--yes")[1] == "No jobs to delete\n"


def test_a_cluster_that_is_not_local_is_not_pruned_without_confirmation(place: Place) -> None:
    place.job("old", **ended("Succeeded"))

    code, _, err = place.arena("prune", "--since", "1h")

    assert code == 2
    assert "--yes skips the question" in err
    assert place.names() == ["old"]


def test_prune_needs_a_valid_duration(place: Place) -> None:
    assert place.arena("prune")[0] == 2
    assert place.arena("prune", "--since", "yesterday")[0] == 2
