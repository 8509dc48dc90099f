"""Calls that the library cannot evaluate as it is."""

from __future__ import annotations

import pytest

from localkube.apiserver.cel.batches import Result
from localkube.apiserver.cel.programs import evaluate
from localkube.apiserver.cel.rewriting import rewritten


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("self.transformMap(k, v, v + 1)", {"a": 2, "b": 3}),
        ("self.transformMap(k, v, v > 1, [v, v])", {"b": [2, 2]}),
        ("self.transformMapEntry(k, v, {v: k})", {1: "a", 2: "b"}),
        ("self.transformMap(k, v, self.transformMap(l, w, w + v))['b']['a']", 3),
        ("self.transformMap(k, v, k + ', (')['a'] + '.transformMap('", "a, (.transformMap("),
        ("self.transformMap( k , v, // a, b)\n v)['a']", 1),
        ("format.uuid().validate('x').orValue([])[0]", "does not match the UUID format"),
        ("[format.named('none').hasValue(), format.named('date').hasValue()]", [False, True]),
        (
            "format.labelValue().validate(format.named('x').hasValue() ? 'x' : 'y').hasValue()",
            False,
        ),
    ],
)
def test_a_rewritten_call_has_the_value_of_the_call(expression: str, value: object) -> None:
    assert evaluate(expression, {"self": {"a": 1, "b": 2}}) == Result(value)


def test_a_key_twice_is_an_error() -> None:
    result = evaluate("self.transformMapEntry(k, v, {'x': v})", {"self": {"a": 1, "b": 2}})

    assert result.error == "insert failed: key x already exists"


def test_texts_are_left_alone() -> None:
    expression = "'x.validate(y)' + r'.transformMap(k, v, v)' // .validate(x)"

    assert rewritten(expression) == expression
