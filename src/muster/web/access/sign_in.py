"""Users who sign in with their own bearer token: the cluster issues it, not the dashboard.

The dashboard of an installation has no rights. Every request to the API is made with the token of
the user for whom the page is, so RBAC, quotas and the audit log of the cluster apply to that user.

A browser sends its token once. The dashboard asks the API server whose token it is, keeps it in
memory and gives the browser a random session number: a cookie, which browsers also send to other
ports of a host, must not be the token itself. The API server is asked again every minute, so a
token that is revoked or has expired shows nothing any more.

Kept apart because whoever asks what the dashboard does with a token should find it without the
checks of requests in `gate`.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from base64 import urlsafe_b64decode
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from kubekit.client.auth.credentials import TokenOfUser
from kubekit.client.client import Client
from kubekit.errors import MusterError, UsageError
from kubekit.objects.kinds import SELF_SUBJECT_REVIEWS
from kubekit.objects.meta import mapping
from kubekit.request_errors import ApiError, TooManyRequests, Unauthorized

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubekit.client.auth.endpoint import Endpoint

BEARER = "Bearer "
SESSION_SECONDS = 12 * 3600.0
VERIFY_SECONDS = 45.0
"""With the time between two checks of an open stream, this is a minute."""
RETRY_SECONDS = 5.0
"""An API server that does not answer is asked again so much later: no page waits for it twice."""
MAX_SESSIONS, MAX_SESSIONS_OF_ONE_USER = 2000, 50
_MAX_TOKEN = 16 << 10
_AT_ONCE = 8
"""Questions to the API server under way: strangers may send as many wrong tokens as they like."""
_MAX_NAMESPACES = 20
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_ANONYMOUS = "system:anonymous"


class User(NamedTuple):
    """A user whose token the cluster accepts."""

    name: str
    """As the cluster calls the user; empty if it does not tell."""
    authorization: str
    namespaces: tuple[str, ...] = ()
    """Where the user may read, as far as the user has told."""

    @property
    def key(self) -> str:
        """Different for every token and choice of namespaces."""
        text = "\0".join((self.authorization, *self.namespaces))
        return sha256(text.encode()).hexdigest()

    @property
    def owner(self) -> str:
        """The same for all tokens of a user, as far as the cluster tells whose a token is.

        If it does not, the signed part of a JSON web token is taken: the last letter of a signature
        has bits that nobody reads, so one token can be written in several ways.
        """
        signed = self.authorization.rpartition(".")[0] or self.authorization
        return self.name or sha256(signed.encode()).hexdigest()

    def endpoint(self, server: Endpoint) -> Endpoint:
        """The cluster with the credentials of this user, and nobody else's."""
        source = TokenOfUser(self.authorization, server.credentials)
        namespace = next(iter(self.namespaces), server.namespace)
        return msgspec.structs.replace(server, credentials=source, namespace=namespace)


class Users:
    """Asks the cluster whose a token is, and remembers the answer for a minute."""

    def __init__(self, server: Endpoint, clock: Callable[[], float] = time.monotonic) -> None:
        self._server, self._clock = server, clock
        self._known: dict[str, tuple[str, float]] = {}
        """The name of the user and the time of the answer, by the digest of the token."""
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def verify(self, user: User) -> User:
        """The user with its name; Unauthorized if the cluster refuses the token."""
        digest = sha256(user.authorization.encode()).hexdigest()
        name, asked_at = self._known.get(digest, ("", float("-inf")))
        if self._clock() - asked_at >= VERIFY_SECONDS:
            try:
                name = await self._ask(user)
            except Unauthorized:
                self._known.pop(digest, None)
                raise Unauthorized(
                    "The cluster does not accept the token: it is wrong, revoked or expired.",
                    status=401,
                ) from None
            except MusterError:
                if digest not in self._known:
                    raise
                # The API server is away, not the user: pages say that they may be out of date.
                self._remember(digest, name, self._clock() + RETRY_SECONDS - VERIFY_SECONDS)
            else:
                self._remember(digest, name, self._clock())
        return user._replace(name=name)

    async def _ask(self, user: User) -> str:
        async with self._turns, Client.connect(user.endpoint(self._server)) as client:
            try:
                review = await client.create(SELF_SUBJECT_REVIEWS, {})
            except Unauthorized:
                raise
            except ApiError as error:
                if error.status not in (403, 404):
                    raise
                if _ANONYMOUS in str(error):  # the server has seen no token
                    raise Unauthorized(str(error)) from None
                return ""  # the token is accepted, the question is not
        info = mapping(mapping(review.get("status")).get("userInfo"))
        if (name := str(info.get("username", ""))) == _ANONYMOUS:
            raise Unauthorized("the server has seen no token")
        return name

    def _remember(self, digest: str, name: str, asked_at: float) -> None:
        self._known.pop(digest, None)
        self._known[digest] = (name, asked_at)
        if len(self._known) > MAX_SESSIONS:
            del self._known[next(iter(self._known))]  # the one that was asked about longest ago


