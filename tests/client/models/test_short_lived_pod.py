"""A pod for one request is waited for as long as there is hope, and deleted whatever happens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from muster.api.core import Pod
from muster.api.kinds import BATCH_JOBS, PODS
from muster.api.meta import Key, Raw
from muster.client.models.short_lived_pod import created, read_log, wait_until
from muster.errors import MusterError, NotFound

if TYPE_CHECKING:
    from muster.client.models.short_lived_pod import Find


def found(*states: Raw | str) -> Find:
    """The states of a pod one after the other; the last one stays."""
    rows = list(states)

    async def find() -> Pod | str:
        row = rows.pop(0) if len(rows) > 1 else rows[0]
        return row if isinstance(row, str) else msgspec.convert({"status": row}, Pod)

    return find


async def test_a_pod_is_waited_for() -> None:
    find = found("", {"phase": "Running"}, {"phase": "Failed"})
    assert (await wait_until("finished", "p", find, 9)).status.phase == "Failed"
    find = found({"phase": "Pending"}, {"phase": "Running"})
    assert (await wait_until("running", "p", find, 9)).status.phase == "Running"


@pytest.mark.parametrize(
    ("state", "problem"),
    [
        ("", "p is not running after 0.1 seconds: it has no pod yet"),
        ("no quota", "p is not running after 0.1 seconds: no quota"),
        ({}, "p is not running after 0.1 seconds: Pending"),
        ({"conditions": [{"message": "0/3 nodes"}]}, "p is not running after 0.1 seconds: 0/3"),
        ({"phase": "Succeeded"}, r"p has ended \(Succeeded\)"),
    ],
)
async def test_a_pod_that_does_not_run_says_why(state: Raw | str, problem: str) -> None:
    with pytest.raises(MusterError, match=problem):
        await wait_until("running", "p", found(state), 0.1)


async def test_an_image_that_cannot_be_pulled_ends_the_wait_at_once() -> None:
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
    state = {"phase": "Pending", "containerStatuses": [{"name": "c", "state": waiting}]}

    with pytest.raises(MusterError, match="cannot start: ImagePullBackOff: no such") as caught:
        await wait_until("running", "p", found(state), 3600, "Name another.")
    assert caught.value.hint == "Name another."


class Server:
    """Remembers what was deleted."""

    def __init__(self) -> None:
        self.deleted: list[tuple[str, Key, Any]] = []

    async def create(self, kind: Any, body: Raw) -> Raw:
        return {**body, "metadata": {"name": "n", "namespace": "team", "uid": "u"}}

    async def delete(self, kind: Any, key: Key, **options: Any) -> None:
        self.deleted.append((kind.kind, key, options))
        raise NotFound("gone already", status=404)

    async def logs(self, pod: Key, *, container: str) -> Any:
        for chunk in (b"old ", b"ne", b"w\xff"):
            yield chunk


@pytest.mark.parametrize(("kind", "grace"), [(PODS.read_as(dict), 0), (BATCH_JOBS, None)])
async def test_the_pod_is_deleted_also_after_an_error(kind: Any, grace: int | None) -> None:
    server = Server()

    with pytest.raises(ZeroDivisionError):
        async with created(server, kind, {}):  # type: ignore[arg-type]
            raise ZeroDivisionError

    options = {"uid": "u", "grace": grace, "propagation": "Background"}
    assert server.deleted == [(kind.kind, Key("team", "n"), options)]


async def test_of_a_long_log_the_end_is_read() -> None:
    server: Any = Server()

    assert await read_log(server, Key("team", "n"), "c", 4) == "new\ufffd"
