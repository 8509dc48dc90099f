"""Functions as jobs from an async program."""

from __future__ import annotations

import asyncio

import pytest

import muster
from muster import aio

pytestmark = pytest.mark.slow


async def test_functions_run_side_by_side(cluster: muster.LocalCluster, namespace: str) -> None:
    offset = 1

    async def train(number: int) -> int:
        await asyncio.sleep(0)
        return number + offset

    async def answer(number: int) -> int:
        job = await aio.run(train, (number,), kind="jax", cluster=cluster, namespace=namespace)
        return int(await job.result(timeout="2m"))

    assert list(await asyncio.gather(answer(1), answer(2))) == [2, 3]


async def test_an_exception_is_raised_where_it_is_awaited(
    cluster: muster.LocalCluster, namespace: str
) -> None:
    job = await aio.run(
        lambda: {"a": 1}["key"], kind="jax", name="fails", cluster=cluster, namespace=namespace
    )

    with pytest.raises(KeyError, match="key"):
        await job.result(timeout="2m")
