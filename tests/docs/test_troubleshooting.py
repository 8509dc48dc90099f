"""docs/troubleshooting.md lists every reason and message in the code, and no other."""

from __future__ import annotations

import re

import pytest

import muster
from muster.operator import executor
from muster.scheduler.placement import filters
from tests.docs import markdown, messages_in_code, reasons_in_code

PAGE = markdown.DOCS / "troubleshooting.md"
FOR_PROGRAMS = {r"tasks\ in\ gang\ are\ ready\ to\ be\ scheduled"}
"""Volcano writes this sentence as a reason, and programs compare it: nothing is wrong."""
OF_KUBERNETES = {"ImagePullBackOff"}
"""Written by the kubelet, and shown by us."""
CLUSTER_ERRORS = ("NoCluster", "Unreachable", "UntrustedCertificate", "ProxyError", "DamagedStore")
"""Errors of which every message is on the page; others name a flag or a file by themselves."""
LOGGING = ("kubekit", "muster/operator", "muster/scheduler")


def test_every_reason_in_the_code_is_on_the_page() -> None:
    listed = markdown.first_column(PAGE, "## Reasons")
    known = reasons_in_code.reasons() - FOR_PROGRAMS

    assert len(known) > 80
    assert [r for r in sorted(known) if not any(re.fullmatch(r, text) for text in listed)] == []


def test_every_reason_on_the_page_is_in_the_code() -> None:
    known = "|".join(reasons_in_code.reasons())
    literals = messages_in_code.texts() | OF_KUBERNETES
    words = [r for r in markdown.first_column(PAGE, "## Reasons") if " " not in r]
    listed = set(words) - {each.says for each in filters.FILTERS}

    assert [r for r in sorted(listed) if not re.fullmatch(known, r) and r not in literals] == []


def test_every_event_about_a_result_is_on_the_page() -> None:
    listed = markdown.first_column(PAGE, "### Events of a job")
    nouns = set(executor._EVENT_NOUNS.values())

    assert len(nouns) == 4
    assert {f"Failed{verb}{noun}" for verb in ("Create", "Delete") for noun in nouns} < set(listed)


def test_the_words_for_nodes_that_are_ruled_out_are_those_of_the_filters() -> None:
    gangs = markdown.first_column(PAGE, "### Why a gang waits")

    assert sorted(gangs[-len(filters.FILTERS) :]) == sorted(each.says for each in filters.FILTERS)


def test_every_exit_code_is_on_the_page() -> None:
    public = [getattr(muster, name) for name in muster.__all__]
    classes = [each for each in public if isinstance(each, type)]
    codes = {each.cli_exit_code for each in classes if issubclass(each, muster.MusterError)}
    rows = re.findall(r"^\| (\d+) \|", PAGE.read_text(), re.MULTILINE)

    assert [int(row) for row in rows] == sorted({0, *codes})


@pytest.mark.parametrize("kind", CLUSTER_ERRORS)
def test_every_message_about_a_cluster_that_cannot_be_used_is_on_the_page(kind: str) -> None:
    listed = markdown.first_column(PAGE, "## Errors of commands")
    messages = messages_in_code.messages_of(kind)

    assert messages
    assert [m for m in sorted(messages) if not any(text in m for text in listed)] == []


def test_every_message_of_a_command_on_the_page_is_in_the_code() -> None:
    listed = markdown.first_column(PAGE, "## Errors of commands")
    code = messages_in_code.texts()

    assert len(listed) > 25
    assert [text for text in listed if not any(text in each for each in code)] == []


def test_every_warning_in_a_log_is_on_the_page_and_in_the_code() -> None:
    listed = markdown.first_column(PAGE, "## Logs of the components")
    lines = messages_in_code.log_lines(*LOGGING)

    assert len(lines) > 15
    assert [line for line in sorted(lines) if line not in listed] == []
    # The second one is of all components (`telemetry/unexpected_errors.py`).
    others = ["…: … is the leader", "… …: bug…: …"]
    assert [line for line in listed if line not in lines] == others
