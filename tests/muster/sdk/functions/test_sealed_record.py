"""A result is opened only with the key of its job, and only for this job."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from muster.sdk.functions.standalone.sealed_record import Forged, make_record, open_record, seal

KEY, UID = b"k" * 32, "uid-1"


def sealed(key: bytes = KEY, uid: str = UID, **header: object) -> tuple[bytes, str]:
    content = make_record({"job": uid, "outcome": "returned", **header}, b"body\nof two lines")
    return content, seal(key, uid, content)


def test_a_sealed_record_is_opened() -> None:
    header, body = open_record(KEY, UID, *sealed(pod="p"))

    assert (header["pod"], body) == ("p", b"body\nof two lines")


@pytest.mark.parametrize(
    ("content", "code"),
    [
        sealed(key=b"x" * 32),
        sealed(uid="uid-2"),
        (sealed()[0] + b"!", sealed()[1]),
        (sealed()[0], ""),
        (sealed()[0], "é" * 64),
    ],
    ids=["another key", "another job", "changed", "no code", "odd code"],
)
def test_another_record_is_refused(content: bytes, code: str) -> None:
    with pytest.raises(Forged):
        open_record(KEY, UID, content, code)


def test_a_record_that_names_another_job_is_refused_even_with_the_key() -> None:
    content = make_record({"job": "uid-2"})

    with pytest.raises(Forged, match="another job"):
        open_record(KEY, UID, content, seal(KEY, UID, content))


@given(st.binary(max_size=200), st.text(max_size=80))
def test_no_bytes_without_the_key_are_opened(content: bytes, code: str) -> None:
    with pytest.raises(Forged):
        open_record(KEY, UID, content, code)
