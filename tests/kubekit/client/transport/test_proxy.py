"""When a proxy is used, and what its refusals say."""

from __future__ import annotations

import traceback

import pytest
from msgspec.structs import replace

from kubekit.client.auth.endpoint import Endpoint
from kubekit.client.transport.proxy import (
    Proxy,
    connect_request,
    is_exempt,
    proxy_for,
    refusal,
    unreachable,
)
from kubekit.errors import ConfigError

ENVIRON = {"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": "inner.corp,.svc, 10.0.0.0/8,odd/rule"}
PROXY = Proxy("http", "proxy", 3128, "$HTTPS_PROXY")
WITH_LOGIN = replace(PROXY, login="me:p@ss")


def address(proxy: Proxy | None) -> str:
    return f"{proxy.scheme}://{proxy.host}:{proxy.port}" if proxy else ""


@pytest.mark.parametrize(
    ("url", "proxy"),
    [
        ("https://outer.example", "http://proxy:3128"),
        ("https://inner.corp:6443", ""),
        ("https://api.inner.corp", ""),
        ("https://notinner.corp", "http://proxy:3128"),
        ("https://kubernetes.default.svc", ""),
        ("https://10.1.2.3:6443", ""),
        ("https://11.1.2.3:6443", "http://proxy:3128"),
        ("https://127.0.0.1:6443", ""),
        ("https://127.9.9.9", ""),
        ("https://127.corp.example", "http://proxy:3128"),
        ("https://[::1]:6443", ""),
        ("https://localhost:6443", ""),
        ("http://outer.example", ""),
    ],
)
def test_the_environment_names_the_proxy_and_its_exceptions(url: str, proxy: str) -> None:
    assert address(proxy_for(Endpoint(url), ENVIRON)) == proxy


@pytest.mark.parametrize(
    ("environ", "server", "proxy"),
    [
        ({"https_proxy": "bare:1"}, "https://a", "http://bare:1"),
        ({"HTTPS_PROXY": "upper:1", "https_proxy": "lower:1"}, "https://a", "http://upper:1"),
        ({"HTTP_PROXY": "http://p"}, "http://a", "http://p:80"),
        ({"HTTP_PROXY": "http://p"}, "https://a", ""),
        ({"ALL_PROXY": "https://p"}, "https://a", "https://p:443"),
        ({"all_proxy": "http://p"}, "http://a", "http://p:80"),
        ({"ALL_PROXY": "http://p", "HTTPS_PROXY": "http://q"}, "https://a", "http://q:80"),
        ({"ALL_PROXY": "http://p", "no_proxy": "a"}, "https://a", ""),
        ({"ALL_PROXY": "http://p", "NO_PROXY": "*"}, "https://a", ""),
        ({"ALL_PROXY": "http://p"}, "https://127.0.0.1:6443", ""),
        ({"HTTPS_PROXY": "http://[fd00::1]:3128"}, "https://a", "http://fd00::1:3128"),
    ],
)
def test_variables_in_either_case_and_for_all_schemes(
    environ: dict[str, str], server: str, proxy: str
) -> None:
    assert address(proxy_for(Endpoint(server), environ)) == proxy


# The answers of Go's golang.org/x/net/http/httpproxy, which kubectl uses.
@pytest.mark.parametrize(
    ("exceptions", "host", "port", "exempt"),
    [
        ("corp.example", "corp.example", 443, True),
        ("corp.example", "api.corp.example", 443, True),
        ("corp.example", "API.Corp.Example", 443, True),
        ("corp.example", "xcorp.example", 443, False),
        (".corp.example", "corp.example", 443, False),
        (".corp.example", "api.corp.example", 443, True),
        ("*.corp.example", "corp.example", 443, False),
        ("*.corp.example", "a.b.corp.example", 443, True),
        ("corp.example:6443", "corp.example", 6443, True),
        ("corp.example:6443", "corp.example", 443, False),
        ("corp.example:6443", "api.corp.example", 6443, True),
        ("10.1.2.3", "10.1.2.3", 443, True),
        ("10.1.2.3", "10.1.2.30", 443, False),
        ("10.1.2.3:6443", "10.1.2.3", 6443, True),
        ("10.1.2.3:6443", "10.1.2.3", 443, False),
        (".2.3", "10.1.2.3", 443, False),
        ("10.0.0.0/8", "10.1.2.3", 443, True),
        ("10.0.0.0/8", "11.1.2.3", 443, False),
        ("10.0.0.0/8", "ten.example", 443, False),
        ("fd00::/8", "fd00::5", 443, True),
        ("fd00::5", "fd00:0::5", 443, True),
        ("[fd00::5]:6443", "fd00::5", 6443, True),
        ("[fd00::5]:6443", "fd00::5", 443, False),
        ("a, b ,,c", "b", 443, True),
        ("a b", "b", 443, False),
        ("a,*", "anything", 443, True),
        ("odd/rule, corp.example", "corp.example", 443, True),
        ("", "anything", 443, False),
        ("corp.example", "corp.example.", 443, True),
    ],
)
def test_exceptions_are_those_of_kubectl(
    exceptions: str, host: str, port: int, exempt: bool
) -> None:
    assert is_exempt(host, port, exceptions) == exempt


