"""A cluster that cannot be used ends in one clear sentence and an exit code."""

from __future__ import annotations

import json
import socket
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from kubekit.client.blocking_client import BlockingClient
from kubekit.request_errors import Unauthorized
from muster.cli import main
from tests.controlplane.certificates import Authority
from tests.controlplane.control_plane import ControlPlane
from tests.controlplane.process_flags import kubeconfig


class Outcome:
    def __init__(self, code: int, err: str) -> None:
        self.code, self.err = code, err
        self.lines = err.strip().splitlines()


@pytest.fixture
def listing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """`arena list` with a given kubeconfig, as text or as data."""

    def run(config: str | dict[str, Any] | None, *flags: str) -> Outcome:
        path = tmp_path / "config"
        if config is not None:
            path.write_text(config if isinstance(config, str) else json.dumps(config))
        code = main.run("arena", ["list", "--kubeconfig", str(path), *flags])
        outcome = Outcome(code, capsys.readouterr().err)
        assert "Traceback" not in outcome.err
        assert outcome.err.startswith("error: ")
        assert len(outcome.lines) <= 3
        return outcome

    return run


def test_a_missing_file_is_named(listing: Any, tmp_path: Path) -> None:
    outcome = listing(None)

    assert outcome.code == 2
    assert str(tmp_path / "config") in outcome.err


@pytest.mark.parametrize("text", ["{", "a: [", "\x00", "- just\n- a\n- list"])
def test_a_malformed_file_is_named(listing: Any, tmp_path: Path, text: str) -> None:
    outcome = listing(text)

    assert outcome.code == 2
    assert str(tmp_path / "config") in outcome.err


def test_a_missing_key_is_named(listing: Any) -> None:
    config = kubeconfig("https://127.0.0.1:1", b"")
    del config["clusters"][0]["cluster"]["server"]

    outcome = listing(config)

    assert outcome.code == 2
    assert "clusters[muster-test].cluster.server" in outcome.err


def test_an_unknown_context_lists_the_known_ones(listing: Any) -> None:
    outcome = listing(kubeconfig("https://127.0.0.1:1", b""), "--context", "muster-tset")

    assert outcome.code == 2
    assert "did you mean 'muster-test'?" in outcome.err


def test_a_server_that_does_not_answer_is_not_a_cluster(listing: Any) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"https://127.0.0.1:{taken.getsockname()[1]}"

        outcome = listing(kubeconfig(url, Authority().certificate))

    assert outcome.code == 5
    assert url in outcome.err


def test_status_ends_with_the_error_of_the_cluster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise Unauthorized("the token is too old", status=401)

    monkeypatch.setattr(BlockingClient, "send", refuse)
    config = tmp_path / "config"
    config.write_text(json.dumps(kubeconfig("https://127.0.0.1:1", Authority().certificate)))

    code = main.run("arena", ["status", "--kubeconfig", str(config)])

    assert (code, capsys.readouterr().err) == (4, "error: the token is too old\n")


@pytest.mark.kube
def test_an_expired_certificate_is_reported_as_expired(
    listing: Any, control_plane: ControlPlane
) -> None:
    old = control_plane.authority.client("me", "system:masters", lifetime=timedelta(days=-1))

    outcome = listing(kubeconfig(control_plane.url, control_plane.ca_file.read_bytes(), old))

    assert outcome.code in (4, 5)
    assert "expired" in outcome.err


@pytest.mark.kube
def test_a_server_certificate_of_another_ca_is_not_trusted(
    listing: Any, control_plane: ControlPlane
) -> None:
    outcome = listing(kubeconfig(control_plane.url, Authority().certificate, token="x"))

    assert outcome.code == 5
    assert "certificate" in outcome.err


@pytest.mark.kube
def test_a_wrong_token_is_reported_as_rejected(listing: Any, control_plane: ControlPlane) -> None:
    config = kubeconfig(control_plane.url, control_plane.ca_file.read_bytes(), token="wrong")

    outcome = listing(config)

    assert outcome.code == 4
    assert "list" in outcome.err
    assert "tfjobs.kubeflow.org" in outcome.err


@pytest.mark.kube
def test_missing_rights_name_the_verb_and_the_resource(
    listing: Any, control_plane: ControlPlane
) -> None:
    nobody = control_plane.authority.client("nobody")
    config = kubeconfig(control_plane.url, control_plane.ca_file.read_bytes(), nobody)

    outcome = listing(config)

    assert outcome.code == 4
    assert "list" in outcome.err
    assert "tfjobs.kubeflow.org" in outcome.err
