"""Users who sign in with their own tokens: the form, the session, its end, and other pages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from html import unescape

import pytest
from aiohttp import ClientResponse, ClientSession, CookieJar

from kubekit.client.client import Client
from kubekit.client.request import Response
from kubekit.objects.kinds import NAMESPACES, SERVICE_ACCOUNTS
from kubekit.objects.meta import Key
from kubekit.request_errors import Forbidden, Unreachable
from muster.contract.job_kinds import TFJOBS
from muster.web.access import sign_in
from muster.web.access.gate import Policy
from muster.web.cluster import live_cluster, watched_objects
from muster.web.context import CLUSTERS
from muster.web.pages import stream
from tests.muster.web.objects import job
from tests.muster.web.site import HTML, Site, rows

PUBLIC = "muster.example"
TLS = {"Host": PUBLIC, "X-Forwarded-Proto": "https"}
"""The headers of a proxy that terminates TLS."""


@pytest.fixture
def policy() -> Policy:
    return Policy(sign_in=True, hosts=(PUBLIC,))


@asynccontextmanager
async def browser(site: Site) -> AsyncIterator[ClientSession]:
    jar = CookieJar(unsafe=True)
    async with ClientSession(site.origin, cookie_jar=jar, headers=HTML) as session:
        yield session


async def send_form(session: ClientSession, site: Site, token: str, **given: str) -> ClientResponse:
    data = {"token": token, "page": "/jobs", **given}
    return await session.post("/sign-in", data=data, headers={"Origin": site.origin})


def owner(site: Site) -> str:
    return site.endpoint.credentials.get().authorization.removeprefix("Bearer ")


async def test_a_page_leads_through_the_form_to_itself(site: Site) -> None:
    site.add_job("mine")
    path = f"/jobs?namespace={site.namespace}"
    async with browser(site) as session:
        answer = await session.get(path)
        form = unescape(await answer.text())
        assert answer.status == 401
        assert "This browser is not signed in" in form
        assert f'name="page" value="{path}"' in form

        answer = await send_form(session, site, owner(site), page=path)

        assert (answer.status, answer.url.path_qs) == (200, path)
        page = await answer.text()
        assert "mine" in page
        assert "Sign out" in page


async def test_the_cookie_is_a_number_that_no_other_site_gets_and_never_the_token(
    site: Site,
) -> None:
    async with browser(site) as session:
        data = {"token": owner(site)}
        headers = {"Origin": site.origin}
        answer = await session.post("/sign-in", data=data, headers=headers, allow_redirects=False)
        cookie = answer.headers["Set-Cookie"]

        assert answer.status == 303
        for attribute in ("HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=43200"):
            assert attribute in cookie
        assert owner(site) not in cookie

        # Behind an Ingress, the cookie is for TLS alone.
        headers = {**TLS, "Origin": f"https://{PUBLIC}"}
        answer = await session.post("/sign-in", data=data, headers=headers, allow_redirects=False)
        assert answer.headers["Set-Cookie"].startswith("__Host-muster=")
        assert "Secure" in answer.headers["Set-Cookie"]


@pytest.mark.parametrize(
    ("token", "sentence"),
    [
        ("wrong", "The cluster does not accept the token: it is wrong, revoked or expired."),
        ("", "The token is missing."),
        ("two words", "This is not a bearer token"),
        ("line\nbreak", "This is not a bearer token"),
    ],
)
async def test_a_wrong_token_shows_the_form_again(site: Site, token: str, sentence: str) -> None:
    async with browser(site) as session:
        answer = await send_form(session, site, token)
        page = unescape(await answer.text())

        assert answer.status in (400, 401)
        assert sentence in page
        assert 'name="token"' in page
        assert "Set-Cookie" not in answer.headers
        assert (await session.get("/jobs")).status == 401


@pytest.mark.parametrize(
    ("headers", "sentence"),
    [
        ({"Origin": "http://evil.example"}, "comes from another page"),
        ({}, "the header Origin is missing"),
        ({"Host": "evil.example", "Origin": "http://evil.example"}, "not served as 'evil.example'"),
        ({"Host": PUBLIC, "Origin": f"http://{PUBLIC}"}, "without TLS"),
        ({"Host": PUBLIC, "Origin": f"https://{PUBLIC}"}, "without TLS"),
        ({"Host": PUBLIC, "Sec-Fetch-Site": "same-origin"}, "without TLS"),
    ],
)
async def test_no_other_page_and_no_clear_text_can_sign_in(
    site: Site, headers: Mapping[str, str], sentence: str
) -> None:
    async with browser(site) as session:
        answer = await session.post("/sign-in", data={"token": owner(site)}, headers=headers)

        assert answer.status == 403
        assert sentence in unescape(await answer.text())


@pytest.mark.parametrize("proto", [{}, {"X-Forwarded-Proto": "http"}])
async def test_a_page_in_clear_text_does_not_ask_for_a_token(
    site: Site, proto: Mapping[str, str]
) -> None:
    """A LoadBalancer that passes connections on adds no header."""
    async with browser(site) as session:
        answer = await session.get("/", headers={"Host": PUBLIC, **proto})
        page = unescape(await answer.text())

        assert answer.status == 401
        assert f"without TLS, so it takes no token. Open https://{PUBLIC}" in page
        assert "X-Forwarded-Proto: https" in page
        assert 'name="token"' not in page


async def test_a_proxy_that_ends_tls_gets_the_form(site: Site) -> None:
    assert 'name="token"' in await site.get("/", headers=TLS, status=401)


@pytest.mark.parametrize("page", ["//evil.example", "/\\evil.example", "\r\nX: y", "https://e.x"])
async def test_the_form_never_leads_to_another_site(site: Site, page: str) -> None:
    async with browser(site) as session:
        data = {"token": owner(site), "page": page}
        headers = {"Origin": site.origin}
        answer = await session.post("/sign-in", data=data, headers=headers, allow_redirects=False)
        target = answer.headers["Location"]

        assert target.startswith("/")
        assert target[1:2] not in ("/", "\\")
        assert "\r" not in target


async def test_signing_out_ends_the_session_and_its_watches(site: Site) -> None:
    clusters = site.client.server.app[CLUSTERS]  # type: ignore[attr-defined]
    async with browser(site) as session, browser(site) as other:
        page = await (await send_form(session, site, owner(site))).text()
        csrf = page.partition('name="csrf" value="')[2].partition('"')[0]
        cookie = next(iter(session.cookie_jar))
        other.cookie_jar.update_cookies({cookie.key: cookie.value})
        assert (await other.get("/jobs")).status == 200
        open_stream = await session.get("/stream")
        headers = {"Origin": site.origin}

        assert (await session.post("/sign-out", headers=headers)).status == 403  # without CSRF
        answer = await session.post("/sign-out", data={"csrf": csrf}, headers=headers)

        assert answer.status == 401
        assert (await other.get("/jobs")).status == 401  # the number is worth nothing any more
        await asyncio.wait_for(open_stream.read(), 10)  # the stream has an end
        assert clusters._entries == {}


@pytest.mark.parametrize("policy", [Policy(sign_in=True, read_only=True)])
async def test_a_user_signs_out_of_a_read_only_dashboard(site: Site, policy: Policy) -> None:
    async with browser(site) as session:
        page = await (await send_form(session, site, owner(site))).text()
        csrf = page.partition('name="csrf" value="')[2].partition('"')[0]
        headers = {"Origin": site.origin}

        assert (await session.post("/sign-out", headers=headers)).status == 403  # without CSRF
        answer = await session.post("/sign-out", data={"csrf": csrf}, headers=headers)

        assert answer.status == 401  # signed out, not refused
        assert "not signed in" in await answer.text()


async def test_a_page_that_is_on_its_way_has_the_csrf_token_of_its_reader(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watched_objects, "PATIENCE_SECONDS", 0.0)
    async with browser(site) as session:
        page = await (await send_form(session, site, owner(site))).text()
        assert "data-loading" in page
        csrf = page.partition('name="csrf" value="')[2].partition('"')[0]

        headers = {"Origin": site.origin}
        answer = await session.post("/sign-out", data={"csrf": csrf}, headers=headers)

        assert answer.status == 401  # signed out, not refused


async def test_a_revoked_token_shows_nothing_after_a_minute(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = site.service_account("leaver", "tfjobs", "pods").removeprefix("Bearer ")
    async with browser(site) as session:
        assert (await send_form(session, site, token)).status == 200
        site.api.delete(SERVICE_ACCOUNTS, Key(site.namespace, "leaver"))
        assert (await session.get("/jobs")).status == 200  # asked less than a minute ago

        monkeypatch.setattr(sign_in, "VERIFY_SECONDS", 0.0)
        answer = await session.get("/jobs")

        assert answer.status == 401
        assert "wrong, revoked or expired" in await answer.text()
        monkeypatch.undo()
        assert (await session.get("/jobs")).status == 401
        assert "not signed in" in await (await session.get("/jobs")).text()


@pytest.mark.parametrize("from_proxy", [False, True])
async def test_an_open_stream_ends_when_its_token_is_revoked(
    site: Site, monkeypatch: pytest.MonkeyPatch, from_proxy: bool
) -> None:
    monkeypatch.setattr(stream, "ALIVE_SECONDS", 0.05)
    monkeypatch.setattr(sign_in, "VERIFY_SECONDS", 0.0)
    authorization = site.service_account("leaver", "tfjobs", "pods")
    async with browser(site) as session:
        headers = {"Authorization": authorization} if from_proxy else {}
        if not from_proxy:
            await send_form(session, site, authorization.removeprefix("Bearer "))
        answer = await session.get("/stream", headers=headers)
        for _ in range(2):  # checked, and alive
            await asyncio.wait_for(answer.content.readuntil(b":\n\n"), 10)

        site.api.delete(SERVICE_ACCOUNTS, Key(site.namespace, "leaver"))

        await asyncio.wait_for(answer.read(), 10)  # the stream has an end
        assert (await session.get("/stream", headers=headers)).status == 401


async def test_an_open_stream_survives_a_pause_of_the_api_server(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unreachable(*_: object) -> str:
        raise Unreachable("no answer")

    monkeypatch.setattr(stream, "ALIVE_SECONDS", 0.05)
    monkeypatch.setattr(sign_in, "VERIFY_SECONDS", 0.0)
    async with browser(site) as session:
        await send_form(session, site, owner(site))
        async with session.get("/stream") as answer:
            monkeypatch.setattr(sign_in.Users, "_ask", unreachable)

            for _ in range(3):
                await asyncio.wait_for(answer.content.readuntil(b":\n\n"), 10)


def test_a_stream_is_checked_within_a_minute() -> None:
    assert sign_in.VERIFY_SECONDS + stream.ALIVE_SECONDS <= 60.0


async def test_a_user_of_one_namespace_names_it(site: Site) -> None:
    """Kubernetes does not tell in which namespaces a user may read."""
    mine = site.api.create(NAMESPACES.read_as(dict), {"metadata": {"generateName": "mine-"}})
    name = mine["metadata"]["name"]
    site.api.create(TFJOBS, job("job-of-mine", namespace=name))
    token = site.service_account("member").removeprefix("Bearer ")
    site.grant("member", "*", namespace=name)
    async with browser(site) as session:
        answer = await send_form(session, site, token)
        assert answer.status == 403

        page = await (await send_form(session, site, token, namespaces=f"{name}, x")).text()
        assert [row[0] for row in rows(page)] == ["job-of-mine"]
        assert f"Shown: namespace {name} only" in page

        answer = await send_form(session, site, token, namespaces="a/b")
        assert "'a/b' is not the name of a namespace" in unescape(await answer.text())


async def test_a_proxy_may_pass_the_token_on(site: Site) -> None:
    headers = {**TLS, "Authorization": f"Bearer {owner(site)}"}
    assert "Jobs" in await site.get("/jobs", headers=headers)

    page = await site.get("/jobs", headers={**headers, "Authorization": "Bearer wrong"}, status=401)
    assert "does not accept the token" in page


@pytest.mark.parametrize("proto", [{}, {"X-Forwarded-Proto": "http"}])
@pytest.mark.parametrize("path", ["/jobs", "/stream"])
async def test_a_token_in_clear_text_is_refused_and_never_used(
    site: Site, monkeypatch: pytest.MonkeyPatch, path: str, proto: Mapping[str, str]
) -> None:
    async def ask(*_: object) -> str:
        raise AssertionError("the token was sent to the API server")

    monkeypatch.setattr(sign_in.Users, "_ask", ask)
    headers = {"Host": PUBLIC, "Authorization": f"Bearer {owner(site)}", **proto}
    page = unescape(await site.get(path, headers=headers, status=403))

    assert f"without TLS, so it takes no token. Open https://{PUBLIC}" in page
    assert "in clear text: if others can read it, revoke it" in page


@pytest.mark.parametrize("policy", [Policy(sign_in=True, hosts=("Muster.Example",))])
async def test_the_name_of_a_host_has_no_case(site: Site, policy: Policy) -> None:
    authorization = {"Authorization": f"Bearer {owner(site)}"}
    for name in (PUBLIC, "MUSTER.example"):
        headers = {**TLS, "Host": name, **authorization}
        assert "Jobs" in await site.get("/jobs", headers=headers)


async def test_the_form_says_which_namespaces_to_name(site: Site) -> None:
    form = await site.get("/", status=401)
    assert "Namespaces you can read, if you cannot read all, for example team-a, team-b." in form


async def test_strangers_with_wrong_tokens_occupy_nothing(site: Site) -> None:
    clusters = site.client.server.app[CLUSTERS]  # type: ignore[attr-defined]
    for number in range(3):
        await site.get("/jobs", headers={"Authorization": f"Bearer x{number}"}, status=401)

    assert clusters._entries == {}


@pytest.mark.parametrize("form", ["Bearer  x{}", "Bearer {token} junk{}", "Bearer \tx{}", "Bearer"])
async def test_a_header_that_is_not_one_token_occupies_nothing(site: Site, form: str) -> None:
    """kube-apiserver would take it for no token, or for the token before the space."""
    clusters = site.client.server.app[CLUSTERS]  # type: ignore[attr-defined]
    for number in range(2):
        headers = {"Authorization": form.format(number, token=owner(site))}
        answer = await site.client.get("/jobs", headers=headers)
        assert answer.status in (400, 401)

    assert clusters._entries == {}


DENIED = "{} may not create selfsubjectreviews.authentication.k8s.io; add the rule …"


@pytest.mark.parametrize(("user", "status"), [("system:anonymous", 401), ("ann", 200)])
async def test_a_403_accepts_a_token_unless_it_names_the_anonymous_user(
    site: Site, monkeypatch: pytest.MonkeyPatch, user: str, status: int
) -> None:
    async def send(*_: object) -> None:
        raise Forbidden(DENIED.format(user), status=403)

    async with browser(site) as session:
        with monkeypatch.context() as patched:
            patched.setattr(Client, "send", send)
            data, headers = {"token": owner(site), "page": "/healthz"}, {"Origin": site.origin}
            answer = await session.post("/sign-in", data=data, headers=headers)

        assert answer.status == status


async def test_an_answer_about_the_anonymous_user_accepts_no_token(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = b'{"status": {"userInfo": {"username": "system:anonymous"}}}'

    async def send(*_: object) -> Response:
        return Response(201, {}, body)

    monkeypatch.setattr(Client, "send", send)
    async with browser(site) as session:
        assert (await send_form(session, site, "x")).status == 401


async def test_all_tokens_and_namespaces_of_a_user_count_together(site: Site) -> None:
    clusters = site.client.server.app[CLUSTERS]  # type: ignore[attr-defined]
    async with browser(site) as session:
        for number in range(live_cluster.MAX_OF_ONE_USER + 2):
            answer = await send_form(session, site, owner(site), namespaces=f"default,n{number}")
            assert answer.status == 200

    assert len(clusters._entries) == live_cluster.MAX_OF_ONE_USER
    other = site.service_account("other", "tfjobs")
    await site.get("/jobs", headers={"Authorization": other})


async def test_a_large_form_is_not_read(site: Site) -> None:
    async with browser(site) as session:
        answer = await send_form(session, site, "x" * 70_000)

        assert answer.status == 400
        assert "too large" in await answer.text()


async def test_the_page_survives_a_pause_of_the_api_server(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with browser(site) as session:
        assert (await send_form(session, site, owner(site))).status == 200

        async def unreachable(*_: object) -> str:
            raise Unreachable("no answer")

        monkeypatch.setattr(sign_in, "VERIFY_SECONDS", 0.0)
        monkeypatch.setattr(sign_in.Users, "_ask", unreachable)
        assert (await session.get("/jobs")).status == 200

        async with browser(site) as other:
            answer = await send_form(other, site, "never-seen")
            assert answer.status == 502
