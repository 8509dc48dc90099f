"""What rank 0 writes fits into a Secret."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from muster.sdk.functions.standalone import program
from muster.sdk.functions.standalone.program import ResultSecret
from muster.sdk.functions.standalone.sealed_record import LIMIT


class WrittenSecret(ResultSecret):
    """A Secret that needs no API server."""

    written: dict[str, Any]

    def _patch(self, data: dict[str, Any]) -> Any:
        self.written = data
        return {"metadata": {"ownerReferences": [{"uid": "job-uid"}]}}

    def size(self) -> int:
        return sum(len(base64.b64decode(text)) for text in self.written.values())


@pytest.fixture
def secret(monkeypatch: pytest.MonkeyPatch) -> WrittenSecret:
    monkeypatch.setattr(program, "_finish_writing", lambda: None)
    secret = WrittenSecret("j-result", b"k" * 32, "pod-uid")
    secret.begin()
    return secret


def test_the_largest_body_fills_the_secret(secret: WrittenSecret) -> None:
    about = {"outcome": "returned", "text": "…"}

    secret.write(about, b"x" * secret.capacity(about))

    assert secret.size() == LIMIT


@pytest.mark.parametrize("size", [100, 600_000])
def test_an_exception_fits_whatever_its_text(secret: WrittenSecret, size: int) -> None:
    # JSON writes six bytes for each of these characters.
    error = ValueError(b"x" * size, "…" * program.MAX_TRACEBACK)

    assert program._raised({}, error, secret) == 1

    assert program.MAX_TRACEBACK < secret.size() <= LIMIT
