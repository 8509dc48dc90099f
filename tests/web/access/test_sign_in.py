"""How long a session lasts at most."""

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
