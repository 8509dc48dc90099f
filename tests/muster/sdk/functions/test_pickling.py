"""Functions of all sorts travel by value, and load in a Python that has none of their modules."""

from __future__ import annotations

import functools
import pickle
import subprocess
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import cloudpickle
import pytest

from kubekit.errors import UsageError
from muster.sdk.functions.pickling import is_own, name_of, pickle_call
from tests.muster.sdk.functions import own_module
from tests.muster.sdk.functions.own_module import Model, scale

ELSEWHERE = """\
import pickle, sys
function, args, kwargs = pickle.loads(sys.stdin.buffer.read())
assert not any(name.startswith("tests") for name in sys.modules), sorted(sys.modules)
print(function(*args, **kwargs))
"""


def in_another_process(function: Any, *args: Any, **kwargs: Any) -> str:
    """Call the function in a Python that finds neither these tests nor their helpers."""
    payload = pickle_call(function, args, kwargs)
    done = subprocess.run(
        [sys.executable, "-I", "-c", ELSEWHERE], input=payload, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().strip()


def plain(number: int) -> int:
    return scale(number) + 1


def through_the_module(number: int) -> int:
    return own_module.scale(number) + 1


def test_a_function_with_helpers_of_another_own_module() -> None:
    assert in_another_process(plain, 3) == "22"


def test_a_function_of_a_module_of_which_other_parts_cannot_be_pickled() -> None:
    assert in_another_process(through_the_module, 3) == "22"
    assert in_another_process(lambda: own_module.scale_twice(1) + through_the_module(0)) == "50"


def test_a_closure_a_lambda_and_a_nested_function() -> None:
    offset = 5

    def nested(number: int, *, times: int = 1) -> int:
        return (plain(number) + offset) * times

    assert in_another_process(nested, 1, times=2) == "26"
    assert in_another_process(lambda: offset + scale(1)) == "12"


def test_a_method_and_a_partial() -> None:
    assert in_another_process(Model(2).predict, 1) == "9"
    assert in_another_process(functools.partial(plain, 0)) == "1"


@functools.lru_cache(maxsize=3)
def fibonacci(number: int) -> int:
    return number if number < 2 else fibonacci(number - 1) + fibonacci(number - 2)


def test_a_function_with_a_cache_keeps_its_cache() -> None:
    @functools.cache
    def local(number: int) -> int:
        return fibonacci(number) + 1

    assert in_another_process(fibonacci, 80) == "23416728348467685"
    assert in_another_process(lambda: (local(9), fibonacci.cache_parameters())) == (
        "(35, {'maxsize': 3, 'typed': False})"
    )
    assert in_another_process(lambda: own_module.cached_scale(2) + through_the_module(0)) == "15"


def test_a_class_with_a_cached_property() -> None:
    assert in_another_process(lambda: Model(4).double) == "8"


def test_a_package_that_is_installed_is_sent_by_name() -> None:
    import yaml

    assert b"yaml" in pickle_call(yaml.safe_load, ("a: 1",), {})
    assert len(pickle_call(yaml.safe_load, (), {})) < 200


def test_an_object_of_an_own_class_comes_back_as_the_same_class() -> None:
    _, args, _ = pickle.loads(pickle_call(plain, (Model(4),), {}))

    assert isinstance(args[0], Model)


def test_the_registration_lasts_for_one_call() -> None:
    before = cloudpickle.list_registry_pickle_by_value()

    pickle_call(plain, (1,), {})

    assert cloudpickle.list_registry_pickle_by_value() == before


@pytest.mark.parametrize(
    ("function", "args", "where"),
    [
        (own_module.locked, (1,), "the global LOCK of locked is a _thread.lock"),
        (lambda: own_module.locked(1), (), r"own_module.LOCK is a _thread.lock"),
        (plain, (threading.Lock(),), "argument 1 is a _thread.lock"),
        (plain, ({"a": [0, threading.Lock()]},), r"argument 1\['a'\]\[1\] is a _thread.lock"),
        (Model(threading.Lock()).predict, (1,), "predict.weight is a _thread.lock"),  # type: ignore[arg-type]
    ],
)
def test_an_object_that_cannot_be_pickled_is_named(
    function: Any, args: tuple[Any, ...], where: str
) -> None:
    with pytest.raises(UsageError, match=where):
        pickle_call(function, args, {})


def test_a_variable_of_a_closure_is_named() -> None:
    source = (number for number in range(3))

    def total() -> int:
        return sum(source)

    with pytest.raises(UsageError, match="the variable source of total is a generator"):
        pickle_call(total, (), {})


def test_own_modules_are_those_outside_python_and_its_packages(tmp_path: Path) -> None:
    def module(name: str, file: str | None) -> ModuleType:
        made = ModuleType(name)
        made.__file__ = file
        return made

    assert is_own("helpers", module("helpers", str(tmp_path / "helpers.py")))
    assert not is_own("json", sys.modules["json"])
    assert not is_own("pytest", pytest)
    assert not is_own("compiled", module("compiled", str(tmp_path / "compiled.so")))
    assert not is_own("space", module("space", None))
    assert not is_own("muster.x", module("muster.x", str(tmp_path / "muster" / "x.py")))


def test_names_for_people() -> None:
    def inner() -> None: ...

    assert name_of(inner) == "inner"
    assert name_of(functools.partial(plain, 1)) == "plain"
    assert name_of(Model(1).predict) == "Model.predict"


def test_only_a_partial_is_named_by_its_function() -> None:
    class Step:
        @property
        def func(self) -> Step:
            return self

    assert name_of(Step()) == "Step"
