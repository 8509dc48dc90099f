"""How long a session lasts at most, which tokens count as one user's, and who has room for one."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Iterator

import pytest

from kubekit.client.auth.endpoint import Endpoint
from kubekit.request_errors import TooManyRequests, Unreachable
from muster.web.access import sign_in

NOWHERE = Endpoint("https://127.0.0.1:1")


def token(payload: bytes) -> str:
    return f"Bearer e30.{urlsafe_b64encode(payload).rstrip(b'=').decode()}.x"


def test_a_session_ends_with_its_token() -> None:
    assert sign_in._seconds_left(token(b'{"exp": 1060}'), 1000.0) == 60.0
    assert sign_in._seconds_left(token(b'{"exp": 900}'), 1000.0) == 0.0


@pytest.mark.parametrize(
    "opaque",
    [
        token(b'{"exp": "soon"}'),
        token(b'{"exp": ' + b"9" * 400 + b"}"),
        token(b"[" * 3000),
        token(b"[]"),
        token(b"\xff"),
        "Bearer x",
        "Bearer ..",
    ],
)
def test_a_token_that_does_not_tell_its_end_lasts_as_long_as_a_session(opaque: str) -> None:
    assert sign_in._seconds_left(opaque, 1000.0) == sign_in.SESSION_SECONDS


def test_tokens_of_one_name_have_one_owner_and_so_has_a_token_with_a_changed_signature() -> None:
    def owner(name: str, authorization: str) -> str:
        return sign_in.User(name, authorization).owner

    assert owner("ann", "Bearer a.b.c") == owner("ann", "Bearer x") != owner("bob", "Bearer x")
    assert owner("", "Bearer a.b.c") == owner("", "Bearer a.b.d") != owner("", "Bearer a.x.c")
    assert owner("", "Bearer x") != owner("", "Bearer y")


class NamedByToken(sign_in.Users):
    """Accepts every token; `ann-1` is one of ann."""

    async def _ask(self, user: sign_in.User) -> str:
        return user.authorization.removeprefix(sign_in.BEARER).partition("-")[0]


async def test_an_api_server_that_is_away_is_not_asked_by_every_request() -> None:
    now, asked = 1000.0, 0

    class Away(NamedByToken):
        async def _ask(self, user: sign_in.User) -> str:
            nonlocal asked
            asked += 1
            if asked > 1:
                raise Unreachable("no answer")
            return await super()._ask(user)

    users, ann = Away(NOWHERE, lambda: now), sign_in.User("", "Bearer ann-1")
    await users.verify(ann)
    now += sign_in.VERIFY_SECONDS

    names = [(await users.verify(ann)).name for _ in range(3)]

    assert (names, asked) == (["ann"] * 3, 2)
    now += sign_in.RETRY_SECONDS
    await users.verify(ann)
    assert asked == 3


@pytest.fixture
def sign_ins() -> Iterator[sign_in.SignIns]:
    made = sign_in.SignIns(NamedByToken(NOWHERE), lambda _: None)
    yield made
    made.close_all()


async def test_a_user_who_signs_in_again_and_again_loses_own_sessions_only(
    sign_ins: sign_in.SignIns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sign_in, "MAX_SESSIONS_OF_ONE_USER", 3)
    bob, _ = await sign_ins.open("bob-1", "")
    ann = [(await sign_ins.open(f"ann-{number}", ""))[0] for number in range(5)]

    found = [await sign_ins.user(session) for session in ann]

    assert [user is not None for user in found] == [False, False, True, True, True]
    assert await sign_ins.user(bob) is not None


async def test_a_new_user_of_a_full_dashboard_signs_nobody_out(
    sign_ins: sign_in.SignIns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sign_in, "MAX_SESSIONS", 1)
    ann, _ = await sign_ins.open("ann-1", "")

    with pytest.raises(TooManyRequests, match="Too many users are signed in"):
        await sign_ins.open("bob-1", "")

    assert await sign_ins.user(ann) is not None
