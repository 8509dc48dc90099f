"""Lines on stderr."""

from __future__ import annotations

import pytest

from muster.cli.show import messages
from tests.muster.cli.place import Place


def test_note_once_is_not_repeated_in_the_same_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    messages.set_loglevel("info")
    messages.note_once("left out")
    messages.note_once("left out")
    messages.set_loglevel("info")
    messages.note_once("left out")

    assert capsys.readouterr().err == "left out\n" * 2


def test_debugging_shows_every_request(place: Place) -> None:
    _, _, err = place.arena("--loglevel", "debug", "list")

    assert f"DEBU GET /apis/kubeflow.org/v1/namespaces/{place.namespace}/tfjobs" in err


def test_debugging_may_be_chosen_before_the_kind_of_a_new_job(place: Place) -> None:
    job = ("tf", "--name=a", "--image=i", "x")

    assert "DEBU POST " in place.arena("submit", "--loglevel", "debug", *job)[2]
    assert place.arena("submit", "--loglevel=error", "tf", "--name=b", *job[2:])[2] == ""


def test_higher_levels_leave_out_information(place: Place) -> None:
    place.job("a")

    assert place.arena("--loglevel=error", "delete", "a")[2] == ""
    assert place.arena("delete", "a", "--loglevel=loud")[0] == 2
