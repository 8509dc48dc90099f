"""The process that evaluates expressions whose cost is not known before."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.local.apiserver.cel.batches import TOO_MUCH, Batch, Result
from muster.local.apiserver.cel.evaluator import Evaluator

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
