"""Every error that Muster raises on purpose, as one tree that says whose fault it is.

MusterError                     exit 1
├── ApiError                    the API server answered with a Status
│   ├── BadRequest 400 · Unauthorized 401 (exit 4) · Forbidden 403 (exit 4) · NotFound 404 (exit 3)
│   ├── Conflict 409            another writer was first: read and decide again
│   │   └── AlreadyExists 409   the name is taken
│   ├── Gone 410                the requested history was compacted: list again
│   ├── Unsupported 405/406/415 this server does not support the request
│   ├── Invalid 422             the object is invalid; .causes says which fields
│   ├── TooManyRequests 429     .retry_after says how long to wait
│   ├── StatusError             raised by the local API server; .details go into the Status it sends
│   └── ServerError 5xx         the outcome of a write is unknown
├── Aborted                     another thread has ended the client of this one
├── Unreachable (exit 5)        no response: connect, TLS, timeout; outcome of a write is unknown
│   └── UntrustedCertificate    the server's or the client's certificate was rejected
├── NoCluster (exit 5)          nothing is configured and no local cluster is running
├── ConfigError (exit 2)        a kubeconfig or config file cannot be used; names the file and key
├── UsageError (exit 2)         the user asked for something impossible
├── DamagedStore                the local cluster's database is damaged; `arena check` says how
├── InvalidJob                  a job that cannot be parsed; .field says where
├── InvalidQuantity             a quantity that Kubernetes rejects
├── InvalidSelector             a label or field selector that Kubernetes rejects
├── LeaseLost                   another process is the leader, or the lease was not renewed in time
├── JobFailed (exit 10)         `--wait`: the job itself failed; .replica, .exit_code, .last_lines
│   └── RemoteError             rank 0 of a function raised an exception that cannot be rebuilt here
├── WaitTimeout                 the awaited state was not reached in time
├── CannotRun                   this machine could not run a pod's processes
│   ├── OutOfDescriptors        too many files are open for one more pod
│   └── OutOfAddresses          other pods hold all addresses of the pods' network
├── MissingReference            a pod refers to something that does not exist (yet)
├── InvalidImageName            a pod's image has a name that no image can have
├── ResultError                 a function ran as a job, and its value cannot be delivered
│   └── UntrustedResult         somebody else than the job wrote the result: it was not loaded
├── TerminalError               a reconcile that no retry can repair
└── Bug                         an invariant of Muster is broken: please report

`cli/main.py` maps them to exit codes. Imports nothing of Muster.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, ClassVar, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kubekit.rights import MissingRight


class MusterError(Exception):
    """The root. `str(error)` is one clear sentence; `hint`, if any, is the next step."""

    cli_exit_code: ClassVar[int] = 1
    """The exit code of a command that ends with this error."""
    missing_right: MissingRight | None = None
    """Who lacks which right, if that is the reason."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint

    @property
    def hint(self) -> str:
        return self._hint

    @hint.setter
    def hint(self, hint: str) -> None:
        self._hint = hint
        self.__notes__ = [hint] if hint else []  # Python prints it below the message


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


class NoCluster(MusterError):
    """No cluster is configured and none is running."""

    cli_exit_code = 5


class ConfigError(MusterError):
    """A configuration file cannot be used."""

    cli_exit_code = 2


class UsageError(MusterError):
    """The user asked for something impossible."""

    cli_exit_code = 2


class DamagedStore(MusterError):
    """The database of the local cluster is damaged."""


class InvalidJob(MusterError):
    """A job manifest that cannot be parsed."""

    def __init__(self, field: str, message: str, *, hint: str = "") -> None:
        super().__init__(f"{field}: {message}" if field else message, hint=hint)
        self.field = field

    def in_file(self, source: str) -> UsageError:
        """The error of a command that read the manifest from this file."""
        return UsageError(f"{source}: {self}", hint=self.hint)

    @property
    def with_hint(self) -> str:
        """The problem and its solution, in one line."""
        return f"{self}; {self.hint}" if self.hint else str(self)


