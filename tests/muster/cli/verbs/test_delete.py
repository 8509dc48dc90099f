"""`arena delete`: every name is tried, and the exit code tells whether all were there."""

from __future__ import annotations

import pytest

from kubekit.objects.kinds import CONFIG_MAPS, PODS
from kubekit.objects.meta import Key
from kubekit.request_errors import NotFound
from tests.muster.cli.place import TEMPLATE, Place


def test_every_name_is_tried_and_a_missing_one_shows_in_the_exit_code(place: Place) -> None:
    place.job("a")
    place.job("b")

    code, _, err = place.arena("delete", "a", "nope", "b")

    assert code == 3
    assert place.names() == []
    assert "The training job a has been deleted successfully" in err
    assert "The training job b has been deleted successfully" in err
    missing = f"error: the training job nope does not exist in namespace {place.namespace}"
    assert [line for line in err.splitlines() if "nope" in line] == [missing]


def test_deleting_an_existing_job_succeeds(place: Place) -> None:
    place.job("a")

    assert place.arena("delete", "tfjob/a")[0] == 0
    assert place.names() == []


def test_a_record_without_its_job_is_deleted_too(place: Place) -> None:
    record = {"metadata": {"name": "half-tfjob", "labels": {"createdBy": "arena"}}}
    place.client.create(CONFIG_MAPS, record, namespace=place.namespace)
    foreign = {"metadata": {"name": "mine-tfjob"}}
    place.client.create(CONFIG_MAPS, foreign, namespace=place.namespace)

    assert place.arena("delete", "half")[0] == 0
    assert place.arena("delete", "mine")[0] == 3
    with pytest.raises(NotFound):
        place.client.get(CONFIG_MAPS, Key(place.namespace, "half-tfjob"))
    place.client.get(CONFIG_MAPS, Key(place.namespace, "mine-tfjob"))


def test_one_pod_can_be_deleted_and_is_never_taken_for_a_job(place: Place) -> None:
    body = {"metadata": {"name": "p"}, **TEMPLATE}
    place.client.create(PODS.read_as(dict), body, namespace=place.namespace)

    assert place.arena("delete", "p")[0] == 3
    assert place.arena("delete", "pod/p")[0] == 0


def test_a_missing_pod_is_reported_as_a_pod(place: Place) -> None:
    code, _, err = place.arena("delete", "pod/p")

    assert code == 3
    assert "the pod p does not exist in namespace" in err


def test_a_name_that_is_written_twice_counts_once(place: Place) -> None:
    place.job("a")

    assert place.arena("delete", "a", "a")[0] == 0
