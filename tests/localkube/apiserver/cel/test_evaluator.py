"""The process that evaluates expressions whose cost is not known before."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from localkube.apiserver.cel.batches import TOO_MUCH, Batch, Result
from localkube.apiserver.cel.evaluator import Evaluator
from localkube.apiserver.cel.functions.authorizer import Question

LOOP = "self.all(x, x > 0)"


async def test_a_module_in_the_current_directory_is_not_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "muster.py").write_text("raise SystemExit(1)\n")
    monkeypatch.chdir(tmp_path)
    evaluator = Evaluator()
    try:
        [[result]] = await evaluator.run([Batch({"self": [1, 2]}, [LOOP])])
    finally:
        await evaluator.close()

    assert result == Result(value=True)


async def test_an_expression_without_end_ends_its_process_and_the_next_has_another() -> None:
    evaluator = Evaluator()
    grows = "['x']" + ".map(a, a + a + a + a)" * 20 + ".size() > 0"
    try:
        [[endless]] = await evaluator.run([Batch({}, [grows])])
        [[result]] = await evaluator.run([Batch({"self": [0]}, [LOOP])])
    finally:
        await evaluator.close()

    assert endless.error == TOO_MUCH
    assert result == Result(value=False)


async def test_questions_of_the_process_are_answered_in_the_thread_of_the_server() -> None:
    evaluator = Evaluator()
    asked: list[tuple[int, str]] = []

    def ask(question: Question) -> tuple[bool, str]:
        asked.append((threading.get_ident(), question["path"]))
        return question["path"] == "/a", ""

    texts = [f"self.all(x, authorizer.path('{p}').check('get').allowed())" for p in ("/a", "/b")]
    try:
        [results] = await evaluator.run([Batch({"self": [1], "authorizer": {}}, texts)], ask)
    finally:
        await evaluator.close()

    assert [result.value for result in results] == [True, False]
    assert asked == [(threading.get_ident(), "/a"), (threading.get_ident(), "/b")]


async def test_results_that_nobody_waits_for_are_not_those_of_the_next_request() -> None:
    evaluator = Evaluator()
    given_up = asyncio.create_task(evaluator.run([Batch({"self": [0]}, [LOOP])]))
    await asyncio.sleep(0)  # until the batch is handed to the thread
    given_up.cancel()
    try:
        [[result]] = await evaluator.run([Batch({"self": [1]}, [LOOP])])
    finally:
        await evaluator.close()

    assert given_up.cancelled()
    assert result == Result(value=True)
