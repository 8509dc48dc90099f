"""Tokens and sessions: signed, limited in time, a token good for one login."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from muster.web.access.keys import SESSION_SECONDS, TOKEN_SECONDS, Keys, Sessions, Tokens, new_token

KEYS = Keys.random()
NOW = 1_000_000.0


def test_a_token_is_good_for_one_login() -> None:
    tokens = Tokens(KEYS, lambda: NOW)
    token = new_token(KEYS, NOW)

    assert tokens.redeem(token)
    assert not tokens.redeem(token)
    assert tokens.redeem(new_token(KEYS, NOW))


@pytest.mark.parametrize("seconds", [TOKEN_SECONDS, -120.0])
def test_a_token_that_is_old_or_from_the_future_is_refused(seconds: float) -> None:
    assert not Tokens(KEYS, lambda: NOW + seconds).redeem(new_token(KEYS, NOW))


@pytest.mark.parametrize("text", ["", "a", "ä", "AAAA", "=", "a" * 5000])
def test_text_that_is_not_a_token_is_refused(text: str) -> None:
    assert not Tokens(KEYS).redeem(text)
    assert not Sessions(KEYS).is_valid(text)


def test_a_token_of_other_keys_and_a_changed_token_are_refused() -> None:
    token = new_token(KEYS, NOW)
    changed = token[:-4] + ("AAAA" if token[-4:] != "AAAA" else "BBBB")

    assert not Tokens(Keys.random(), lambda: NOW).redeem(token)
    assert not Tokens(KEYS, lambda: NOW).redeem(changed)


def test_a_token_is_not_a_session_and_a_session_is_not_a_token() -> None:
    same = Keys(KEYS.sessions, KEYS.sessions)

    assert not Sessions(same).is_valid(new_token(same))
    assert not Tokens(same).redeem(Sessions(same).new())


def test_a_session_ends_after_a_week() -> None:
    cookie = Sessions(KEYS, lambda: NOW).new()

    assert Sessions(KEYS, lambda: NOW + SESSION_SECONDS - 1).is_valid(cookie)
    assert not Sessions(KEYS, lambda: NOW + SESSION_SECONDS).is_valid(cookie)


def test_every_session_has_a_csrf_token_of_its_own() -> None:
    sessions = Sessions(KEYS)
    one, other = sessions.new(), sessions.new()

    assert sessions.is_csrf(one, sessions.csrf(one))
    assert not sessions.is_csrf(one, sessions.csrf(other))
    assert not sessions.is_csrf(one, "ü")


def test_a_new_run_keeps_sessions_and_forgets_tokens(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    first = Keys.renew(file)
    second = Keys.renew(file)

    assert second == Keys.read(file)
    assert first.sessions == second.sessions
    assert first.tokens != second.tokens
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_file_that_was_not_written_whole_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_bytes(b"short")

    assert [len(key) for key in Keys.renew(file)] == [32, 32]


@pytest.mark.parametrize("mode", [0o644, 0o622])
def test_keys_that_others_may_know_are_replaced(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "dashboard.keys"
    path.write_bytes(bytes(64))
    path.chmod(mode)

    keys = Keys.renew(path)

    assert keys.sessions != bytes(32)
    assert not Sessions(keys).is_valid(Sessions(Keys(bytes(32), bytes(32))).new())
    assert Keys.read(path) == keys
