"""Logs: one record one line, no secrets, no forged lines, colour only for people."""

from __future__ import annotations

import io
import json
import logging
import time
from typing import TYPE_CHECKING, Any

import pytest

from kubekit.errors import UsageError
from kubekit.telemetry import logging_setup
from tests.work import growth

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    """The root logger as it was."""
    root = logging.getLogger()
    handlers, level, asyncio_level = (
        root.handlers[:],
        root.level,
        logging.getLogger("asyncio").level,
    )
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.getLogger("asyncio").setLevel(asyncio_level)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


log = logging.getLogger("muster.test")


def human(message: str, *args: object, **extra: object) -> str:
    out = io.StringIO()
    logging_setup.setup(stream=out)
    log.warning(message, *args, extra=extra)
    return out.getvalue()


def as_json(message: str, *args: object, **extra: object) -> dict[str, Any]:
    out = io.StringIO()
    logging_setup.setup("json", stream=out)
    log.warning(message, *args, extra=extra)
    (line,) = out.getvalue().splitlines()
    decoded: dict[str, Any] = json.loads(line)
    return decoded


def test_a_human_line_has_time_level_logger_text_and_fields() -> None:
    line = human("bound %d pods", 3, gang="a/b")
    assert line.endswith(" WARNING muster.test: bound 3 pods  gang=a/b\n")
    assert line[:5] == f"{time.localtime().tm_year}-"


def test_a_json_line_has_the_agreed_fields_and_the_extra_ones() -> None:
    line = as_json("bound %d pods", 3, gang="a/b", pods=3, share=0.5, ok=True, none=None)
    assert line.pop("ts").endswith("Z")
    assert line == {
        "level": "warning",
        "logger": "muster.test",
        "msg": "bound 3 pods",
        "gang": "a/b",
        "pods": 3,
        "share": 0.5,
        "ok": True,
        "none": None,
    }


def test_an_extra_field_cannot_replace_an_agreed_one() -> None:
    assert as_json("true", ts="never", level="debug")["level"] == "warning"


def test_fields_of_any_type_become_text_and_valid_json() -> None:
    line = as_json("x", error=ValueError("oops"), number=float("nan"), inner={"a": 1})
    assert (line["error"], line["number"], line["inner"]) == ("oops", "nan", "{'a': 1}")


HOSTILE = "job\n2026-01-01 00:00:00.000 ERROR muster: forged\r\x1b[2J\x9b31m\u2028x\u202etxt"


def test_no_text_can_forge_a_line_or_control_the_terminal() -> None:
    line = human("failed: %s", HOSTILE, job=HOSTILE)
    assert line.count("\n") == 1
    assert not set("\r\x1b\x9b\u2028\u202e") & set(line)
    assert r"job\n2026-01-01" in line
    assert r"\x1b[2J" in line


def test_hostile_text_stays_inside_its_json_string() -> None:
    assert as_json("failed: %s", HOSTILE)["msg"] == f"failed: {HOSTILE}"


def test_a_forged_line_inside_an_exception_is_marked_as_part_of_it() -> None:
    out = io.StringIO()
    logging_setup.setup(stream=out)
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        log.exception("attempt failed")
    first, *rest = out.getvalue().splitlines()
    assert first.endswith("attempt failed")
    assert rest
    assert all(line.startswith("    | ") for line in rest)
    assert "\x1b" not in out.getvalue()


def test_an_exception_is_one_field_in_json() -> None:
    out = io.StringIO()
    logging_setup.setup("json", stream=out)
    try:
        raise ValueError("password=hunter2")
    except ValueError:
        log.exception("attempt failed")
    line = json.loads(out.getvalue())
    assert line["error"].startswith("Traceback")
    assert "hunter2" not in line["error"]


JWT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJtdXN0ZXIifQ.c2lnbmF0dXJl"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEabc\ndef\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Authorization: Bearer abc.def-123 sent", "Authorization: Bearer *** sent"),
        ("Authorization: Basic dXNlcjpwYXNz sent", "Authorization: Basic *** sent"),
        ("{'Authorization': 'Bearer abcdefgh'}", "{'Authorization': 'Bearer ***'}"),
        ("got bearer sha256~abcdef", "got bearer ***"),
        (f"jwt {JWT} expired", "jwt *** expired"),
        ("token=abc123&x=1", "token=***&x=1"),
        ('{"token": "abc 123"}', '{"token": ***}'),
        ("--password=hunter2 --x", "--password=*** --x"),
        ("client-key-data: LS0tLS1C", "client-key-data: ***"),
        ("https://me:hunter2@proxy:3128/x", "https://me:***@proxy:3128/x"),
        (f"key {PEM} end", "key *** end"),
        (PEM[:50], "***"),
    ],
)
def test_text_that_looks_like_a_secret_is_hidden(text: str, shown: str) -> None:
    assert logging_setup.redact(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "basic training of job default/token-test finished",
        "3 of 4 pods bound; https://127.0.0.1:6443/api/v1",
        "the token is missing",
        "created Secret default/ssh-auth",
    ],
)
def test_ordinary_sentences_are_unchanged(text: str) -> None:
    assert logging_setup.redact(text) == text


def test_a_field_named_like_a_secret_is_hidden() -> None:
    assert "abc" not in human("x", api_token="abc")
    assert as_json("x", Authorization="abc")["Authorization"] == "***"


@pytest.mark.parametrize("piece", ["a-", "eyJ-", "a.", "bearer ", "token ", "://a", "-----BEGIN "])
def test_a_long_hostile_text_takes_linear_time(piece: str) -> None:
    assert growth(lambda n: logging_setup.redact(piece * n), 2000) < 24


def test_colour_is_for_terminals_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    logging_setup.setup(stream=terminal)
    log.error("x")
    assert "\x1b[31m" in terminal.getvalue()
    assert "\x1b" not in human("x")


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    terminal = Terminal()
    logging_setup.setup(stream=terminal)
    log.error("x")
    assert "\x1b" not in terminal.getvalue()


def test_the_level_selects_the_lines_and_a_second_setup_replaces_the_first() -> None:
    first, second = io.StringIO(), io.StringIO()
    logging_setup.setup(level="debug", stream=first)
    log.debug("one")
    logging_setup.setup(level="warning", stream=second)
    log.info("two")
    log.warning("three")
    assert "one" in first.getvalue()
    assert "three" not in first.getvalue()
    assert [line.split(": ")[1] for line in second.getvalue().splitlines()] == ["three"]


@pytest.mark.parametrize("wrong", [{"level": "loud"}, {"format": "xml"}])
def test_an_unknown_level_or_format_is_wrong_usage(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="unknown log"):
        logging_setup.setup(**wrong, stream=io.StringIO())
