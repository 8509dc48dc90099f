"""The Python API for async programs."""

from __future__ import annotations

import asyncio
import threading

import pytest

import muster
from muster import aio
from muster.sdk.aio import in_thread
from tests.waiting import eventually


async def test_a_hundred_jobs_are_submitted_read_and_awaited_at_once(
    cluster: muster.LocalCluster, namespace: str
) -> None:
    async def train(number: int) -> tuple[list[str], str]:
        job = await aio.submit(
            "pytorch",
            f"echo job {number}",
            name=f"job-{number}",
            cpu="10m",
            memory="16Mi",
            cluster=cluster,
            namespace=namespace,
        )
        lines = [line async for line in job.logs(follow=True)]
        await job.wait(timeout="4m")
        return lines, await job.status()

    ended = await asyncio.gather(*map(train, range(100)))

    assert ended == [([f"job {number}"], "SUCCEEDED") for number in range(100)]
    assert len(await aio.list_jobs(cluster=cluster, namespace=namespace)) == 100


async def test_a_job_that_fails_raises_in_the_task(
    cluster: muster.LocalCluster, namespace: str
) -> None:
    job = await aio.submit("tf", "exit 3", name="bad", cluster=cluster, namespace=namespace)

    with pytest.raises(muster.JobFailed) as failed:
        await job.wait(timeout="1m")

    assert failed.value.exit_code == 3


async def test_cancelling_a_task_ends_the_watching_and_not_the_job(
    cluster: muster.LocalCluster, namespace: str
) -> None:
    before = threading.active_count()
    job = await aio.submit("tf", "sleep 300", name="long", cluster=cluster, namespace=namespace)
    await job.wait(timeout="1m", until="running")

    async def read() -> list[str]:
        return [line async for line in job.logs(follow=True)]

    tasks = [asyncio.create_task(job.wait()), asyncio.create_task(read())]
    await eventually(lambda: threading.active_count() >= before + 2)
    for task in tasks:
        task.cancel()
    ended = await asyncio.gather(*tasks, return_exceptions=True)

    assert all(isinstance(error, asyncio.CancelledError) for error in ended)
    await eventually(lambda: threading.active_count() == before, what="the threads end")
    assert await job.status() == "RUNNING"
    assert await aio.get_job("long", cluster=cluster, namespace=namespace) == job


async def test_a_call_that_raises_stop_iteration_ends() -> None:
    with pytest.raises(RuntimeError, match="raised StopIteration") as raised:
        await asyncio.wait_for(in_thread(lambda: next(iter(()))), 10)

    assert isinstance(raised.value.__cause__, StopIteration)


async def test_a_reader_that_stops_early_ends_its_thread(
    cluster: muster.LocalCluster, namespace: str
) -> None:
    before = threading.active_count()
    job = await aio.submit("tf", "yes", name="talkative", cluster=cluster, namespace=namespace)

    lines = job.logs(follow=True)
    async for line in lines:
        assert line == "y"
        break
    await lines.aclose()  # type: ignore[attr-defined] # it is an async generator

    await eventually(lambda: threading.active_count() == before, what="the thread ends")
    await job.delete()


async def test_a_cluster_of_its_own_does_not_block_the_loop() -> None:
    async with aio.local_cluster() as cluster:
        home = cluster.home
        job = await aio.submit("tf", "echo hi", name="a")
        await job.wait(timeout="1m")
        assert [line async for line in job.logs()] == ["hi"]

    assert not home.root.exists()


async def test_the_methods_of_a_cluster_are_coroutines() -> None:
    async with aio.local_cluster() as cluster:
        job = await cluster.submit("tf", "true", name="own")
        await job.wait(timeout="1m")
        assert isinstance(job, aio.Job)
        assert await cluster.get_job("own") == job
        assert await cluster.list_jobs() == [job]
        async with cluster.new_namespace() as namespace:
            assert await cluster.list_jobs(namespace=namespace) == []


def test_the_async_cluster_has_every_name_of_the_blocking_one() -> None:
    names = {name for name in vars(muster.LocalCluster) if not name.startswith("_")}

    assert names - {"start", "stop"} - vars(aio.LocalCluster).keys() == set()


def test_every_call_of_the_api_has_its_coroutine() -> None:
    ignored = {"of_summary"}
    verbs = {name for name in vars(muster.Job) if not name.startswith("_")} - ignored

    assert verbs <= {name for name in dir(aio.Job) if not name.startswith("_")}
    assert aio.submit.__doc__ == muster.submit.__doc__
