"""Templates follow OpenShift's rules, and a parameter's value is always data."""

from __future__ import annotations

import copy
import json
import random
import re
from typing import Any

import pytest
from hypothesis import assume, given, strategies as st

from kubekit.errors import UsageError
from muster.client.manifests import openshift_template
from muster.client.manifests.openshift_template import expand

Raw = dict[str, Any]


def parameter(name: str, **fields: object) -> Raw:
    return {"name": name, **fields}


def source(*objects: Raw, parameters: list[Raw] | None = None, **fields: object) -> Raw:
    return {
        "apiVersion": "template.openshift.io/v1",
        "kind": "Template",
        "metadata": {"name": "t"},
        "parameters": parameters or [],
        "objects": list(objects),
        **fields,
    }


def processed(raw: Raw, /, **values: str) -> list[Raw]:
    return openshift_template.process(openshift_template.read(raw), values, random.Random(1))


def filled(written: Any, /, **values: str) -> Any:
    """What becomes of one field when these are the parameters."""
    item = {"apiVersion": "v1", "kind": "X", "field": written}
    declared = [parameter(name) for name in values]
    return processed(source(item, parameters=declared), **values)[0]["field"]


# Substitution


@pytest.mark.parametrize(
    ("written", "becomes"),
    [
        ("${A}", "one"),
        ("x${A}-${B}y${A}", "xone-2yone"),
        ("${{B}}", 2),
        ("${{A}}", "one"),
        ("${{B}} ", "${{B}} "),
        ("x${{B}}", "x${{B}}"),
        ("${HOME}", "${HOME}"),
        ("${{HOME}}", "${{HOME}}"),
        ("$A $(A) {A} ${ A }", "$A $(A) {A} ${ A }"),
        ("$${A}", "$one"),
        (["${A}", {"k": ["${{B}}"]}], ["one", {"k": [2]}]),
        ({"${A}": "${B}"}, {"one": "2"}),
        ({"${{B}}": 1}, {"2": 1}),
        (7, 7),
        (True, True),
        (None, None),
    ],
)
def test_a_field_is_substituted_as_openshift_does_it(written: Any, becomes: Any) -> None:
    assert filled(written, A="one", B="2") == becomes


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("null", None),
        ("1.5", 1.5),
        ('{"a": [1]}', {"a": [1]}),
        ('"quoted"', "quoted"),
        ("007", "007"),
        ("NaN", "NaN"),
        ("-Infinity", "-Infinity"),
        ("", ""),
        ("{a: 1}", "{a: 1}"),
        ("[" * 100_000, "[" * 100_000),
        ("9" * 5000, "9" * 5000),
    ],
)
def test_double_braces_insert_the_value_as_json_or_else_as_text(text: str, value: Any) -> None:
    result = filled("${{A}}", A=text)

    assert result == value
    assert type(result) is type(value)


texts = st.text(max_size=20)
tricky = st.one_of(
    texts, st.sampled_from(["${A}", "${{A}}", "${B}", "$", "{", "}", '"', "\\1", "\\g<0>", "a: b"])
)
literal = st.text(st.characters(exclude_characters="$"), max_size=10)


@given(a=tricky, b=tricky, parts=st.lists(st.one_of(literal, st.sampled_from("AB")), max_size=6))
def test_a_substituted_value_is_not_substituted_again(a: str, b: str, parts: list[str]) -> None:
    values = {"A": a, "B": b}
    written = "".join(f"${{{part}}}" if part in values else part for part in parts)
    expected = "".join(values.get(part, part) for part in parts)

    assert filled(written, A=a, B=b) == expected


@given(value=tricky)
def test_a_text_parameter_can_only_change_the_text_it_stands_in(value: str) -> None:
    written = {"name": "${A}", "keep": ["${{A}}x", 1], "${A}-key": "k"}

    result = filled(written, A=value)

    assert result == {"name": value, "keep": ["${{A}}x", 1], f"{value}-key": "k"}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


@given(value=json_values)
def test_json_survives_double_braces(value: Any) -> None:
    assert filled("${{A}}", A=json.dumps(value)) == value


@given(item=st.dictionaries(texts, json_values, max_size=4), value=tricky)
def test_an_object_without_references_is_unchanged(item: Raw, value: str) -> None:
    assume("${" not in json.dumps(item))
    whole = {"apiVersion": "v1", "kind": "X", **{k: v for k, v in item.items() if k != "metadata"}}
    raw = source(whole, parameters=[parameter("A")])
    before = copy.deepcopy(raw)

    assert processed(raw, A=value) == [whole]
    assert raw == before


def test_keys_that_become_the_same_are_refused() -> None:
    with pytest.raises(UsageError, match=r"objects\[0\]\.field: the key 'x' appears twice"):
        filled({"${A}": 1, "x": 2}, A="x")


# Parameters


def test_a_given_value_replaces_the_default_and_the_default_replaces_generate() -> None:
    item = {"kind": "X", "v": "${A}"}
    both = source(
        item, parameters=[parameter("A", value="d", generate="expression", **{"from": "g"})]
    )
    generated = source(item, parameters=[parameter("A", generate="expression", **{"from": "g"})])

    assert processed(both, A="mine")[0]["v"] == "mine"
    assert processed(both)[0]["v"] == "d"
    assert processed(generated)[0]["v"] == "g"
    assert processed(generated, A="")[0]["v"] == ""


def test_an_optional_parameter_without_a_value_is_empty_text() -> None:
    assert processed(source({"v": "<${A}>"}, parameters=[parameter("A")])) == [{"v": "<>"}]


