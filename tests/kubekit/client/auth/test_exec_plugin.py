"""Exec plugins: programs that print a credential."""

from __future__ import annotations

import json
import stat
from typing import TYPE_CHECKING, Any

import pytest

from kubekit.client.auth.credentials import Credential
from kubekit.client.auth.exec_plugin import API_VERSIONS, ExecPlugin, ExecPluginConfig
from kubekit.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

V1 = "client.authentication.k8s.io/v1"


def plugin(folder: Path, script: str, **options: Any) -> ExecPluginConfig:
    path = folder / "plugin"
    path.write_text(f"#!/bin/sh\necho run >> {folder}/runs\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return ExecPluginConfig("config: users[u].user.exec", str(path), **options)


def runs(folder: Path) -> int:
    return len((folder / "runs").read_text().splitlines())


def credential(version: str = V1, **status: str) -> str:
    return json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status})


@pytest.mark.parametrize("version", API_VERSIONS)
def test_a_plugin_runs_once_and_its_token_is_reused(tmp_path: Path, version: str) -> None:
    script = f"echo '{credential(version, token='t')}'"
    source = ExecPlugin(plugin(tmp_path, script, api_version=version))
    assert not source.is_ready()
    assert source.get().authorization == "Bearer t"
    assert source.is_ready()
    source.get()
    assert runs(tmp_path) == 1


def test_a_plugin_runs_again_when_its_token_has_expired_or_was_rejected(tmp_path: Path) -> None:
    time = [1_700_000_000.0]
    output = credential(token="t", expirationTimestamp="2023-11-14T23:13:20Z")  # an hour later
    source = ExecPlugin(plugin(tmp_path, f"echo '{output}'"), now=lambda: time[0])
    source.get()
    time[0] += 3580
    source.get()
    assert runs(tmp_path) == 1
    time[0] += 15
    source.get()
    assert runs(tmp_path) == 2
    time[0] -= 3000
    rejected = source.get()
    assert source.reject(rejected)
    source.get()
    assert runs(tmp_path) == 3
    assert source.reject(rejected), "a rejection that arrives late"
    source.get()
    assert runs(tmp_path) == 3


def test_a_plugin_gets_its_input_and_never_asks_without_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = (
        f'echo "$KUBERNETES_EXEC_INFO" > {tmp_path}/info; echo "$EXTRA" >> {tmp_path}/info\n'
        f"[ -t 0 ] && exit 9\ncat\necho '{credential(token='t')}'"
    )
    source = ExecPlugin(plugin(tmp_path, script, env=(("EXTRA", "yes"),), cluster={"server": "s"}))
    source.get()  # ends: its input is empty
    info, extra = (tmp_path / "info").read_text().splitlines()
    assert json.loads(info) == {
        "apiVersion": V1,
        "kind": "ExecCredential",
        "spec": {"interactive": False, "cluster": {"server": "s"}},
    }
    assert extra == "yes"
    monkeypatch.setattr("sys.stdin", None)
    always = ExecPlugin(plugin(tmp_path, "exit 0", interactive="Always"))
    with pytest.raises(ConfigError, match="this is not a terminal"):
        always.get()


def test_a_plugin_may_give_a_certificate_instead(tmp_path: Path) -> None:
    output = credential(clientCertificateData="CERT", clientKeyData="KEY")
    source = ExecPlugin(plugin(tmp_path, f"echo '{output}'"))
    assert source.get() == Credential("", b"CERT", b"KEY")


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo oops >&2; exit 3", r"failed with exit code 3: oops"),
        ("echo hello", "did not print an ExecCredential"),
        (f"echo '{credential()}'", "gave neither token nor certificate"),
        (f"echo '{credential('v0', token='t')}'", "printed 'v0', expected"),
    ],
)
def test_a_failing_plugin_is_reported_in_one_sentence(
    tmp_path: Path, script: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as wrong:
        ExecPlugin(plugin(tmp_path, script)).get()
    assert str(wrong.value).startswith("config: users[u].user.exec: ")


def test_a_missing_plugin_is_reported_with_its_install_hint() -> None:
    absent = ExecPluginConfig("config: exec", "/nonexistent/login", install_hint="install login\n")
    with pytest.raises(ConfigError, match="cannot run '/nonexistent/login': No such file") as wrong:
        ExecPlugin(absent).get()
    assert wrong.value.hint == "install login"
