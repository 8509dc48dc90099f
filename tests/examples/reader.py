"""Asks TensorBoard and TensorFlow, in the training environment, what training wrote."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.examples.training import PYTHON, need

Losses = dict[int, float]


class Reader:
    """One process that answers questions about files; see `reading.py`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, **question: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(question), file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())

    def losses(self, logdir: Path) -> Losses:
        return dict(self.ask(logdir=str(logdir)))


@pytest.fixture(scope="module")
def reader() -> Iterator[Reader]:
    need("tensorflow", "tensorflow", "tensorboard")
    script = str(Path(__file__).with_name("reading.py"))
    with subprocess.Popen(
        [PYTHON, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield Reader(process)
        assert process.stdin is not None
        process.stdin.close()
