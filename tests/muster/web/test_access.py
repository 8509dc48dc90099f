"""Who gets in, on a running dashboard: tokens, cookies, hosts, origins, CSRF, headers."""

from __future__ import annotations

from html import unescape

import pytest
from aiohttp import ClientSession, CookieJar
from aiohttp.test_utils import TestClient, TestServer
from yarl import URL

from kubekit.client.auth.endpoint import Endpoint
from muster.web.access.gate import Policy
from muster.web.access.keys import new_token
from muster.web.app import make_app
from tests.muster.web.site import HTML, Site


async def test_the_token_becomes_a_strict_cookie_and_leaves_the_address(site: Site) -> None:
    token = new_token(site.policy.keys)
    async with stranger(site) as browser:
        answer = await browser.get("/jobs", params={"text": "a b", "token": token})
        cookie = answer.headers["Set-Cookie"]

        assert answer.headers["Refresh"] == "0; url=/jobs?text=a+b"
        for attribute in ("HttpOnly", "SameSite=Strict", "Path=/"):
            assert attribute in cookie
        assert (await browser.get("/jobs")).status == 200
    async with stranger(site) as other:
        answer = await other.get("/", params={"token": token}, headers=HTML)
        assert answer.status == 401
        assert "The address was used before" in await answer.text()


async def test_a_token_is_used_up_also_in_a_browser_that_is_logged_in(site: Site) -> None:
    """Other users of the machine can read the address in the list of processes."""
    token = new_token(site.policy.keys)

    assert (await site.client.get("/", params={"token": token})).status == 200
    async with stranger(site) as other:
        assert (await other.get("/", params={"token": token})).status == 401
    assert (await site.client.get("/", params={"token": token})).status == 200


async def test_only_a_page_that_is_opened_uses_a_token(site: Site) -> None:
    token = new_token(site.policy.keys)
    async with stranger(site) as browser:
        assert (await browser.head("/", params={"token": token})).status == 401
        assert (await browser.get("/", params={"token": token})).status == 200


@pytest.mark.parametrize(
    "path", ["/", "/jobs", "/jobs/a/TFJob/b", "/stream", "/nothing", "/healthzz", "/healthz/x"]
)
async def test_without_a_session_nothing_is_shown(site: Site, path: str) -> None:
    async with stranger(site) as browser:
        answer = await browser.get(path, headers=HTML)

        assert answer.status == 401
        assert "<code>arena open</code> opens the dashboard" in await answer.text()


async def test_health_and_static_files_need_no_session(site: Site) -> None:
    async with stranger(site) as browser:
        assert await (await browser.get("/healthz")).text() == "ok\n"
        assert (await browser.get("/static/app.css")).status == 200


@pytest.mark.parametrize("start", ["//", "/\\", "/\\/\\"])
async def test_the_address_after_a_login_is_never_another_site(site: Site, start: str) -> None:
    token = new_token(site.policy.keys)
    async with ClientSession() as browser:
        url = URL(f"{site.origin}{start}evil.example/?token={token}", encoded=True)
        answer = await browser.get(url)

        assert answer.headers["Refresh"] == "0; url=/evil.example/"


async def test_another_host_name_is_refused(site: Site) -> None:
    answer = await site.client.get("/jobs", headers={"Host": "evil.example:7080"})

    assert answer.status == 403
    assert "not served as 'evil.example:7080'" in await answer.text()


