"""Requests that another page sends through the user's browser are refused."""

from __future__ import annotations

import pytest

from muster.web.access.request_facts import (
    LOOPBACK_NAMES,
    foreign_page,
    malformed,
    sends_in_the_clear,
    wrong_host,
)

HOST = {"Host": "127.0.0.1:7080"}


@pytest.mark.parametrize("host", ["127.0.0.1:7080", "localhost:9000", "localhost", "[::1]:7080"])
def test_loopback_names_are_accepted_with_any_port(host: str) -> None:
    assert wrong_host(host, LOOPBACK_NAMES) == ""


@pytest.mark.parametrize(
    "host", ["", "evil.example:7080", "127.0.0.1.evil.example", "localhost.evil", "10.0.0.1"]
)
def test_other_names_are_refused(host: str) -> None:
    """DNS rebinding: a name of the attacker that points to this machine."""
    assert "not served as" in wrong_host(host, LOOPBACK_NAMES)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Host": "["},
        {"Host": "127.0.0.1:99999"},
        {"Host": "127.0.0.1:abc"},
        {"Host": "127.0.0.1:"},
        {"Host": "me@127.0.0.1:7080"},
        {**HOST, "Origin": "http://["},
        {**HOST, "Origin": "\udcff"},
        {**HOST, "X-CSRF-Token": "\udcff"},
    ],
)
def test_malformed_headers_are_named(headers: dict[str, str]) -> None:
    assert "The header" in malformed(headers)


@pytest.mark.parametrize("host", ["127.0.0.1:7080", "[::1]:7080", "LOCALHOST", "a-b.example:1"])
def test_ordinary_headers_are_not_malformed(host: str) -> None:
    assert malformed({"Host": host, "Origin": f"http://{host}"}) == ""
    assert malformed({"Host": host, "Origin": "null"}) == ""


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("GET", {}),
        ("POST", {"Origin": "http://127.0.0.1:7080"}),
        ("POST", {"Sec-Fetch-Site": "same-origin"}),
        ("GET", {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate"}),
        ("GET", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}),
    ],
)
def test_own_pages_and_plain_links_are_accepted(method: str, headers: dict[str, str]) -> None:
    assert foreign_page(method, {**HOST, **headers}) == ""


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("POST", {}),
        ("POST", {"Origin": "null"}),
        ("POST", {"Origin": "http://evil.example"}),
        ("POST", {"Origin": "http://127.0.0.1:30000"}),
        ("GET", {"Origin": "http://127.0.0.1:30000"}),
        ("GET", {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors"}),
        ("POST", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}),
    ],
)
def test_requests_of_other_pages_are_refused(method: str, headers: dict[str, str]) -> None:
    assert foreign_page(method, {**HOST, **headers}) != ""


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "127.0.0.1:7080"},
        {"Host": "localhost:7080", "Origin": "http://localhost:7080"},
        {"Host": "a.example", "X-Forwarded-Proto": "https"},
        {"Host": "a.example", "X-Forwarded-Proto": "HTTPS, http"},  # the browser's connection first
        {"Host": "a.example", "X-Forwarded-Proto": "https", "Origin": "https://a.example"},
    ],
)
def test_a_secret_may_be_sent_over_loopback_or_tls(headers: dict[str, str]) -> None:
    assert sends_in_the_clear(headers) == ""


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"X-Forwarded-Proto": "http"},
        {"X-Forwarded-Proto": "http, https"},
        {"X-Forwarded-Proto": "https", "Origin": "http://a.example"},
        {"Origin": "https://a.example"},
    ],
)
def test_a_secret_is_not_sent_where_nothing_tells_of_tls(headers: dict[str, str]) -> None:
    assert "Open https://a.example" in sends_in_the_clear({"Host": "a.example:80", **headers})