class InvalidQuantity(MusterError):
    """A quantity that Kubernetes rejects."""


class InvalidSelector(MusterError):
    """A label or field selector that Kubernetes rejects."""


class LeaseLost(MusterError):
    """This process is no longer the leader and must stop acting."""


class JobFailed(MusterError):
    """The awaited job failed, because of the replica that is named if it is known."""

    cli_exit_code = 10

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        job: str = "",
        replica: str = "",
        exit_code: int | None = None,
        last_lines: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message, hint=hint)
        self.job = job
        self.replica = replica
        """The name of the pod that failed first; empty if no pod is to blame."""
        self.exit_code = exit_code
        """Of the container that failed; None if none ran to its end."""
        self.last_lines = last_lines
        """The end of its log."""


class RemoteError(JobFailed):
    """Rank 0 of a function raised an exception that this process cannot rebuild."""


class WaitTimeout(MusterError, TimeoutError):
    """The awaited state was not reached in time; the job goes on."""


class CannotRun(MusterError):
    """The local node could not create a pod's namespaces or start a container."""


class OutOfDescriptors(CannotRun):
    """The share of the daemon's descriptors that pods may use is in use."""


class OutOfAddresses(CannotRun):
    """Other pods hold all addresses of the pods' network."""


class MissingReference(MusterError):
    """A pod refers to an object, a key or a path that does not exist (yet)."""


class InvalidImageName(MusterError):
    """A pod's image has a name that no image can have."""


class ResultError(MusterError):
    """The value of a function that ran as a job cannot be delivered."""


class UntrustedResult(ResultError):
    """The result was not written by the job that it is said to be of."""


class TerminalError(MusterError):
    """A reconcile that no retry can repair."""


class Bug(MusterError):
    """An invariant of Muster is broken."""


_BY_STATUS: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    405: Unsupported,
    406: Unsupported,
    409: Conflict,
    410: Gone,
    415: Unsupported,
    422: Invalid,
    429: TooManyRequests,
}


def api_error(
    message: str,
    *,
    status: int,
    reason: str = "",
    causes: tuple[Cause, ...] = (),
    retry_after: float | None = None,
) -> ApiError:
    """The error that matches a Kubernetes Status."""
    # The reason is finer than the code: 409 is also Conflict, and a watch event may have no code.
    if reason == "AlreadyExists":
        kind: type[ApiError] = AlreadyExists
    elif reason == "Expired":
        kind = Gone
    else:
        kind = _BY_STATUS.get(status, ServerError if status >= 500 else ApiError)
    return kind(message, status=status, reason=reason, causes=causes, retry_after=retry_after)


def is_temporary(error: MusterError) -> bool:
    """Whether the same request may succeed in a moment: no rejection, or one that may change.

    A server that starts rejects every token at first.
    """
    temporary = ServerError | TooManyRequests | Unauthorized
    return not isinstance(error, ApiError) or isinstance(error, temporary)


def single_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The one error inside nested groups, or the group if there are several.

    A task group wraps even a single failure; callers want to catch the failure itself.
    """
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def describe(error: Exception) -> str:
    """The message of an error; for an OSError, the system's text and the file it concerns."""
    if not isinstance(error, OSError) or error.errno is None or error.errno <= 0:
        return str(error) or type(error).__name__
    message = os.strerror(error.errno)
    return f"{message}: {os.fsdecode(error.filename)}" if error.filename else message


def no_such(noun: str, given: str, known: Iterable[str]) -> str:
    """`no such verb: gett; did you mean get?`"""
    similar = nearest(given, known)
    return f"no such {noun}: {given}" + (f"; did you mean {similar}?" if similar else "")


def nearest(given: str, known: Iterable[str]) -> str:
    """The most similar known word; empty if none is similar."""
    import difflib  # slow to load and rarely needed

    return next(iter(difflib.get_close_matches(given, list(known), n=1)), "")
