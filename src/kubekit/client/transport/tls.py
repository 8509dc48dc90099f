"""TLS contexts, TCP keepalive, and the reasons why a connection failed.

Private keys touch the disk only while OpenSSL reads them, in a file that only this user can open.
"""

from __future__ import annotations

import os
import re
import socket
import ssl
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kubekit.client.error_response import error_from_response
from kubekit.client.transport.content_encoding import UndecodableBody
from kubekit.client.transport.proxy import ProxyError
from kubekit.errors import ConfigError
from kubekit.request_errors import Unreachable, UntrustedCertificate

if TYPE_CHECKING:
    from kubekit.client.auth.credentials import Credential
    from kubekit.client.auth.endpoint import Endpoint
    from kubekit.client.request import Request, Response
    from kubekit.errors import MusterError
    from kubekit.request_errors import ApiError


_KEEPALIVE = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))
_TRY_AGAIN = "It may have too many connections, or be about to stop: try again in a moment."


class ClientContext:
    """The TLS context for new connections to an endpoint; follows certificates that are renewed."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._made_of: tuple[bytes | None, ...] | None = None
        self._context: ssl.SSLContext | None = None

    def update(self, credential: Credential) -> ssl.SSLContext | None:
        """The context for this credential; another one only if a certificate has changed."""
        certificates = credential[1:]
        if certificates != self._made_of:
            try:
                self._context = client_context(self._endpoint, credential)
            except ConfigError:
                # A certificate and its key are written one after the other. Between the two, they
                # do not match, and the old ones are still valid.
                if self._made_of is None:
                    raise
            self._made_of = certificates
        return self._context


def client_context(endpoint: Endpoint, credential: Credential) -> ssl.SSLContext | None:
    """The context of an endpoint and credential; None for plain http."""
    if not endpoint.url.startswith("https"):
        return None
    ca = credential.ca or endpoint.ca
    try:
        context = ssl.create_default_context(cadata=ca.decode("ascii") if ca else None)
    except (ssl.SSLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{_name_of(endpoint)}: certificate-authority: {error}") from error
    if not endpoint.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if credential.certificate:
        _load_certificate(context, endpoint, credential)
    return context


def _load_certificate(context: ssl.SSLContext, endpoint: Endpoint, credential: Credential) -> None:
    import tempfile  # slow to load and rarely needed

    # OpenSSL reads a certificate only from a file. mkstemp's is readable by us alone.
    with tempfile.NamedTemporaryFile(prefix="muster-") as file:
        file.write(credential.certificate + b"\n" + credential.key)
        file.flush()
        try:
            context.load_cert_chain(file.name)
        except (ssl.SSLError, OSError) as error:
            raise ConfigError(
                f"{_name_of(endpoint)}: client certificate and key: {error}"
            ) from error


def expired_certificate(endpoint: Endpoint) -> str:
    """`the client certificate of … expired on …`, or nothing. Runs no plugin."""
    ready = endpoint.credentials.is_ready()
    certificate = endpoint.credentials.get().certificate if ready else b""
    if not certificate:
        return ""
    from cryptography import x509  # slow to load, and only a failure needs it

    try:
        end = x509.load_pem_x509_certificate(certificate).not_valid_after_utc
    except ValueError:
        return ""
    if end > datetime.now(UTC):
        return ""
    return f"the client certificate of {_name_of(endpoint)} expired on {end:%Y-%m-%d %H:%M} UTC"


def response_error(endpoint: Endpoint, response: Response, request: Request) -> ApiError:
    """The error of a response of 400 and above; a 401 names an expired client certificate."""
    expired = expired_certificate(endpoint) if response.status == 401 else ""
    return error_from_response(response, request, expired=expired)


def connect_error(endpoint: Endpoint, error: OSError) -> MusterError:
    """The error for a server that could not be reached."""
    if isinstance(error, ProxyError):
        return Unreachable(str(error), hint=error.hint)
    if isinstance(error, UndecodableBody):
        return Unreachable(f"cannot read what {endpoint.url} sent: {error}")
    if isinstance(error, ConnectionResetError | ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return closed_connection_error(endpoint)
    if isinstance(error, ssl.SSLError):
        return UntrustedCertificate(explain_untrusted(endpoint, error))
    if isinstance(error, TimeoutError):
        return Unreachable(f"no answer from {endpoint.url} in time")
    return Unreachable(f"cannot reach {endpoint.url}: {explain_connect_error(error)}")


def closed_connection_error(endpoint: Endpoint) -> MusterError:
    """The error for a connection that the server closed before its response was complete."""
    # After the handshake, a server that rejects our certificate can only close the connection.
    if expired := expired_certificate(endpoint):
        return UntrustedCertificate(f"{endpoint.url} closed the connection: {expired}")
    return Unreachable(f"{endpoint.url} closed the connection", hint=_TRY_AGAIN)


def explain_untrusted(endpoint: Endpoint, error: Exception) -> str:
    """Whose certificate was rejected, and why."""
    if expired := expired_certificate(endpoint):
        return f"{endpoint.url} rejected the connection: {expired}"
    inner = getattr(error, "certificate_error", None) or getattr(error, "os_error", None) or error
    reason = getattr(inner, "verify_message", "") or str(inner)
    return f"the certificate of {endpoint.url} is not trusted: {reason}"


def explain_connect_error(error: Exception) -> str:
    """Why the connection failed, in the system's own words and without its addresses."""
    inner = getattr(error, "os_error", error)
    if isinstance(inner, TimeoutError):
        return "no answer in time"
    number = getattr(inner, "errno", None)
    if several := re.search(r"^Multiple exceptions: .*\[Errno (\d+)\]", str(inner)):
        number = int(several[1])  # a name with several addresses; asyncio joins their errors
    if number is not None and number > 0 and not isinstance(inner, ssl.SSLError):
        return os.strerror(number)
    return getattr(inner, "strerror", None) or str(error) or type(error).__name__


def _name_of(endpoint: Endpoint) -> str:
    return f"context {endpoint.name}" if endpoint.name else endpoint.url


def enable_keepalive(sock: socket.socket) -> None:
    """Probe the other side after 30 silent seconds; give up after 3 probes.

    Without it a watch or a followed log, which may be silent for minutes, would wait forever on a
    server, a NAT or a load balancer that forgot the connection. It also keeps those that forget
    idle connections from doing so.
    """
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEPALIVE:
        if hasattr(socket, option):  # not on every system
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
