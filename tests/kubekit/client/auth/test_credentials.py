"""Token files that rotate, and the tokens of users."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kubekit.client.auth import credentials
from kubekit.client.auth.credentials import Credential, TokenFile, TokenOfUser
from kubekit.client.auth.endpoint import Endpoint
from kubekit.client.auth.exec_plugin import ExecPlugin, ExecPluginConfig
from kubekit.client.auth.reloading import reloading
from kubekit.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path


def test_a_token_file_is_read_again_after_a_while(tmp_path: Path) -> None:
    time = [0.0]
    (tmp_path / "token").write_text("one\n")
    source = TokenFile(tmp_path / "token", clock=lambda: time[0])
    assert source.get().authorization == "Bearer one"
    (tmp_path / "token").write_text("two\n")
    assert source.get().authorization == "Bearer one"
    time[0] += credentials.REREAD_SECONDS
    assert source.get().authorization == "Bearer two"


def test_a_rejected_token_is_read_again_at_once(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("one")
    source = TokenFile(tmp_path / "token")
    old = source.get()
    assert not source.reject(old), "the same token would be refused again"
    (tmp_path / "token").write_text("two")
    assert source.reject(old)
    assert source.reject(old), "a rejection that arrives late: the new token is worth a try"
    assert source.get().authorization == "Bearer two"


def test_a_token_file_may_be_missing_or_empty_for_a_moment(tmp_path: Path) -> None:
    time = [0.0]
    source = TokenFile(tmp_path / "token", clock=lambda: time[0])
    with pytest.raises(ConfigError, match="cannot read the token"):
        source.get()
    (tmp_path / "token").write_text("")
    with pytest.raises(ConfigError, match="the file is empty"):
        source.get()
    (tmp_path / "token").write_text("one")
    source.get()
    (tmp_path / "token").write_text("\n")
    time[0] += 100
    assert source.get().authorization == "Bearer one"
    (tmp_path / "token").unlink()
    assert source.get().authorization == "Bearer one"


def test_a_credential_shows_none_of_its_secrets() -> None:
    credential = Credential("Bearer hidden", b"hidden", b"hidden", b"hidden")

    assert "hidden" not in f"{credential} {credential!r}"


def test_the_token_of_a_user_needs_no_login_of_the_owner() -> None:
    plugin = ExecPlugin(ExecPluginConfig("config: users[u].user.exec", "muster-no-such-program"))
    owner = Endpoint("https://example.com", b"old", credentials=plugin)
    source = TokenOfUser("Bearer mine", reloading(owner, lambda: owner).credentials)

    assert source.is_ready()
    assert source.get() == Credential("Bearer mine")


def test_the_token_of_a_user_follows_the_certificate_authority(tmp_path: Path) -> None:
    time, file = [0.0], tmp_path / "ca.crt"

    def load() -> Endpoint:
        return Endpoint("https://example.com", file.read_bytes(), files=(file,))

    file.write_bytes(b"old")
    source = TokenOfUser("Bearer mine", reloading(load(), load, lambda: time[0]).credentials)
    assert source.get().ca is None
    file.write_bytes(b"renewed")
    time[0] += credentials.REREAD_SECONDS

    assert source.get() == Credential("Bearer mine", ca=b"renewed")
