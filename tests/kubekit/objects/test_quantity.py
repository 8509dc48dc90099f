"""Quantities: the integers Kubernetes itself computes, for everything it accepts."""

from __future__ import annotations

import json
from fractions import Fraction
from math import ceil, floor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given, strategies as st

from kubekit.objects import quantity
from kubekit.objects.quantity import InvalidQuantity

if TYPE_CHECKING:
    from kubekit.objects.core import Quantity

VECTORS: list[dict[str, Any]] = [
    json.loads(line)
    for line in (Path(__file__).parent / "vectors" / "quantities.jsonl").read_text().splitlines()
]
SUFFIXES = (
    {"": Fraction(1), "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000)}
    | {suffix: Fraction(1000**n) for n, suffix in enumerate("kMGTPE", 1)}
    | {f"{letter}i": Fraction(1024**n) for n, letter in enumerate("KMGTPE", 1)}
)


def away_from_zero(number: Fraction) -> int:
    rounded = ceil(number) if number > 0 else floor(number)
    return max(-quantity.MAX_INT64, min(quantity.MAX_INT64, rounded))


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: repr(vector["in"]))
def test_integers_agree_with_the_parser_of_kubernetes(vector: dict[str, Any]) -> None:
    text = vector["in"]
    if not vector["ok"]:
        with pytest.raises(InvalidQuantity):
            quantity.parse_milli(text)
        with pytest.raises(InvalidQuantity):
            quantity.parse_whole(text)
        return
    number = Fraction(vector["exact"])
    assert quantity.parse_milli(text) == expected(vector["milli"], number * 1000)
    assert quantity.parse_whole(text) == expected(vector["value"], number)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: repr(vector["in"]))
def test_the_canonical_form_is_that_of_kubernetes(vector: dict[str, Any]) -> None:
    if not vector["ok"]:
        return
    amount = quantity.parse_quantity(vector["in"])
    assert amount.nano == Fraction(vector["exact"]) * 10**9
    canonical = str(amount)
    # The real parser keeps the text of what looks short enough to it, and errs with 10**24.
    if vector["text"] not in (vector["in"], "1"):
        assert canonical == vector["text"]
    assert quantity.parse_quantity(canonical).nano == amount.nano
    assert str(quantity.parse_quantity(canonical)) == canonical


@given(st.integers(-(10**24), 10**24), st.sampled_from(["decimal", "binary", "exponent"]))
def test_the_canonical_form_means_the_same_amount(nano: int, notation: Any) -> None:
    text = str(quantity.Amount(nano, notation))
    if notation != "binary" or abs(nano) <= quantity.MAX_INT64 * 10**9:
        assert quantity.parse_quantity(text).nano == nano


@pytest.mark.parametrize(
    ("terms", "total"),
    [
        (("500m", "500m"), "1"),
        (("0.5Gi", "0.5Gi"), "1Gi"),
        (("1Gi", "1000000"), "1074741824"),
        (("0", "1Gi"), "1Gi"),
        (("1e3", "1k"), "2e3"),
        (("1k", "1e3"), "2k"),
        (("1Gi", "-1Gi"), "0"),
    ],
)
def test_a_sum_is_written_like_its_first_term(terms: tuple[str, str], total: str) -> None:
    one, two = map(quantity.parse_quantity, terms)
    assert str(one + two) == total
    assert str(one - quantity.Amount(-two.nano, two.notation)) == total


@pytest.mark.parametrize(
    ("text", "stored"),
    [("100u", "1m"), ("0.0001", "1m"), ("1e-5", "1e-3"), ("-100u", "-1m"), ("5", "5"), ("0", "0")],
)
def test_resources_are_stored_in_thousandths(text: str, stored: str) -> None:
    assert str(quantity.parse_quantity(text).rounded_up_to_milli()) == stored


def expected(theirs: int, number: Fraction) -> int:
    return theirs if kubernetes_is_right_about(number) else away_from_zero(number)


def kubernetes_is_right_about(number: Fraction) -> bool:
    """Beyond int64 it answers 0 or a wrapped number.

    Negative numbers on its slow path it rounds up by one from the truncated value and lets wrap in
    nano units; elsewhere it rounds them away from zero, as we do.
    """
    if number < 0:
        return number.denominator == 1 and -number <= quantity.MAX_INT64 / 10**9
    return number <= quantity.MAX_INT64


def test_the_vectors_cover_enough_cases() -> None:
    accepted = [Fraction(vector["exact"]) for vector in VECTORS if vector["ok"]]
    assert len(VECTORS) - len(accepted) > 60
    assert sum(kubernetes_is_right_about(number) for number in accepted) > 300


