"""Merge patches, strategic merge patches and JSON patches."""

from __future__ import annotations

import tracemalloc
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, strategies as st

from kubekit import schemas
from kubekit.objects.meta import merge_patch
from kubekit.request_errors import StatusError
from localkube.apiserver.patches import MAX_COPIED, json_patch, merge, strategic_merge

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text("ab~/é", max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3)
POD = schemas.for_kind("", "v1", "Pod")


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: without_nulls(v) for k, v in value.items() if v is not None}
    return value


@given(OBJECTS, OBJECTS)
def test_a_merge_patch_leads_from_any_object_to_any_other(old: Any, new: Any) -> None:
    old, new = without_nulls(old), without_nulls(new)

    assert merge(old, merge_patch(old, new)) == new


@given(OBJECTS, OBJECTS)
def test_patching_changes_neither_object_nor_patch(old: Any, patch: Any) -> None:
    before = deepcopy((old, patch))
    merge(old, patch)
    strategic_merge(old, patch, None)

    assert (old, patch) == before


@given(OBJECTS, OBJECTS)
def test_a_merge_patch_applied_twice_changes_nothing_more(old: Any, patch: Any) -> None:
    once = merge(old, patch)

    assert merge(once, patch) == once


@pytest.mark.parametrize(
    ("target", "steps", "expected"),
    [
        ({"a": [1, 2]}, [{"op": "add", "path": "/a/1", "value": 9}], {"a": [1, 9, 2]}),
        ({"a": [1]}, [{"op": "add", "path": "/a/-", "value": 9}], {"a": [1, 9]}),
        ({"a/b": 1}, [{"op": "replace", "path": "/a~1b", "value": 2}], {"a/b": 2}),
        ({"a": [1, 2]}, [{"op": "remove", "path": "/a/0"}], {"a": [2]}),
        ({"a": [1, 2]}, [{"op": "replace", "path": "/a/0", "value": 3}], {"a": [3, 2]}),
        ({"a": 1}, [{"op": "move", "from": "/a", "path": "/b"}], {"b": 1}),
        (
            {"a": {"b": 1}},
            [{"op": "copy", "from": "/a", "path": "/c"}],
            {"a": {"b": 1}, "c": {"b": 1}},
        ),
    ],
)
def test_a_json_patch_applies_its_operations(target: Any, steps: Any, expected: Any) -> None:
    assert json_patch(target, steps) == expected


@pytest.mark.parametrize(
    "steps",
    [
        {"op": "add"},
        [1],
        [{"op": "sing", "path": "/a"}],
        [{"op": "remove", "path": "/nope"}],
        [{"op": "remove", "path": ""}],
        [{"op": "add", "path": "/a/b/c", "value": 1}],
        [{"op": "add", "path": "/l/7", "value": 1}],
        [{"op": "add", "path": "a", "value": 1}],
        [{"op": "replace", "path": "", "value": 1}],
    ],
)
def test_a_json_patch_that_does_not_fit_is_rejected_as_a_whole(steps: Any) -> None:
    target = {"a": 1, "l": [1]}
    with pytest.raises(StatusError):
        json_patch(target, steps)

    assert target == {"a": 1, "l": [1]}


def copy_into_itself(path: str) -> Any:
    return {"op": "copy", "from": "/a", "path": path}


def test_a_patch_that_doubles_a_value_twenty_times_is_rejected_before_it_costs_memory() -> None:
    steps = [copy_into_itself(f"/a/{number}") for number in range(20)]
    tracemalloc.start()
    try:
        with pytest.raises(StatusError) as caught:
            json_patch({"a": {"x": "x" * 1000}}, steps)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert caught.value.status == 422
    assert peak < 4 * MAX_COPIED


@pytest.mark.parametrize("doublings", [10, 15])
def test_a_patch_that_doubles_the_depth_is_rejected(doublings: int) -> None:
    # Each copy goes to the innermost map, so it is as deep again as the whole.
    steps = [copy_into_itself("/a" + "/x" * 2**number) for number in range(doublings)]
    with pytest.raises(StatusError) as caught:
        json_patch({"a": {}}, steps)

    assert caught.value.status in (400, 422)


def names(pod: Any) -> list[str]:
    return [c["name"] for c in pod["spec"]["containers"]]


def pod(*containers: str) -> Any:
    return {"spec": {"containers": [{"name": name, "image": "i"} for name in containers]}}


def test_containers_are_merged_by_name() -> None:
    patch = {"spec": {"containers": [{"name": "b", "image": "j"}]}}

    merged = strategic_merge(pod("a", "b"), patch, POD)

    assert merged["spec"]["containers"] == [
        {"name": "a", "image": "i"},
        {"name": "b", "image": "j"},
    ]


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        (["a", "b", "c"], ["a", "b", "c"]),
        (["c", "a"], ["c", "a", "b"]),
        (["b", "a"], ["c", "b", "a"]),
    ],
)
def test_a_patch_can_set_the_order_of_elements(order: list[str], expected: list[str]) -> None:
    patch = {"$setElementOrder/containers": [{"name": n} for n in order]}

    assert names(strategic_merge(pod("c", "a", "b"), {"spec": patch}, POD)) == expected


def test_directives_delete_items_replace_lists_and_delete_values() -> None:
    deletion = {"spec": {"containers": [{"name": "a", "$patch": "delete"}]}}
    replacement = {"spec": {"containers": [{"$patch": "replace"}, {"name": "z"}]}}
    finalizers = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x"]}}

    assert names(strategic_merge(pod("a", "b"), deletion, POD)) == ["b"]
    assert names(strategic_merge(pod("a", "b"), replacement, POD)) == ["z"]
    retained = strategic_merge({"metadata": {"finalizers": ["x", "y"]}}, finalizers, POD)
    assert retained["metadata"]["finalizers"] == ["y"]


def test_finalizers_are_merged_as_a_set() -> None:
    merged = strategic_merge(
        {"metadata": {"finalizers": ["x"]}}, {"metadata": {"finalizers": ["y", "x"]}}, POD
    )

    assert sorted(merged["metadata"]["finalizers"]) == ["x", "y"]


def test_lists_without_a_merge_key_are_replaced() -> None:
    merged = strategic_merge(
        {"spec": {"containers": [{"name": "a", "args": ["1"]}]}},
        {"spec": {"containers": [{"name": "a", "args": ["2"]}]}},
        POD,
    )

    assert merged["spec"]["containers"][0]["args"] == ["2"]


def test_an_item_without_its_key_is_rejected() -> None:
    with pytest.raises(StatusError):
        strategic_merge(pod("a"), {"spec": {"containers": [{"image": "x"}]}}, POD)
