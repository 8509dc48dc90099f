"""A wrong command line ends in a sentence and an exit code, and changes nothing."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubekit.client.auth import kube_config
from kubekit.client.blocking_client import BlockingClient
from kubekit.objects.kinds import CONFIG_MAPS, NAMESPACES
from muster.cli import main
from tests.local_server import LocalServer
from tests.muster.cli.wrong_usage import Line, lines

LINES = lines(400, seed=9)


@pytest.fixture(scope="module")
def client(job_server: LocalServer) -> Iterator[BlockingClient]:
    with BlockingClient(kube_config.load(job_server.kubeconfig)) as client:
        yield client


def test_many_wrong_command_lines_of_every_sort_are_tried() -> None:
    assert len(LINES) >= 200
    assert len({line.fault for line in LINES}) >= 9


def test_a_change_is_noticed(client: BlockingClient) -> None:
    before = client.list(NAMESPACES).resource_version
    client.create(CONFIG_MAPS, {"metadata": {"generateName": "x-"}}, namespace="default")

    assert client.list(NAMESPACES).resource_version != before


@pytest.mark.parametrize("line", LINES, ids=str)
def test_a_wrong_command_line_prints_a_sentence_and_changes_nothing(
    line: Line,
    job_server: LocalServer,
    client: BlockingClient,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KUBECONFIG", str(job_server.kubeconfig))
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    before = client.list(NAMESPACES).resource_version  # the revision of the whole store

    code = main.run("arena", line.words)

    err = capsys.readouterr().err
    assert code in (1, 2, 3), err
    errors = [text for text in err.splitlines() if text.startswith("error: ")]
    assert errors, err
    assert len(errors[-1].split()) >= 3
    assert len(err.splitlines()) <= 8
    assert "Traceback" not in err
    assert "bug in Muster" not in err
    assert client.list(NAMESPACES).resource_version == before
    assert list(tmp_path.iterdir()) == []
