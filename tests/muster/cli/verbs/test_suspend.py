"""`arena suspend` and `arena resume`."""

from __future__ import annotations

from tests.muster.cli.place import Place, ended


def test_a_suspended_job_is_resumed(place: Place) -> None:
    place.job("a")

    assert place.arena("suspend", "a")[1] == "tfjob.kubeflow.org/a suspended\n"
    assert place.spec("a")["runPolicy"]["suspend"] is True
    assert place.arena("suspend", "a")[1] == "tfjob.kubeflow.org/a already suspended\n"
    assert place.arena("resume", "a")[1] == "tfjob.kubeflow.org/a resumed\n"
    assert place.spec("a")["runPolicy"]["suspend"] is False


def test_a_finished_job_can_be_neither_suspended_nor_scaled(place: Place) -> None:
    place.job("done", **ended("Succeeded"))

    code, _, err = place.arena("suspend", "done")
    assert code == 1
    assert "tfjob.kubeflow.org/done has succeeded already: there is nothing to stop" in err
    code, _, err = place.arena("resume", "done")
    assert code == 1
    assert "tfjob.kubeflow.org/done has succeeded already: there is nothing to resume" in err
    assert place.arena("scale", "done", "--workers", "3")[0] == 1


def test_other_jobs_are_suspended_although_one_is_missing(place: Place) -> None:
    place.job("a")
    place.job("b")

    assert place.arena("suspend", "a", "nope", "b")[0] == 3
    assert [place.spec(name)["runPolicy"]["suspend"] for name in "ab"] == [True, True]
