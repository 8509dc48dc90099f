"""`arena config` reads and writes the config file."""

from __future__ import annotations

import pytest

from kubekit.errors import UsageError
from kubekit.request_errors import NotFound
from muster.cli.verbs import config
from muster.client import config_file


def test_the_config_file_is_written_and_read(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))

    def run(*words: str) -> str:
        config.command.main(list(words), standalone_mode=False)
        return capsys.readouterr().out

    run("set", "gang", "true")
    assert config_file.switch("gang") is True
    assert run("get", "gang") == "true\n"
    assert run("list").splitlines()[-1].split()[:2] == ["gang", "true"]
    run("unset", "gang")
    with pytest.raises(NotFound):
        run("get", "gang")
    with pytest.raises(UsageError, match="did you mean gang"):
        run("set", "gangs", "true")
    with pytest.raises(UsageError, match="true or false"):
        run("set", "gang", "maybe")
