"""Objects that are nested too deeply to be decoded: they hide no other object."""

from __future__ import annotations

import json

import pytest

from kubekit.client import request
from kubekit.client.decoding import ListPages, decode_object
from kubekit.client.watch_stream import event_reader
from kubekit.objects.kinds import PODS, Kind
from kubekit.objects.meta import Key, Raw
from kubekit.request_errors import ApiError
from muster.contract.pod_groups import VOLCANO_POD_GROUPS

RAW: Kind[Raw] = VOLCANO_POD_GROUPS.read_as(dict)
DEEP = '{"a":[' * 20_000 + '"[[\\"{"' + "]}" * 20_000


def group(name: str, nested: str = "1") -> str:
    metadata = f'{{"name": "{name}", "namespace": "d", "uid": "{name}", "resourceVersion": "7"}}'
    spec = f'{{"minMember": 2, "subGroupPolicy": [{nested}]}}'
    return f'{{"metadata": {metadata}, "junk": {nested}, "spec": {spec}}}'


def page(*items: str) -> bytes:
    return f'{{"metadata": {{"resourceVersion": "9"}}, "items": [{", ".join(items)}]}}'.encode()


def test_a_list_with_a_deep_object_has_all_objects() -> None:
    pages = ListPages(VOLCANO_POD_GROUPS, "", 100, {"labels": "", "fields": ""})
    pages.add_page(page(group("a"), group("deep", DEEP), group("z")))
    result = pages.result()

    assert [item.metadata.name for item in result.items] == ["a", "deep", "z"]
    assert [item.spec.min_member for item in result.items] == [2, 2, 2]
    assert result.items[1].spec.unserved == "the group sets subGroupPolicy"
    assert result.resource_version == "9"


def test_a_list_of_raw_objects_with_a_deep_one() -> None:
    pages = ListPages(RAW, "", 100, {"labels": "", "fields": ""})
    pages.add_page(page(group("a"), group("deep", DEEP)))

    assert [item["metadata"]["name"] for item in pages.result().items] == ["a", "deep"]


def test_a_list_with_a_deep_object_and_one_that_does_not_fit() -> None:
    pages = ListPages(VOLCANO_POD_GROUPS, "", 100, {"labels": "", "fields": ""})
    odd = '{"metadata": {"name": "odd"}, "spec": {"minMember": "two"}}'
    pages.add_page(page(odd, group("deep", DEEP)))

    assert [item.metadata.name for item in pages.result().items] == ["deep"]
    assert len(pages.result().unreadable) == 1


@pytest.mark.parametrize("type_", ["ADDED", "MODIFIED", "DELETED"])
def test_an_event_about_a_deep_object_is_an_event(type_: str) -> None:
    read = event_reader(VOLCANO_POD_GROUPS, request.get(PODS, Key("d", "x")))
    event = read(f'{{"type": "{type_}", "object": {group("deep", DEEP)}}}'.encode())

    assert (event.type, event.object.metadata.name) == (type_, "deep")
    assert event.object.metadata.resource_version == "7"


def test_a_deep_object_that_does_not_fit_either_is_named() -> None:
    read = event_reader(VOLCANO_POD_GROUPS, request.get(PODS, Key("d", "x")))
    odd = json.dumps({"name": "odd", "resourceVersion": "8"})
    line = f'{{"type": "ADDED", "object": {{"metadata": {odd}, "spec": {{"minMember": {DEEP}}}}}}}'

    event = read(line.encode())
    assert (event.type, event.object.metadata.name) == ("UNREADABLE", "odd")


def test_alone_a_deep_object_is_an_error_of_the_api() -> None:
    with pytest.raises(ApiError, match="cannot be decoded"):
        decode_object(RAW, group("deep", DEEP).encode())
