"""The programs that run beside a model, with an ordinary Python."""

from __future__ import annotations

import io
import json
import os
import struct
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import numpy
import pytest

from kubekit.errors import UsageError
from muster.client.models import model_runs, runner_pod
from muster.client.models.predict_program import MARK


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    command = runner_pod.python_command(program, *arguments)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.defpath}"
    return subprocess.run(command, capture_output=True, env={"PATH": path}, check=False)


def predict(folder: Path, form: str, given: object) -> Any:
    result = run("predict_program", str(folder), form, json.dumps(given))
    line = result.stdout.decode().splitlines()[-1]
    assert line.startswith(MARK), result.stderr
    return json.loads(line.removeprefix(MARK))


@pytest.fixture
def linear(tmp_path: Path) -> Path:
    numpy.savez(tmp_path / "model.npz", weights=numpy.eye(3))
    return tmp_path


def test_a_linear_classifier_predicts(linear: Path) -> None:
    answer = predict(linear, "npz", {"inputs": [[0, 5, 0], [0, 0, 5]]})["prediction"]

    assert answer["classes"] == [1, 2]
    assert [round(sum(row), 6) for row in answer["probabilities"]] == [1, 1]


def test_without_an_input_the_arrays_are_described(linear: Path) -> None:
    answer = predict(linear, "npz", {})["prediction"]

    assert answer["tensors"]["weights"]["shape"] == [3, 3]


def test_an_input_of_the_wrong_size_is_an_error(linear: Path) -> None:
    error = predict(linear, "npz", {"inputs": [[1]]})["error"]

    assert error == "ValueError: a row of the input has 1 numbers, and the model takes 3"


def test_arrays_that_would_run_code_are_not_loaded(tmp_path: Path) -> None:
    numpy.savez(tmp_path / "model.npz", weights=numpy.array([{"a": 1}], dtype=object))

    assert "allow_pickle" in predict(tmp_path, "npz", {})["error"]


def test_a_missing_library_is_named(tmp_path: Path) -> None:
    error = "the job's environment has no onnxruntime"
    assert predict(tmp_path, "ONNX", {}) == {"error": error, "missing": "onnxruntime"}


def test_safetensors_are_listed(tmp_path: Path) -> None:
    header = json.dumps({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    (tmp_path / "m.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(8))

    answer = predict(tmp_path, "safetensors", {})["prediction"]
    assert answer == {"tensors": {"w": {"dtype": "F32", "shape": [2]}}}


def test_the_archive_has_the_files_and_no_links(tmp_path: Path) -> None:
    folder = tmp_path / "7"
    (folder / "variables").mkdir(parents=True)
    (folder / "saved_model.pb").write_bytes(b"pb")
    (folder / "variables" / "index").write_bytes(b"i")
    (folder / "link").symlink_to("/etc/passwd")
    os.mkfifo(folder / "fifo")

    result = run("archive_program", str(folder))
    with tarfile.open(fileobj=io.BytesIO(result.stdout)) as archive:
        assert sorted(archive.getnames()) == ["7/saved_model.pb", "7/variables/index"]


def test_the_archive_of_a_deleted_version_is_an_error(tmp_path: Path) -> None:
    result = run("archive_program", str(tmp_path / "gone"))

    assert result.returncode == 1
    assert b"is not there any more" in result.stderr


@pytest.mark.parametrize("text", ["{", "", "[" * 60_000, "\udc00", '"' + "x" * (70 << 10) + '"'])
def test_an_input_that_is_no_json_or_too_large_is_rejected(text: str) -> None:
    with pytest.raises(UsageError, match="the input is"):
        model_runs._check_input(text)
