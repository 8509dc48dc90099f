"""The lines and events of a watch, without I/O."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from kubekit.client import request
from kubekit.client.watch_stream import LineSplitter, WatchEvent, event_reader
from kubekit.objects.core import Pod
from kubekit.objects.kinds import PODS
from kubekit.request_errors import ApiError, Gone
from kubekit.watch.informer_cache import identity_of
from tests.kubekit.builders import pod

WATCH = request.watch(PODS, "", since="1")


@given(
    st.lists(st.binary(min_size=1).filter(lambda b: b"\n" not in b), min_size=1),
    st.lists(st.integers(min_value=1, max_value=40)),
)
def test_lines_come_out_whole_however_they_were_cut(lines: list[bytes], cuts: list[int]) -> None:
    data = b"".join(line + b"\n" for line in lines) + b"rest"
    splitter, split_lines = LineSplitter(), []
    for cut in [*cuts, len(data)]:
        chunk, data = data[:cut], data[cut:]
        split_lines += splitter.feed(chunk)
    assert split_lines == lines
    assert splitter.feed(b"\n") == [b"rest"]


def test_a_line_of_many_megabytes_is_one_line() -> None:
    splitter = LineSplitter()
    for _ in range(1000):
        assert splitter.feed(b"x" * 65536) == []
    (line,) = splitter.feed(b"\n")
    assert len(line) == 65536 * 1000


def event(kind: str, obj: dict[str, Any]) -> WatchEvent[Pod]:
    return event_reader(PODS, WATCH)(json.dumps({"type": kind, "object": obj}).encode())


def test_an_event_is_its_type_and_a_typed_object() -> None:
    watch_event = event("ADDED", pod("a", job="x"))
    assert watch_event.type == "ADDED"
    assert isinstance(watch_event.object, Pod)
    assert watch_event.object.metadata.labels == {"job": "x"}


def test_a_bookmark_has_a_version_even_with_nulls_where_lists_should_be() -> None:
    watch_event = event(
        "BOOKMARK", {"metadata": {"resourceVersion": "9"}, "spec": {"containers": None}}
    )
    assert (watch_event.type, identity_of(watch_event.object).version) == ("BOOKMARK", "9")


@pytest.mark.parametrize("model", [Pod, dict])
def test_an_error_event_is_raised_as_its_error(model: Any) -> None:
    status = {
        "kind": "Status",
        "status": "Failure",
        "reason": "Expired",
        "code": 410,
        "message": "m",
    }
    line = json.dumps({"type": "ERROR", "object": status}).encode()
    with pytest.raises(Gone, match="m"):
        event_reader(PODS.read_as(model), WATCH)(line)


def test_an_object_that_does_not_fit_has_only_its_metadata() -> None:
    odd = pod("a", uid="u")
    odd["spec"]["containers"] = 5
    watch_event = event("MODIFIED", odd)
    assert watch_event.type == "UNREADABLE"
    assert (watch_event.object.metadata.name, watch_event.object.metadata.uid) == ("a", "u")
    assert event("DELETED", odd).type == "DELETED"


@pytest.mark.parametrize("line", [b"{", b"null", b'{"type":"ADDED"}', b'{"type":1,"object":{}}'])
def test_a_line_that_is_no_event_is_an_error(line: bytes) -> None:
    with pytest.raises(ApiError, match="cannot be decoded"):
        event_reader(PODS, WATCH)(line)
