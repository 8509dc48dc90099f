"""How long a session lasts at most, and which tokens count as one user's."""

from __future__ import annotations

from base64 import urlsafe_b64encode

import pytest

from muster.web.access import sign_in


def token(payload: bytes) -> str:
    return f"Bearer e30.{urlsafe_b64encode(payload).rstrip(b'=').decode()}.x"


def test_a_session_ends_with_its_token() -> None:
    assert sign_in._seconds_left(token(b'{"exp": 1060}'), 1000.0) == 60.0
    assert sign_in._seconds_left(token(b'{"exp": 900}'), 1000.0) == 0.0


@pytest.mark.parametrize(
    "opaque", [token(b'{"exp": "soon"}'), token(b"[]"), token(b"\xff"), "Bearer x", "Bearer .."]
)
def test_a_token_that_does_not_tell_its_end_lasts_as_long_as_a_session(opaque: str) -> None:
    assert sign_in._seconds_left(opaque, 1000.0) == sign_in.SESSION_SECONDS


def test_tokens_of_one_name_have_one_owner_and_so_has_a_token_with_a_changed_signature() -> None:
    def owner(name: str, authorization: str) -> str:
        return sign_in.User(name, authorization).owner

    assert owner("ann", "Bearer a.b.c") == owner("ann", "Bearer x") != owner("bob", "Bearer x")
    assert owner("", "Bearer a.b.c") == owner("", "Bearer a.b.d") != owner("", "Bearer a.x.c")
    assert owner("", "Bearer x") != owner("", "Bearer y")
