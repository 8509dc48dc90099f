"""A question that is not answered with yes: the command says that nothing was changed."""

from __future__ import annotations

import pytest

from muster.cli.show.messages import NOTHING_CHANGED
from tests.muster.cli.fake_cluster import Scene, condition, job
from tests.muster.cli.show.terminal import Terminal


def interrupted(prompt: str) -> str:
    raise KeyboardInterrupt


@pytest.fixture
def old_job(scene: Scene) -> Scene:
    """A cluster that is not local, with a job that `arena prune` would delete after a question."""
    done = condition(job("TFJob", "a", {"Worker": 1}, age=9000), "Succeeded", age=8000)
    done["status"]["completionTime"] = done["status"]["conditions"][0]["lastTransitionTime"]
    scene.objects, scene.local = {"tfjobs": [done], "pods": []}, False
    return scene


@pytest.mark.parametrize("typed", ["n\n", "\n", ""], ids=["no", "nothing", "end of file"])
def test_a_no_ends_the_command_with_1(old_job: Scene, typed: str) -> None:
    old_job.patch.setattr("sys.stdin", Terminal(typed))

    code, out, err = old_job.arena("prune", "--since", "1h")

    assert (code, out, old_job.sent) == (1, "", [])
    assert err.endswith(f"{NOTHING_CHANGED}\n")


def test_ctrl_c_at_the_question_says_the_same_and_ends_with_130(old_job: Scene) -> None:
    old_job.patch.setattr("sys.stdin", Terminal())
    old_job.patch.setattr("click.termui.visible_prompt_func", interrupted)

    code, _, err = old_job.arena("prune", "--since", "1h")

    assert (code, old_job.sent) == (130, [])
    assert err.splitlines()[-1] == NOTHING_CHANGED


def test_a_yes_goes_on(old_job: Scene) -> None:
    old_job.patch.setattr("sys.stdin", Terminal("y\n"))

    code, out, _ = old_job.arena("prune", "--since", "1h")

    assert (code, out.split()[:3]) == (0, ["Delete", "tfjob", "a"])
    assert [ask.method for ask in old_job.sent] == ["DELETE"]
