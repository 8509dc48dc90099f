"""Reads the files of a training run with TensorBoard and TensorFlow, in their environment."""

from __future__ import annotations

import json
import os
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
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    need("tensorflow", "tensorflow", "tensorboard")
    script = str(Path(__file__).with_name("reading.py"))
    # Keras writes its settings into the home directory otherwise.
    env = {**os.environ, "KERAS_HOME": str(tmp_path_factory.mktemp("keras"))}
    with subprocess.Popen(
        [PYTHON, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
    ) as process:
        yield Reader(process)
        assert process.stdin is not None
        process.stdin.close()
