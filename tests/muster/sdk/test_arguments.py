"""Keyword arguments of `submit` become the fields of a submission, as flags would."""

from __future__ import annotations

import math
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from kubekit.errors import UsageError
from muster.jobs.build.flags import PyTorch, TensorFlow
from muster.sdk.arguments import errors_in_python, fields_of, kind_of, seconds_of


def fields(**arguments: Any) -> dict[str, Any]:
    return fields_of(TensorFlow, "train", {"name": "j", **arguments})


def test_values_of_python_are_written_as_flags_take_them() -> None:
    given = fields(
        workers=4,
        gang=True,
        cpu=1.5,
        env={"EPOCHS": 3, "NAME": "a=b"},
        data={"claim": "/data"},
        data_dir=[Path("/here"), "/there:/inside"],
        running_timeout=timedelta(hours=2),
        label="team=a",
        image=None,
    )

    assert given == {
        "command": ("train",),
        "name": "j",
        "workers": 4,
        "gang": True,
        "cpu": "1.5",
        "env": ("EPOCHS=3", "NAME=a=b"),
        "data": ("claim:/data",),
        "data_dir": ("/here", "/there:/inside"),
        "running_timeout": "7200s",
        "label": ("team=a",),
    }


def test_the_words_of_a_command_stay_one_argument_each() -> None:
    words = ["python", "train.py", "--note", "a b; $HOME"]

    given = fields_of(TensorFlow, words, {"name": "j"})

    assert given["command"] == ("python train.py --note 'a b; $HOME'",)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"worker": 2}, "no such argument: worker; did you mean workers?"),
        ({"gpu": 2}, "no such argument: gpu; did you mean gpus?"),
        ({"nproc_per_node": 2}, "the argument nproc_per_node only for pytorch jobs"),
        ({"workers": 2.5}, "workers is '2.5'; write a whole number"),
        ({"gang": "perhaps"}, "gang is 'perhaps'; write true or false"),
        ({"env": {"A": None}}, "env is None; write a string"),
        ({"image": b"x"}, "image is b'x'; write a string"),
    ],
)
def test_a_wrong_argument_gets_a_sentence(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError) as wrong:
        fields(**arguments)

    assert sentence in str(wrong.value)


def test_the_name_is_needed() -> None:
    with pytest.raises(UsageError, match="needs the argument name"):
        fields_of(TensorFlow, "train", {})


@pytest.mark.parametrize("word", ["pytorch", "PyTorchJob", "pytorchjob"])
def test_a_kind_of_job_has_several_words(word: str) -> None:
    assert kind_of(word) is PyTorch


def test_an_unknown_kind_gets_the_nearest() -> None:
    with pytest.raises(UsageError, match="no such kind of job: pytroch; did you mean pytorch"):
        kind_of("pytroch")


def test_a_kind_that_is_no_text_gets_a_sentence() -> None:
    with pytest.raises(UsageError, match="no such kind of job: 3"):
        kind_of(3)  # type: ignore[arg-type]


def test_errors_name_arguments_and_not_flags() -> None:
    with pytest.raises(UsageError) as wrong, errors_in_python(TensorFlow):
        raise UsageError("--worker-cpu 'x' is invalid", hint="Write --worker-cpu=2, not --wait")

    assert str(wrong.value) == "worker_cpu 'x' is invalid"
    assert wrong.value.hint == "Write worker_cpu=2, not --wait"


def test_hints_are_written_as_python_is() -> None:
    with pytest.raises(UsageError) as wrong, errors_in_python(TensorFlow):
        raise UsageError("wrong", hint="Write --env=KEY=VALUE, or did you mean --memory=4Gi?")

    assert wrong.value.hint == 'Write env="KEY=VALUE", or did you mean memory="4Gi"?'


@pytest.mark.parametrize("command", [3, None, b"train", {"train": 1}])
def test_a_command_that_is_neither_text_nor_words_gets_a_sentence(command: Any) -> None:
    with pytest.raises(UsageError, match="write a string or a list of words"):
        fields_of(TensorFlow, command, {"name": "j"})


@pytest.mark.parametrize("command", ["", " ", []])
def test_an_empty_command_gets_an_example_in_python(command: Any) -> None:
    with pytest.raises(UsageError, match="the training command is missing") as wrong:
        fields_of(TensorFlow, command, {"name": "j"})

    assert wrong.value.hint == 'For example command="python train.py"'


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("2h", 7200.0),
        ("1h30m", 5400.0),
        ("10m", 600.0),
        (90, 90.0),
        (0.5, 0.5),
        (0, 0.0),
        (timedelta(minutes=5), 300.0),
        (None, math.inf),
    ],
)
def test_a_duration_has_several_forms(value: Any, seconds: float) -> None:
    assert seconds_of("timeout", value) == seconds


@pytest.mark.parametrize("value", ["2 hours", "", -1, True, math.nan, [1]])
def test_what_is_no_duration_is_refused_by_name(value: Any) -> None:
    with pytest.raises(UsageError, match="timeout") as wrong:
        seconds_of("timeout", value)

    assert wrong.value.hint == 'Write timeout="2h", "10m" or seconds.'