class SignIns:
    """The sessions of signed-in users, in memory: a restart signs everybody out."""

    def __init__(self, users: Users, on_end: Callable[[str], None]) -> None:
        """`on_end` is called with the key of a user whose session or token has ended."""
        self._users, self._on_end = users, on_end
        self._sessions: dict[str, tuple[User, asyncio.TimerHandle]] = {}

    async def open(self, token: str, namespaces: str) -> tuple[str, User]:
        """A new session for a token that the cluster accepts."""
        user = User("", one_token(token.strip().removeprefix(BEARER).strip()), _names(namespaces))
        user = await self._users.verify(user)
        self._make_room_of(user)
        session = secrets.token_urlsafe(32)
        seconds = min(SESSION_SECONDS, _seconds_left(user.authorization, time.time()))
        timer = asyncio.get_running_loop().call_later(seconds, self.close, session)
        self._sessions[session] = user, timer
        return session, user

    def _make_room_of(self, user: User) -> None:
        """End the oldest session of a user who has many; nobody loses one to another user."""
        own = [key for key, (other, _) in self._sessions.items() if other.owner == user.owner]
        if len(own) >= MAX_SESSIONS_OF_ONE_USER:
            self.close(own[0])
        if len(self._sessions) >= MAX_SESSIONS:
            raise TooManyRequests(
                "Too many users are signed in to this dashboard.",
                status=429,
                hint="Sessions end after 12 hours. `muster dashboard` on your own machine needs "
                "none: it uses your kubeconfig.",
            )

    async def user(self, session: str) -> User | None:
        """The user of a session; None if there is no such session."""
        found = self._sessions.get(session)
        if found is None:
            return None
        try:
            return await self._users.verify(found[0])
        except Unauthorized:
            self.close(session)
            raise

    def close(self, session: str) -> None:
        """Forget the session and its token."""
        user, timer = self._sessions.pop(session, (None, None))
        if timer is not None:
            timer.cancel()
        if user is not None and all(other.key != user.key for other, _ in self._sessions.values()):
            self._on_end(user.key)

    def close_all(self) -> None:
        for session in list(self._sessions):
            self.close(session)


def one_token(token: str) -> str:
    """The header for a token, which is one word.

    kube-apiserver reads the first word of a header alone, and `Bearer  x`, with two spaces, as no
    token. So one token, or none, could come in as many headers as a stranger likes.
    """
    if not token:
        raise UsageError("The token is missing.")
    if len(token) > _MAX_TOKEN or not all("!" <= letter <= "~" for letter in token):
        raise UsageError("This is not a bearer token: it is one word of letters and digits.")
    return f"{BEARER}{token}"


def _names(text: str) -> tuple[str, ...]:
    """The namespaces that a person has written down."""
    names = tuple(dict.fromkeys(text.replace(",", " ").split()))
    if wrong := next((name for name in names if not _NAMESPACE.fullmatch(name)), ""):
        raise UsageError(f"{wrong!r} is not the name of a namespace.")
    return names[:_MAX_NAMESPACES]


def _seconds_left(authorization: str, now: float) -> float:
    """How long a JSON web token is valid by its own words; other tokens do not tell."""
    parts = authorization.removeprefix(BEARER).split(".")
    if len(parts) != 3:
        return SESSION_SECONDS
    try:
        text = urlsafe_b64decode(parts[1].encode() + b"=" * (-len(parts[1]) % 4))
        expires = msgspec.json.decode(text).get("exp")
        return max(0.0, expires - now) if isinstance(expires, int | float) else SESSION_SECONDS
    except (ValueError, AttributeError, OverflowError, RecursionError, msgspec.MsgspecError):
        return SESSION_SECONDS
