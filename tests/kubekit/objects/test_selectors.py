"""Selectors: accepted and matched as in Kubernetes, as text and as structs."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from kubekit.objects import selectors
from kubekit.objects.affinity import LabelSelector, SelectorRequirement
from kubekit.objects.selectors import InvalidSelector


def vectors(name: str) -> list[dict[str, Any]]:
    path = Path(__file__).parent / "vectors" / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def short(vector: dict[str, Any]) -> str:
    text = vector["in"]
    return ascii(text) if len(text) < 40 else f"{text[:20]!a}…{len(text)}"


@pytest.mark.parametrize("vector", vectors("labels"), ids=short)
def test_label_selectors_match_as_in_kubernetes(vector: dict[str, Any]) -> None:
    if not vector["ok"]:
        with pytest.raises(InvalidSelector):
            selectors.parse_labels(vector["in"])
        return
    selector = selectors.parse_labels(vector["in"])
    assert [selector.matches(labels) for labels in vector["on"]] == vector["matches"]
    again = selectors.parse_labels(str(selector))
    assert [again.matches(labels) for labels in vector["on"]] == vector["matches"]


@pytest.mark.parametrize("vector", vectors("fields"), ids=short)
def test_field_selectors_match_as_in_kubernetes(vector: dict[str, Any]) -> None:
    if not vector["ok"]:
        with pytest.raises(InvalidSelector):
            selectors.parse_fields(vector["in"])
        return
    selector = selectors.parse_fields(vector["in"])
    answers = [selector.matches(defaultdict(str, on).__getitem__) for on in vector["on"]]
    assert answers == vector["matches"]


@pytest.mark.parametrize("name", ["labels", "fields"])
def test_the_vectors_cover_enough_cases(name: str) -> None:
    cases = vectors(name)
    assert sum(not vector["ok"] for vector in cases) >= 15
    assert sum(any(vector["matches"]) and not all(vector["matches"]) for vector in cases) >= 15


WORD = st.from_regex(r"[a-z]([a-z0-9._-]{0,5}[a-z0-9])?", fullmatch=True)
REQUIREMENT = st.one_of(
    st.builds(
        selectors.Requirement,
        WORD,
        st.sampled_from(["In", "NotIn"]),
        st.lists(WORD | st.just(""), min_size=1, max_size=4).map(tuple),
    ),
    st.builds(
        selectors.Requirement, WORD, st.sampled_from(["Exists", "DoesNotExist"]), st.just(())
    ),
    st.builds(
        selectors.Requirement,
        WORD,
        st.sampled_from(["Gt", "Lt"]),
        st.integers(0, 10**6).map(lambda number: (str(number),)),
    ),
)


@given(st.lists(REQUIREMENT, max_size=5), st.dictionaries(WORD, WORD, max_size=4))
def test_a_selector_reads_back_from_its_text(
    wanted: list[selectors.Requirement], labels: dict[str, str]
) -> None:
    selector = selectors.Selector(wanted)

    again = selectors.parse_labels(str(selector))

    assert str(again) == str(selector)
    assert again.matches(labels) == selector.matches(labels)


@given(st.text("ab=!<>(), in\\\t", max_size=15))
def test_any_text_is_a_selector_or_rejected_with_our_error(text: str) -> None:
    for parse in (selectors.parse_labels, selectors.parse_fields):
        try:
            parse(text)
        except InvalidSelector:
            continue


def test_an_error_names_the_expected_and_the_actual_token() -> None:
    with pytest.raises(InvalidSelector, match=r"'a in b': expected '\(', found 'b'"):
        selectors.parse_labels("a in b")
    with pytest.raises(InvalidSelector, match="expected a name, found the end"):
        selectors.parse_labels("a=b,")


def test_the_structured_form_requires_all_labels_and_expressions() -> None:
    selector = selectors.from_labels(
        LabelSelector(
            match_labels={"job": "x"},
            match_expressions=(
                SelectorRequirement("role", "In", ("ps", "worker")),
                SelectorRequirement("done", "DoesNotExist"),
                SelectorRequirement("zone", "NotIn", ("z",)),
            ),
        )
    )

    assert str(selector) == "!done,job=x,role in (ps,worker),zone!=z"
    assert selector.matches({"job": "x", "role": "ps"})
    assert not selector.matches({"job": "x", "role": "chief"})
    assert not selector.matches({"job": "x", "role": "ps", "done": ""})
    assert not selector.matches({"job": "x", "role": "ps", "zone": "z"})


def test_an_empty_selector_matches_everything_and_none_matches_nothing() -> None:
    assert selectors.from_labels(LabelSelector()).matches({})
    assert not selectors.from_labels(None).matches({})
    assert not selectors.from_labels(None).matches({"a": "b"})


def test_the_selector_of_nothing_can_never_be_read_as_everything() -> None:
    with pytest.raises(InvalidSelector):
        selectors.parse_labels(str(selectors.NOTHING))


@pytest.mark.parametrize(
    "term",
    [
        SelectorRequirement("a", "In"),
        SelectorRequirement("a", "NotIn"),
        SelectorRequirement("a", "Exists", ("x",)),
        SelectorRequirement("a", "Gt", ("5",)),
        SelectorRequirement("a", "Equals", ("x",)),
        SelectorRequirement("a", "", ("x",)),
        SelectorRequirement("", "Exists"),
        SelectorRequirement("a", "In", ("not a value",)),
    ],
)
def test_structured_selectors_are_checked(term: SelectorRequirement) -> None:
    with pytest.raises(InvalidSelector):
        selectors.from_labels(LabelSelector(match_expressions=(term,)))


def test_a_field_that_is_absent_is_empty() -> None:
    fields = {"metadata.name": "x"}
    matches = selectors.parse_fields("metadata.name=x,spec.nodeName=").matches
    assert matches(lambda path: fields.get(path, ""))
    assert not matches(lambda path: {**fields, "spec.nodeName": "n"}.get(path, ""))


def test_a_field_selector_lists_its_fields() -> None:
    assert selectors.parse_fields("a=1,b!=2,a!=3").paths == {"a", "b"}
