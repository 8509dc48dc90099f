"""One command for several names, some of which fail."""

from __future__ import annotations

import pytest

from kubekit.errors import MusterError, UsageError
from kubekit.request_errors import NotFound, Unreachable
from muster.cli.each_name import Failures


def test_an_error_is_collected_and_the_command_continues() -> None:
    failures, done = Failures(), []
    for number in range(3):
        with failures.collecting():
            if number == 1:
                raise NotFound("gone", status=404)
            done.append(number)

    assert done == [0, 2]
    with pytest.raises(NotFound, match="gone"):
        failures.raise_if_any(3, "jobs")


def test_an_unreachable_cluster_ends_the_command_at_once() -> None:
    with pytest.raises(Unreachable), Failures().collecting():
        raise Unreachable("nobody answers")


def test_errors_with_different_exit_codes_are_all_printed_and_counted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    failures = Failures()
    failures.errors = [NotFound("gone", status=404), UsageError("wrong", hint="Write it so.")]

    with pytest.raises(MusterError, match="2 of 5 objects failed") as ended:
        failures.raise_if_any(5, "objects")

    assert ended.value.cli_exit_code == 1
    assert capsys.readouterr().err.splitlines() == ["error: gone", "error: wrong", "Write it so."]


def test_without_errors_nothing_is_raised() -> None:
    Failures().raise_if_any(3, "jobs")
