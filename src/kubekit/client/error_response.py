"""Error responses as errors: a Kubernetes Status, or the page of a proxy. No I/O.

The message of each error is one sentence that names the verb and the resource. A 403 has no fields
for the right that is missing, but every authorizer's denial has the same words. A 403 of another
origin (a quota, an admission plugin, a webhook) is not about a right.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import unquote

import msgspec

from kubekit.client.request import JSON
from kubekit.objects.annotation_values import read_integer
from kubekit.objects.kinds import decoder_of
from kubekit.request_errors import ApiError, Cause, Forbidden, ServerError, api_error

if TYPE_CHECKING:
    from kubekit.client.request import Request, Response
    from kubekit.rights import MissingRight


HOW_TO_INSTALL_JOB_KINDS = (
    "`muster install --image IMAGE` installs them with the operator and the scheduler; "
    "`arena up` starts a local cluster that has all of it."
)
"""The hint for a cluster without the CRDs of jobs."""


class _Cause(msgspec.Struct, gc=False):
    reason: str = ""
    field: str = ""
    message: str = ""


class _Details(msgspec.Struct, gc=False, rename="camel"):
    name: str = ""
    causes: tuple[_Cause, ...] | None = None
    retry_after_seconds: float | None = None


class Status(msgspec.Struct, gc=False):
    """A Kubernetes Status, which a response carries instead of an object."""

    message: str = ""
    reason: str = ""
    code: int = 0
    details: _Details | None = None


class RequestTarget(msgspec.Struct, frozen=True, gc=False):
    """The verb and object of a request, from its path."""

    verb: str
    resource: str
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        name = f" {self.name}" if self.name else ""
        where = f" in namespace {self.namespace}" if self.namespace else ""
        return f"{self.verb} {self.resource}{name}{where}"


_VERBS = {
    "GET": ("get", "list"), "DELETE": ("delete", "deletecollection"), "POST": ("create", "create"),
    "PUT": ("update", "update"), "PATCH": ("patch", "patch"),
}  # fmt: skip
"""The verb of each method, on one object and on a collection."""


def request_target(request: Request) -> RequestTarget:
    """The verb and resource in the terms of RBAC: `list pods`, `create pods/binding`."""
    parts = [unquote(part) for part in request.path.split("/")[1:]]
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    group = parts[1] if parts[0] == "apis" and len(parts) > 1 else ""
    namespace = ""
    # /namespaces/x/pods is about the pods in x, /namespaces/x/status about the namespace x itself.
    if len(rest) > 2 and rest[0] == "namespaces" and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    plural, name, subresource = [*rest, "", "", ""][:3]
    if not plural:
        return RequestTarget(request.method.lower(), request.path)
    resource = plural + (f"/{subresource}" if subresource else "") + (f".{group}" if group else "")
    of_one, of_all = _VERBS.get(request.method, (request.method.lower(),) * 2)
    verb = "watch" if ("watch", "true") in request.query else of_one if name else of_all
    return RequestTarget(verb, resource, namespace, name)


def error_from_response(response: Response, request: Request, *, expired: str = "") -> ApiError:
    """The error of a response of 400 and above.

    `expired` says that the client certificate has expired, which explains a 401.
    """
    status = _status_of(response.body)
    # Only known of requests for JSON: a pod behind `pods/proxy` answers in its own way, and of a
    # failed upgrade to a websocket there is no body.
    plain = response.body.startswith(b"404 page not found")
    from_kubernetes = plain or status.reason == "NotFound" or request.accept != JSON
    if response.status == 404 and not from_kubernetes:
        # Never NotFound: an informer would take every object of the kind for deleted.
        return ServerError(
            f"cannot {request_target(request)}: something between here and the API server "
            "answered 404",
            status=404,
            hint="A proxy, gateway or load balancer on the way does not know the API server.",
        )
    error = error_from_status(status, response.status, request, expired=expired)
    if error.retry_after is None:
        error.retry_after = retry_after(response)
    return error


def unreadable_response(problem: str, error: Exception) -> ApiError:
    """The error for a successful response that cannot be decoded."""
    return ApiError(f"{problem}: {error}", status=200, reason="Unreadable")


def retry_after(response: Response) -> float | None:
    """The seconds in a Retry-After header."""
    text = response.headers.get("Retry-After") or response.headers.get("retry-after") or ""
    return read_integer(text.strip())


def error_from_status(
    status: Status, code: int, request: Request, *, expired: str = ""
) -> ApiError:
    """The error for a decoded Status."""
    about = request_target(request)
    details = status.details or _Details()
    error = api_error(
        _sentence(code, status, about, expired),
        status=code,
        reason=status.reason,
        causes=tuple(
            Cause(cause.field or cause.reason, cause.message, cause.reason)
            for cause in details.causes or ()
        ),
        retry_after=details.retry_after_seconds,
    )
    if isinstance(error, Forbidden):
        error.missing_right = missing_right(status.message, about.namespace, about.name)
        error.action = f"{about.verb} {about.resource}"
    if code == 404 and _no_such_kind(status) and about.resource.endswith(".kubeflow.org"):
        error.hint = HOW_TO_INSTALL_JOB_KINDS
    return error


def _sentence(code: int, status: Status, about: RequestTarget, expired: str) -> str:
    message = status.message.strip()
    if code == 401:
        because = expired or "the token or certificate is missing, wrong or expired"
        return f"not signed in: the cluster refused to {about} (401: {because})"
    if code == 403 and (missing := missing_right(status.message, about.namespace, about.name)):
        where = f" in the namespace {about.namespace}" if about.namespace else ""
        return f"{missing}{where}"
    if code == 403:
        return f"not allowed to {about}" + (f": {message}" if message else "")
    if code == 404 and _no_such_kind(status):
        return f"the cluster has no {about.resource}"
    return message or f"cannot {about}: the server answered {code}"


def _no_such_kind(status: Status) -> bool:
    """Whether the kind is missing, and not just one object of it.

    For a missing kind the server sends a Status without a name in its details, or plain text.
    """
    message, named = status.message, status.details is not None and status.details.name
    no_path = "could not find the requested resource" in message or message == "404 page not found"
    return no_path and not named and status.reason in ("", "NotFound")


def _status_of(body: bytes) -> Status:
    try:
        return decoder_of(Status).decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        text = body[:400].decode("utf-8", "replace").strip()
        # A line of text may help the user; a proxy's HTML page does not.
        return Status(message="" if text.startswith("<") else text.partition("\n")[0])


# Compiled with the first 403: quick verbs seldom get one.
_DENIED = (
    r'User "(?P<user>(?:[^"\\]|\\.)*)" cannot (?P<verb>\S+) resource "(?P<resource>[^"]*)" '
    r'in API group "(?P<group>[^"]*)"'
)
# Who creates a role must have every right in it.
_GRANTING = (
    r'user "(?P<user>(?:[^"\\]|\\.)*)" .*is attempting to grant RBAC permissions not currently '
    r"held:\s*(?P<rules>\{.*)"
)
_HELD = (
    r"APIGroups:\[(?P<groups>[^\]]*)\], Resources:\[(?P<resources>[^\]]*)\]"
    r".*?Verbs:\[(?P<verbs>[^\]]*)\]"
)
_RECORDS = "kube-system"
"""In this namespace a rule names its object: one for all objects there would give away too much."""


def missing_right(message: str, namespace: str, name: str) -> MissingRight | None:
    """The right that the sender of a request for this object lacks, if the 403 is about one."""
    from kubekit.rights import MissingRight, Rule, account_name

    if denied := re.search(_DENIED, message):
        verb, resource, group = denied["verb"], denied["resource"], denied["group"]
        is_record = namespace == _RECORDS or resource == "leases"
        is_named = is_record and bool(name) and verb != "create"
        rule = Rule((group,), (resource,), (verb,), (name,) if is_named else ())
        return MissingRight(account_name(denied["user"]), rule)
    granting = re.search(_GRANTING, message, re.DOTALL)
    held = re.search(_HELD, granting["rules"]) if granting else None
    if granting is None or held is None:
        return None
    groups, resources, verbs = (
        tuple(re.findall(r'"([^"]*)"', held[part])) for part in ("groups", "resources", "verbs")
    )
    return MissingRight(account_name(granting["user"]), Rule(groups, resources, verbs))