async def test_a_change_needs_the_own_origin_and_the_csrf_token(site: Site) -> None:
    path, csrf = "/stream/x/topics", await site.csrf()
    good = {"Origin": site.origin, "X-CSRF-Token": csrf}
    bad = [
        {"X-CSRF-Token": csrf},
        {**good, "Origin": "http://127.0.0.1:1"},
        {**good, "X-CSRF-Token": "x"},
        {"Origin": site.origin},
    ]

    assert (await site.client.post(path, headers=good)).status == 404  # let in: no such stream
    assert [(await site.client.post(path, headers=h)).status for h in bad] == [403] * len(bad)
    form = await site.client.post(path, headers={"Origin": site.origin}, data={"csrf": csrf})
    assert form.status == 404


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("application/x-www-form-urlencoded", b"csrf=\xff"),
        ("application/x-www-form-urlencoded; charset=none", b"csrf=x"),
    ],
)
async def test_a_form_that_cannot_be_read_gets_one_sentence(
    site: Site, content_type: str, body: bytes
) -> None:
    headers = {"Origin": site.origin, "Content-Type": content_type}
    answer = await site.client.post("/submit", headers=headers, data=body)

    assert answer.status == 400
    assert "The form cannot be read" in await answer.text()


@pytest.mark.parametrize("boundary", ["", "; boundary=x"])
async def test_files_are_not_read(site: Site, boundary: str) -> None:
    headers = {"Origin": site.origin, "Content-Type": f"multipart/form-data{boundary}"}
    answer = await site.client.post("/submit", headers=headers, data=b"--x\r\nbroken")

    assert answer.status == 403
    assert "no valid CSRF token" in await answer.text()


async def test_every_answer_has_the_security_headers(site: Site) -> None:
    for path in ("/jobs", "/static/app.js", "/nothing", "/healthz"):
        headers = (await site.client.get(path)).headers
        policy = headers["Content-Security-Policy"]

        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["X-Frame-Options"] == "DENY"
        assert "Server" not in headers


@pytest.mark.parametrize("policy", [Policy(read_only=True)])
async def test_a_read_only_dashboard_changes_nothing(site: Site, policy: Policy) -> None:
    assert "read-only" in await site.get("/jobs")
    answer = await site.post("/jobs", b"")

    assert answer.status == 403
    assert "This dashboard is read-only." in await answer.text()


PROXY = Policy(proxy_hosts=("muster.example",))


@pytest.mark.parametrize("policy", [PROXY])
async def test_behind_a_proxy_the_token_of_the_user_is_used(site: Site, policy: Policy) -> None:
    site.add_job("mine")
    owner = site.endpoint.credentials.get().authorization
    headers = {"Host": "muster.example", "Authorization": owner}

    assert "mine" in await site.get(f"/jobs?namespace={site.namespace}", headers=headers)
    wrong = {**headers, "Authorization": "Bearer wrong"}
    for path in ("/", "/jobs"):
        assert "does not accept the token" in await site.get(path, status=401, headers=wrong)
    await site.get("/jobs", status=401, headers={"Host": "muster.example"})
    await site.get("/jobs", status=403, headers={"Authorization": owner})


@pytest.mark.parametrize("policy", [PROXY])
async def test_a_user_sees_what_the_api_allows(site: Site, policy: Policy) -> None:
    headers = {"Host": "muster.example", "Authorization": site.service_account("few")}
    refused = await site.get("/jobs", status=403, headers=headers)
    assert "Not allowed" in refused
    assert f"system:serviceaccount:{site.namespace}:few" in unescape(refused)

    headers["Authorization"] = site.service_account("some", "tfjobs")
    page = await site.get("/jobs", headers=headers)
    assert "Not shown, because you may not list them: jaxjobs, mpijobs, pods, pytorchjobs" in page


async def test_a_cluster_that_does_not_answer_has_a_page() -> None:
    app = make_app(Endpoint("https://127.0.0.1:1"), policy := Policy())
    async with TestClient(TestServer(app, host="127.0.0.1")) as client:
        await client.get("/", params={"token": new_token(policy.keys)})
        answer = await client.get("/jobs", headers=HTML)

        assert answer.status == 502
        assert "The cluster does not answer" in await answer.text()


def stranger(site: Site) -> ClientSession:
    """A browser without a session."""
    return ClientSession(site.origin, cookie_jar=CookieJar(unsafe=True))
