"""Keys and times as the API writes them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from kubekit.objects.meta import Key, Raw, key_of, read_timestamp, timestamp


@pytest.mark.parametrize(
    ("raw", "key"),
    [
        ({"metadata": {"namespace": "ns", "name": "x"}}, Key("ns", "x")),
        ({"metadata": {"name": "n"}}, Key("", "n")),
        ({"metadata": None}, Key("", "")),
        ({}, Key("", "")),
    ],
)
def test_a_raw_object_without_metadata_has_an_empty_key(raw: Raw, key: Key) -> None:
    assert key_of(raw) == key


def test_a_time_is_written_in_utc_to_the_second_or_the_microsecond() -> None:
    moment = datetime(2024, 5, 6, 1, 2, 3, 45, tzinfo=timezone(timedelta(hours=2)))
    assert timestamp(moment) == "2024-05-05T23:02:03Z"
    assert timestamp(moment, micro=True) == "2024-05-05T23:02:03.000045Z"
    assert timestamp(moment.astimezone(UTC)) == timestamp(moment)


@pytest.mark.parametrize("text", ["2024-05-05T23:02:03Z", "2024-05-06T01:02:03+02:00"])
def test_a_timestamp_of_any_zone_is_read(text: str) -> None:
    assert read_timestamp(text) == datetime(2024, 5, 5, 23, 2, 3, tzinfo=UTC)


def test_a_timestamp_without_a_zone_is_in_utc_and_other_values_are_none() -> None:
    assert read_timestamp("2024-05-05T23:02:03") == datetime(2024, 5, 5, 23, 2, 3, tzinfo=UTC)
    values: list[object] = ["", "soon", 5, None, {}]
    assert [read_timestamp(value) for value in values] == [None] * len(values)
