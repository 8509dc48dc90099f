"""Lists and their pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.localkube.apiserver.running_server import ApiClient


CM = "/api/v1/namespaces/default/configmaps"


async def test_all_pages_of_a_list_show_the_same_revision(api: ApiClient) -> None:
    for name in "abcdef":
        await api.send("POST", CM, {"metadata": {"name": name}})
    names, token = [], ""
    while True:
        page = (await api.send("GET", f"{CM}?limit=2&continue={token}")).body
        names += [item["metadata"]["name"] for item in page["items"]]
        await api.send("DELETE", f"{CM}/e")
        await api.send("POST", CM, {"metadata": {"name": f"z{len(names)}"}})
        token = page["metadata"].get("continue", "")
        if not token:
            break

    assert names == list("abcdef")


async def test_a_selector_may_be_long(api: ApiClient) -> None:
    names = ",".join(f"name-{i}" for i in range(10_000))

    reply = await api.send("GET", f"{CM}?labelSelector=a+in+({names})")

    assert (reply.status, reply.body["items"]) == (200, [])
