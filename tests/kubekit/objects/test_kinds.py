"""Decoders of kinds in threads. Without the lock, a process of the first test dies by a signal."""

from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest

from kubekit.objects.kinds import convert, decoder_of

RACE = """
import sys, threading
import msgspec
from kubekit.objects.kinds import convert, decoder_of

sys.setswitchinterval(1e-6)
THREADS = 8


def race(number, read):
    fields = [(f"f{field}", "list[int] | None") for field in range(30)]
    inner = msgspec.defstruct(f"Inner{number}", fields)
    outer = msgspec.defstruct(f"Outer{number}", [("inner", inner)])
    start = threading.Barrier(THREADS)

    def work():
        start.wait()
        read({"inner": {name: [1] for name, _ in fields}}, outer)

    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


for number in range(100):
    race(number, FUNCTION)
"""


@pytest.mark.parametrize(
    "read",
    [
        "lambda value, shape: decoder_of(shape).decode(msgspec.json.encode(value))",
        "convert",
    ],
    ids=["decode", "convert"],
)
def test_threads_may_decode_into_a_new_struct_at_once(read: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", RACE.replace("FUNCTION", read)], capture_output=True, text=True
    )
    assert (ended.returncode, ended.stderr) == (0, "")


class Point(msgspec.Struct):
    x: int


def test_a_decoder_is_built_once() -> None:
    assert decoder_of(Point) is decoder_of(Point)


def test_convert_reads_builtins() -> None:
    assert convert({"x": 3}, Point) == Point(3)