@given(
    sign=st.sampled_from(["", "+", "-"]),
    whole=st.text("0123456789", min_size=1, max_size=25),
    part=st.none() | st.text("0123456789", max_size=25),
    suffix=st.sampled_from(sorted(SUFFIXES)) | st.integers(-40, 40),
    upper=st.booleans(),
)
def test_integers_agree_with_exact_fractions(
    sign: str, whole: str, part: str | None, suffix: str | int, upper: bool
) -> None:
    if isinstance(suffix, int):
        factor = Fraction(10) ** suffix
        suffix = f"{'E' if upper else 'e'}{suffix}"
    else:
        factor = SUFFIXES[suffix]
    number = Fraction(f"{sign}{whole}.{part or '0'}") * factor
    text = f"{sign}{whole}{'' if part is None else '.' + part}{suffix}"

    assert quantity.parse_milli(text) == away_from_zero(number * 1000)
    assert quantity.parse_whole(text) == away_from_zero(number)


@given(st.text(max_size=12))
def test_any_text_is_a_quantity_or_rejected_with_our_error(text: str) -> None:
    try:
        answer = quantity.parse_milli(text)
    except InvalidQuantity:
        return
    assert -quantity.MAX_INT64 <= answer <= quantity.MAX_INT64


@pytest.mark.parametrize(
    ("number", "milli", "whole"),
    [(2, 2000, 2), (0.5, 500, 1), (1e21, quantity.MAX_INT64, quantity.MAX_INT64), (1e-7, 1, 1)],
)
def test_plain_json_numbers_count_too(number: float, milli: int, whole: int) -> None:
    assert (quantity.parse_milli(number), quantity.parse_whole(number)) == (milli, whole)


@pytest.mark.parametrize("wrong", [True, None, float("nan"), float("inf"), [1], {}])
def test_other_json_values_are_rejected(wrong: Any) -> None:
    with pytest.raises((InvalidQuantity, TypeError)):
        quantity.parse_milli(wrong)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("1e999999999999", quantity.MAX_INT64),
        ("-1e99999999", -quantity.MAX_INT64),
        ("1e-99999999", 1),
    ],
)
def test_an_absurd_exponent_costs_no_time(text: str, answer: int) -> None:
    assert quantity.parse_whole(text) == answer


def test_a_number_of_a_million_digits_is_rejected_in_a_short_sentence() -> None:
    with pytest.raises(InvalidQuantity) as caught:
        quantity.parse_whole("9" * 1_000_000)
    assert len(str(caught.value)) < 100


def test_cpu_is_counted_in_milli_and_all_else_in_whole_units() -> None:
    assert quantity.parse_amount("cpu", "1.5") == 1500
    assert quantity.parse_amount("memory", "1Ki") == 1024
    assert quantity.parse_amount("nvidia.com/gpu", "8") == 8


def test_a_total_adds_resource_by_resource() -> None:
    lists: list[dict[str, Quantity]] = [
        {"cpu": "500m", "memory": "1Gi"},
        {"cpu": 1, "nvidia.com/gpu": "2"},
    ]
    assert quantity.sum_resources(lists) == {"cpu": 1500, "memory": 2**30, "nvidia.com/gpu": 2}
    assert quantity.sum_resources([]) == {}


@pytest.mark.parametrize(
    ("thousandths", "text"),
    [(0, "0"), (1, "0.001"), (250, "0.25"), (1500, "1.5"), (2000, "2"), (-500, "-0.5")],
)
def test_cpu_is_shown_in_cores(thousandths: int, text: str) -> None:
    assert quantity.format_cpu(thousandths) == text


@given(st.integers(-(10**15), 10**15))
def test_cpu_as_shown_reads_back_as_the_same_number(thousandths: int) -> None:
    assert quantity.parse_milli(quantity.format_cpu(thousandths)) == thousandths


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0"),
        (1023, "1Ki"),
        (900, "900"),
        (1024, "1Ki"),
        (1536, "1.5Ki"),
        (2**30 - 1, "1Gi"),
        (16 * 2**30, "16Gi"),
        (3 * 2**29, "1.5Gi"),
        (2**63 - 1, "8Ei"),
        (-(2**20), "-1Mi"),
    ],
)
def test_bytes_are_shown_in_the_largest_unit(count: int, text: str) -> None:
    assert quantity.format_bytes(count) == text


@example(973)  # nearer to 1.0 than to 0.9 of the next unit
@given(st.integers(0, 2**63 - 1))
def test_bytes_as_shown_are_within_a_twentieth_of_a_unit(count: int) -> None:
    text = quantity.format_bytes(count)
    unit = quantity.parse_whole("1" + text.lstrip("0123456789."))
    assert abs(quantity.parse_whole(text) - count) <= (unit / 20 + 1 if unit > 1 else 0)


def test_amounts_are_shown_in_the_unit_of_their_resource() -> None:
    assert quantity.format_amount("cpu", 500) == "0.5"
    assert quantity.format_amount("memory", 2**20) == "1Mi"
    assert quantity.format_amount("hugepages-2Mi", 2**21) == "2Mi"
    assert quantity.format_amount("nvidia.com/gpu", 8) == "8"
