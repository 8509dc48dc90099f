"""Errors of requests to an API server: it rejected the request, or it did not answer.

ApiError                    the API server answered with a Status
├── BadRequest 400 · Unauthorized 401 (exit 4) · Forbidden 403 (exit 4) · NotFound 404 (exit 3)
├── Conflict 409            another writer was first: read and decide again
│   └── AlreadyExists 409   the name is taken
├── Gone 410                the requested history was compacted: list again
├── Unsupported 405/406/415 this server does not support the request
├── Invalid 422             the object is invalid; .causes says which fields
├── TooManyRequests 429     .retry_after says how long to wait
├── StatusError             raised by a server; .details go into the Status it sends
└── ServerError 5xx         the outcome of a write is unknown
Unreachable (exit 5)        no response: connect, TLS, timeout; the outcome of a write is unknown
└── UntrustedCertificate    the server's or the client's certificate was rejected
Aborted                     another thread has ended the client of this one
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from kubekit.errors import MusterError


class Cause(NamedTuple):
    """One reason for which the API server rejected a request; `field` may be empty."""

    field: str
    message: str
    reason: str = ""


class ApiError(MusterError):
    """The API server rejected the request."""

    default_status: ClassVar[int] = 500

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        reason: str = "",
        causes: tuple[Cause, ...] = (),
        retry_after: float | None = None,
        hint: str = "",
    ) -> None:
        super().__init__(message, hint=hint)
        self.status = status or self.default_status
        self.reason = reason
        self.causes = causes
        self.retry_after = retry_after

    @property
    def namespace_is_terminating(self) -> bool:
        """Whether nothing can be created because the namespace is being deleted."""
        return any(cause.reason == "NamespaceTerminating" for cause in self.causes)


class BadRequest(ApiError):
    """The request was malformed."""


class Unauthorized(ApiError):
    """The credentials are missing or wrong."""

    cli_exit_code = 4


class Forbidden(ApiError):
    """The user lacks the permission, or a quota or a policy of the cluster is in the way."""

    cli_exit_code = 4
    action = ""
    """The verb and the resource that were refused, as `patch pods/status`; empty if not known."""


class NotFound(ApiError):
    """The object, or its kind, does not exist."""

    cli_exit_code = 3
    default_status = 404


class Conflict(ApiError):
    """Another writer was first."""


class AlreadyExists(Conflict):
    """The name is taken."""


class Gone(ApiError):
    """The requested history was compacted."""


class Unsupported(ApiError):
    """The server does not support the request (405, 406, 415)."""


class Invalid(ApiError):
    """The object failed validation."""


class TooManyRequests(ApiError):
    """The server asks clients to slow down."""


class ServerError(ApiError):
    """The server failed; whether a write happened is unknown."""


class StatusError(ApiError):
    """An error of the local API server, with the `details` and `metadata` of its Status."""

    def __init__(
        self,
        message: str,
        *,
        status: int,
        reason: str = "",
        details: dict[str, object] | None = None,
    ) -> None:
        super().__init__(message, status=status, reason=reason)
        self.details = details
        self.metadata: dict[str, object] = {}


class Aborted(MusterError):
    """Another thread has ended the client that this thread used."""


class Unreachable(MusterError):
    """No response; whether a write happened is unknown."""

    cli_exit_code = 5


class UntrustedCertificate(Unreachable):
    """A certificate was rejected, by the client or by the server."""


_BY_STATUS: dict[int, type[ApiError]] = {
    400: BadRequest, 401: Unauthorized, 403: Forbidden, 404: NotFound, 405: Unsupported,
    406: Unsupported, 409: Conflict, 410: Gone, 415: Unsupported, 422: Invalid,
    429: TooManyRequests,
}  # fmt: skip
_BY_REASON = {"AlreadyExists": AlreadyExists, "Expired": Gone}
"""Finer than the code: 409 is also Conflict, and a watch event may have no code."""


def api_error(
    message: str,
    *,
    status: int,
    reason: str = "",
    causes: tuple[Cause, ...] = (),
    retry_after: float | None = None,
) -> ApiError:
    """The error that matches a Kubernetes Status."""
    other = ServerError if status >= 500 else ApiError
    kind = _BY_REASON.get(reason) or _BY_STATUS.get(status, other)
    return kind(message, status=status, reason=reason, causes=causes, retry_after=retry_after)


def is_temporary(error: MusterError) -> bool:
    """Whether the same request may succeed in a moment: no rejection, or one that may change.

    A server that starts rejects every token at first.
    """
    temporary = ServerError | TooManyRequests | Unauthorized
    return not isinstance(error, ApiError) or isinstance(error, temporary)
