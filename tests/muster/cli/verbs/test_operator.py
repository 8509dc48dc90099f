"""`muster operator`: its flags become the settings that decisions depend on."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from kubekit.errors import UsageError
from muster.cli import component_runner
from muster.cli.verbs import operator
from muster.contract import gang_dialects
from muster.operator import daemon as operator_daemon

if TYPE_CHECKING:
    from muster.client.target import Target
    from muster.operator.daemon import Options
    from muster.operator.decision_types import Settings


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """The settings of every operator that was started."""
    started: list[Settings] = []

    async def note(client: object, options: Options, stop: object) -> None:
        started.append(options.settings)

    def at_once(target: Target, options: component_runner.DaemonOptions, work: object) -> None:
        context = component_runner.DaemonContext(None, None, None, None)  # type: ignore[arg-type]
        asyncio.run(work(context))  # type: ignore[operator]

    monkeypatch.setattr(operator_daemon, "run", note)
    monkeypatch.setattr(component_runner, "run", at_once)
    return started


def test_every_flag_reaches_the_settings(started: list[Settings]) -> None:
    flags = [
        "--no-enable-gang-scheduling",
        "--gang-dialect=pdb",
        "--gang-scheduler-name=volcano",
        "--pod-scheduler-name=muster",
        "--default-restart=gang",
        "--cluster-domain=.k8s.example",
        "--mpi-kubectl-delivery-image=kubectl:1",
        "--pytorch-init-container-image=alpine:3",
    ]
    answer = CliRunner().invoke(operator.command, flags, catch_exceptions=False)

    assert answer.exit_code == 0, answer.output
    (settings,) = started
    assert (settings.gang, settings.dialect, settings.scheduler) == (False, "pdb", "volcano")
    assert settings.pod_scheduler == "muster"
    assert settings.restart == "gang"
    assert (settings.domain, settings.delivery_image, settings.init_image) == (
        "k8s.example",
        "kubectl:1",
        "alpine:3",
    )


def test_the_domain_may_come_from_the_environment(started: list[Settings]) -> None:
    CliRunner().invoke(operator.command, env={"CUSTOM_CLUSTER_DOMAIN": "cluster.local"})

    assert [settings.domain for settings in started] == ["cluster.local"]


@pytest.mark.parametrize("dialect", gang_dialects.DIALECT_CHOICES)
def test_every_dialect_is_accepted(dialect: str, started: list[Settings]) -> None:
    CliRunner().invoke(operator.command, [f"--gang-dialect={dialect}"])

    assert [settings.dialect for settings in started] == [dialect]


def test_an_unknown_dialect_is_rejected_with_the_nearest(started: list[Settings]) -> None:
    answer = CliRunner().invoke(operator.command, ["--gang-dialect=volcan"])

    assert answer.exit_code == 2
    assert "did you mean volcano?" in answer.output
    assert not started


def test_the_terms_of_the_lease_are_durations(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[component_runner.DaemonOptions] = []
    monkeypatch.setattr(component_runner, "run", lambda _, options, __: seen.append(options))
    flags = ["--leader-elect-lease-duration=1m", "--leader-elect-renew-deadline=40s"]
    answer = CliRunner().invoke(operator.command, flags, catch_exceptions=False)

    assert answer.exit_code == 0, answer.output
    (options,) = seen
    terms = (options.lease_duration, options.renew_deadline, options.retry_period)
    assert terms == (60, 40, 2)
    with pytest.raises(UsageError, match="--leader-elect-retry-period"):
        CliRunner().invoke(
            operator.command, ["--leader-elect-retry-period=soon"], catch_exceptions=False
        )
