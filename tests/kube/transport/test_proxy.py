"""When a proxy is used."""

from __future__ import annotations

import pytest

from muster.errors import ConfigError
from muster.kube.auth.endpoint import Endpoint
from muster.kube.transport.proxy import connect_request, proxy_for

ENVIRON = {"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": "inner.corp,.svc, 10.0.0.0/8,odd/rule"}


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
        ("https://[::1]:6443", ""),
        ("https://localhost:6443", ""),
        ("http://outer.example", ""),
    ],
)
def test_the_environment_names_the_proxy_and_its_exceptions(url: str, proxy: str) -> None:
    assert proxy_for(Endpoint(url), ENVIRON) == proxy


def test_the_proxy_of_the_kubeconfig_takes_precedence_over_the_environment() -> None:
    assert proxy_for(Endpoint("https://127.0.0.1", proxy="http://own:1"), ENVIRON) == "http://own:1"
    assert proxy_for(Endpoint("https://a"), {"https_proxy": "bare:1"}) == "http://bare:1"
    assert proxy_for(Endpoint("https://a"), {**ENVIRON, "NO_PROXY": "*"}) == ""


def test_a_proxy_of_another_scheme_is_rejected() -> None:
    with pytest.raises(ConfigError, match="proxy-url of context c: 'socks5://p:1' is not"):
        proxy_for(Endpoint("https://a", name="c", proxy="socks5://p:1"), {})


def test_a_tunnel_request_names_the_server() -> None:
    asked = b"CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n"
    assert connect_request("http://proxy:3128", "a", 443) == asked
    assert b"CONNECT [::1]:6443 HTTP" in connect_request("http://proxy:3128", "::1", 6443)


def test_the_login_of_a_proxy_is_in_its_url() -> None:
    asked = connect_request("http://me:p%40ss@proxy:3128", "a", 443)
    assert b"\r\nProxy-Authorization: Basic bWU6cEBzcw==\r\n" in asked
