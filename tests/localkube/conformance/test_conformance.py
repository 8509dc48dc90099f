"""This API server and the real one give the same answers to the same requests."""

from __future__ import annotations

import secrets
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.localkube.conformance import recording
from tests.localkube.conformance.cases import ALL, GROUPS
from tests.localkube.conformance.normalization import normalized
from tests.localkube.conformance.recording import assert_alike, assert_as_recorded
from tests.localkube.conformance.transcript import Case, play
from tests.side_by_side import side_by_side

if TYPE_CHECKING:
    from tests.localkube.conformance.conftest import Running
    from tests.localkube.conformance.recording import Recorder

every_case = pytest.mark.parametrize(
    ("group", "case"),
    [pytest.param(group, case, id=case.name) for group, cases in GROUPS.items() for case in cases],
)


def new_namespace() -> str:
    return f"case-{secrets.token_hex(4)}"


def answers(case: Case, name: str, server: Running) -> list[Any]:
    """What a server answers, in a namespace of this name, without what is accidental."""
    return recording.plain(normalized(play(server, case, name), case, name))


@pytest.fixture(scope="module")
def waiting(ours: Running, installed_here: None) -> dict[str, Future[list[Any]]]:
    """The answers to cases that mostly wait for the end of a watch: they are played together."""
    cases = [case for case in ALL if any("watch=" in step.path for step in case.steps)]
    with ThreadPoolExecutor(len(cases)) as pool:
        return {case.name: pool.submit(answers, case, new_namespace(), ours) for case in cases}


@every_case
def test_our_server_gives_the_recorded_answers(
    group: str, case: Case, ours: Running, waiting: dict[str, Future[list[Any]]]
) -> None:
    actual = (
        waiting[case.name].result()
        if case.name in waiting
        else answers(case, new_namespace(), ours)
    )

    assert_as_recorded(group, case.name, case.steps, actual)


@pytest.mark.kube
@every_case
def test_both_servers_give_the_same_answers(
    group: str, case: Case, ours: Running, real: Running, installed: None, recorder: Recorder
) -> None:
    expected, actual = side_by_side(partial(answers, case, new_namespace()), real, ours)

    assert_alike(case.steps, expected, actual)
    recorder.check(group, case.name, case.steps, expected)


@pytest.mark.parametrize("group", GROUPS)
def test_nothing_is_recorded_that_is_not_asked(group: str) -> None:
    assert set(recording.read(group)) == {case.name for case in GROUPS[group]}