def test_the_proxy_of_the_kubeconfig_takes_precedence_over_the_environment() -> None:
    local = Endpoint("https://127.0.0.1", name="c", proxy="http://own:1")
    assert proxy_for(local, ENVIRON) == Proxy("http", "own", 1, "proxy-url of context c")


@pytest.mark.parametrize(
    "url",
    [
        "socks5://me:secret@p:1",
        "me:secret@",
        "http://me:secret@p:port",
        "http://me:se/cret@p",
        "http://me:secret/@p",
    ],
)
def test_a_proxy_that_cannot_be_used_is_named_without_its_password(url: str) -> None:
    with pytest.raises(ConfigError, match=r"^proxy-url of context c: ") as raised:
        proxy_for(Endpoint("https://a", name="c", proxy=url), {})
    # With its causes: an uncaught error of the Python API, or --debug, prints them all.
    assert "cret" not in "".join(traceback.format_exception(raised.value))


def test_a_tunnel_request_names_the_server() -> None:
    asked = b"CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\nUser-Agent: muster\r\n\r\n"
    assert connect_request(PROXY, "a", 443) == asked
    assert b"CONNECT [::1]:6443 HTTP" in connect_request(PROXY, "::1", 6443)


def test_the_login_of_a_proxy_is_in_its_url() -> None:
    proxy = proxy_for(Endpoint("https://a"), {"HTTPS_PROXY": "http://me:p%40ss@proxy:3128"})
    assert proxy == WITH_LOGIN
    asked = connect_request(WITH_LOGIN, "a", 443)
    assert b"\r\nProxy-Authorization: Basic bWU6cEBzcw==\r\n" in asked


def test_no_text_about_a_proxy_has_its_login() -> None:
    errors = [refusal(WITH_LOGIN, "a", 407), refusal(WITH_LOGIN, "a", 403)]
    errors.append(unreachable(WITH_LOGIN, "Connection refused"))
    texts = [f"{WITH_LOGIN} {WITH_LOGIN!r} {[WITH_LOGIN]}"]
    texts += [f"{error} {error.hint} {error!r}" for error in errors]
    texts.append(repr(Endpoint("https://a", proxy="http://me:p%40ss@proxy")))
    assert [text for text in texts if "p@ss" in text or "p%40ss" in text] == []


@pytest.mark.parametrize(
    ("proxy", "status", "message", "hint"),
    [
        (PROXY, 407, "asks for a user and password (407)", "USER:PASSWORD@proxy:3128"),
        (WITH_LOGIN, 407, "does not accept the user and password of its URL (407)", "$HTTPS"),
        (PROXY, 403, "refuses to connect to a (403)", "add it to NO_PROXY"),
        (PROXY, 502, "refuses to connect to a (502)", "add it to NO_PROXY"),
        (replace(PROXY, source="proxy-url of context c"), 403, "(403)", "can allow it."),
    ],
)
def test_a_refusal_says_who_and_what_to_do(
    proxy: Proxy, status: int, message: str, hint: str
) -> None:
    error = refusal(proxy, "a", status)
    assert str(error).startswith(f"the proxy http://proxy:3128 ({proxy.source}) ")
    assert str(error).endswith(message)
    assert hint in error.hint
