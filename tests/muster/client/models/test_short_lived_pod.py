"""A pod for one request is waited for as long as there is hope, and deleted whatever happens."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from kubekit.errors import MusterError
from kubekit.objects.core import Pod
from kubekit.objects.kinds import BATCH_JOBS, PODS
from kubekit.objects.meta import Key, Raw
from kubekit.request_errors import NotFound
from muster.client.models.short_lived_pod import created, read_log, wait_until

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


class SlowServer:
    """A server and the way to it: a request takes turns of the loop before it acts, and after."""

    def __init__(self) -> None:
        self.objects: set[Key] = set()
        self.created = False

    async def create(self, kind: Any, body: Raw) -> Raw:
        await turns(3)
        self.objects.add(Key("team", "n"))
        self.created = True
        await turns(3)
        return {**body, "metadata": {"name": "n", "namespace": "team", "uid": "u"}}

    async def delete(self, kind: Any, key: Key, **options: Any) -> None:
        await turns(3)
        self.objects.remove(key)
        await turns(3)


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.parametrize("again", [None, 1, 4], ids=["once", "twice at once", "twice"])
async def test_a_cancellation_at_any_step_leaves_nothing_behind(again: int | None) -> None:
    async def use(server: Any) -> None:
        async with created(server, BATCH_JOBS, {}):
            await turns(3)

    async def cancelled_after(steps: int) -> tuple[SlowServer, bool]:
        """The server, and whether the work was cancelled before its end."""
        server = SlowServer()
        work = asyncio.ensure_future(use(server))
        for pause in (steps, again):
            if pause is not None:
                await turns(pause)
                work.cancel()
        return server, isinstance(
            (await asyncio.gather(work, return_exceptions=True))[0], asyncio.CancelledError
        )

    seen = set()
    for steps in range(100):
        server, cancelled = await cancelled_after(steps)
        assert server.objects == set(), f"cancelled after {steps} turns of the loop"
        seen.add((server.created, cancelled))
        if not cancelled:
            break
    assert seen == {(False, True), (True, True), (True, False)}


async def test_of_a_long_log_the_end_is_read() -> None:
    server: Any = Server()

    assert await read_log(server, Key("team", "n"), "c", 4) == "new\ufffd"