def test_every_missing_required_parameter_is_named() -> None:
    raw = source(parameters=[parameter(name, required=True) for name in ("ONE", "TWO", "THREE")])

    with pytest.raises(UsageError, match="required and not given: ONE, THREE") as caught:
        processed(raw, TWO="2")

    assert caught.value.hint == "Add --param ONE=… --param THREE=…"


def test_a_required_parameter_given_empty_is_missing() -> None:
    with pytest.raises(UsageError, match="required and not given: A"):
        processed(source(parameters=[parameter("A", required=True, value="d")]), A="")


def test_an_unknown_parameter_gets_the_nearest_name() -> None:
    raw = source(parameters=[parameter("IMAGE_NAME"), parameter("WORKERS")])

    with pytest.raises(
        UsageError, match="no such parameter: IMAGE; did you mean IMAGE_NAME"
    ) as caught:
        processed(raw, IMAGE="x")

    assert caught.value.hint == "The template has IMAGE_NAME, WORKERS."


# Labels and namespaces


def test_every_object_gets_the_templates_labels_with_their_parameters() -> None:
    raw = source(
        {"kind": "X", "metadata": {"labels": {"own": "1", "app": "old"}}},
        {"kind": "Y"},
        parameters=[parameter("A")],
        labels={"app": "${A}", "${A}-key": "v"},
    )

    labelled = [item["metadata"]["labels"] for item in processed(raw, A="hello")]

    added = {"app": "hello", "hello-key": "v"}
    assert labelled == [{"own": "1", **added}, added]


def test_labels_of_the_template_replace_labels_of_its_objects() -> None:
    item = {"kind": "X", "metadata": {"labels": {"a": "1", "b": "1"}}}
    template = openshift_template.read(source(item, labels={"b": "2", "c": "2"}))

    (labelled,) = openshift_template.process(template, {}, random.Random(1))

    assert labelled["metadata"]["labels"] == {"a": "1", "b": "2", "c": "2"}


def test_a_fixed_namespace_is_taken_out_and_a_parameterised_one_stays() -> None:
    fixed = {"kind": "X", "metadata": {"name": "x", "namespace": "theirs"}}
    parameterised = {"kind": "Y", "metadata": {"name": "y", "namespace": "${N}"}}

    items = processed(source(fixed, parameterised, parameters=[parameter("N")]), N="mine")

    assert [item["metadata"] for item in items] == [
        {"name": "x"},
        {"name": "y", "namespace": "mine"},
    ]


# Generated values


@pytest.mark.parametrize(
    ("expression", "pattern"),
    [
        ("[a-zA-Z0-9]{16}", "[a-zA-Z0-9]{16}"),
        (r"[\w]{40}", "[a-zA-Z0-9_]{40}"),
        (r"[\d]{40}", "[0-9]{40}"),
        (r"[\a]{40}", "[a-zA-Z]{40}"),
        (r"[\A]{40}", r"[~!@#$%^&*()\-_+={}\[\]\\|<,>.?/\"';:`]{40}"),
        ("0x[A-F0-9]{4}", "0x[A-F0-9]{4}"),
        ("user-[a-c]{3}-[0-1]{8}!", "user-[a-c]{3}-[01]{8}!"),
        ("[abc]{9}", "[abc]{9}"),
        ("plain [text] {3}", r"plain \[text\] \{3\}"),
        ("", ""),
    ],
)
@given(seed=st.integers())
def test_generated_text_has_the_shape_of_its_expression(
    expression: str, pattern: str, seed: int
) -> None:
    assert re.fullmatch(pattern, expand(expression, random.Random(seed)))


def test_both_ends_of_a_range_are_drawn() -> None:
    assert set(expand("[0-9]{255}" * 4, random.Random(1))) == set("0123456789")


def test_generated_text_is_not_an_expression_again() -> None:
    class Brackets(random.Random):
        def choice(self, seq: Any) -> Any:
            return "["

    assert expand(r"[\A]{3}", Brackets()) == "[[["


@pytest.mark.parametrize("expression", ["[a-z]{0}", "[a-z]{256}", "[z-a]{3}", "[é]{3}", "[]{3}"])
def test_an_impossible_expression_names_its_parameter(expression: str) -> None:
    raw = source(parameters=[parameter("PIN", generate="expression", **{"from": expression})])

    with pytest.raises(UsageError, match="parameter PIN: "):
        processed(raw)


def test_an_unknown_generator_is_refused() -> None:
    with pytest.raises(UsageError, match="unknown generator 'magic'"):
        processed(source(parameters=[parameter("A", generate="magic")]))


# Templates that are none


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        ([], "the document: not an object"),
        ({"kind": "TFJob"}, "not a template: kind is 'TFJob'"),
        (source(parameters=[{"name": "a-b"}]), r"parameters\[0\]\.name: 'a-b'"),
        (source(parameters=[parameter("A"), parameter("A")]), "A is declared twice"),
        (source(parameters=[parameter("A", value=2)]), r"parameters\[0\]\.value: 2 is not text"),
        (source(parameters=[parameter("A", required="yes")]), r"required: write true or false"),
        ({**source(), "parameters": {}}, "parameters: not a list"),
        ({**source(), "objects": ["x"]}, r"objects\[0\]: not an object"),
        (source(labels={"a": 1}), r"labels\.a: 1 is not text"),
    ],
)
def test_a_broken_template_is_refused_with_the_place(raw: object, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        openshift_template.read(raw)
