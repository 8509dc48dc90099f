"""Owners of fields: what updates and applies take, share, keep and remove."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from kubekit.schemas import Schema
from localkube.apiserver.apply import field_set
from localkube.apiserver.apply.compare import compare, stated_fields
from localkube.apiserver.apply.field_types import FieldType
from localkube.apiserver.apply.ownership import (
    Configuration,
    ConflictsError,
    Manager,
    Owners,
    apply,
    merged,
    update,
)

TEXT = {"type": "string"}
OF = FieldType(
    Schema({
        "type": "object",
        "properties": {
            "text": TEXT,
            "labels": {"type": "object", "additionalProperties": TEXT},
            "atomic": {"type": "array", "items": TEXT},
            "set": {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"},
            "ports": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["port", "protocol"],
                "items": {
                    "type": "object",
                    "properties": {
                        "port": {"type": "integer"},
                        "protocol": {"type": "string", "default": "TCP"},
                        "name": TEXT,
                    },
                },
            },
        },
    })
)  # fmt: skip
ME, YOU = Manager("me", "Apply", "", ""), Manager("you", "Apply", "", "")

words = st.sampled_from(["a", "b", "c"])
ports = st.lists(
    st.fixed_dictionaries(
        {"port": st.integers(1, 3)},
        optional={"protocol": st.sampled_from(["TCP", "UDP"]), "name": words},
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda port: (port["port"], port.get("protocol", "TCP")),
)
configs = st.fixed_dictionaries(
    {},
    optional={
        "text": words,
        "labels": st.dictionaries(words, words, min_size=1, max_size=3),
        "atomic": st.lists(words, min_size=1, max_size=3),
        "set": st.lists(words, min_size=1, max_size=3, unique=True),
        "ports": ports,
    },
)


def applied(
    live: dict[str, Any], config: dict[str, Any], owners: Owners, manager: Manager = ME,
    *, force: bool = False,
) -> tuple[dict[str, Any], Owners]:  # fmt: skip
    wanted = Configuration(config, manager, "v1", {}, force)
    obj, owners = apply(live, owners, wanted, OF)
    # As the server does when it decodes the result: nulls are dropped.
    return {name: value for name, value in obj.items() if value is not None}, owners


@given(configs, configs)
def test_an_apply_is_idempotent(first: dict[str, Any], second: dict[str, Any]) -> None:
    obj, owners = applied({}, first, {})
    obj, owners = applied(obj, second, owners)

    assert applied(obj, second, owners) == (obj, owners)


@given(configs, configs)
def test_a_field_of_another_manager_is_not_changed_without_force(
    mine: dict[str, Any], yours: dict[str, Any]
) -> None:
    obj, owners = applied({}, mine, {})
    try:
        after, _ = applied(obj, yours, owners, YOU)
    except ConflictsError:
        after = obj

    difference = compare(obj, after, OF)
    mine_set = owners[ME].fields if ME in owners else {}
    assert not field_set.intersection(mine_set, difference.changed)
    assert not field_set.intersection(mine_set, difference.removed)


@given(configs, configs)
def test_a_forced_apply_gets_every_field_that_it_states(
    mine: dict[str, Any], yours: dict[str, Any]
) -> None:
    obj, owners = applied({}, mine, {})
    obj, owners = applied(obj, yours, owners, YOU, force=True)

    assert merged(obj, yours, OF) == obj
    assert (owners[YOU].fields if YOU in owners else {}) == stated_fields(yours, OF)


@given(configs, configs)
def test_a_field_that_nobody_states_any_more_disappears(
    first: dict[str, Any], second: dict[str, Any]
) -> None:
    obj, owners = applied({}, first, {})
    obj, owners = applied(obj, second, owners)

    assert _leaves(obj) == _leaves(second)


@given(configs, configs)
def test_shared_fields_stay_until_the_last_owner_drops_them(
    mine: dict[str, Any], other: dict[str, Any]
) -> None:
    obj, owners = applied({}, mine, {})
    obj, owners = applied(obj, mine, owners, YOU)
    obj, owners = applied(obj, {}, owners)

    assert _leaves(obj) == _leaves(mine)
    assert ME not in owners


@given(configs, configs)
def test_an_update_owns_what_it_changes_and_nobody_owns_a_field_twice(
    mine: dict[str, Any], after: dict[str, Any]
) -> None:
    obj, owners = applied({}, mine, {})
    owners, written = update(obj, after, owners, OF, {})

    assert written == compare(obj, after, OF).changed
    if ME in owners:
        assert not field_set.intersection(owners[ME].fields, written)


@given(configs)
def test_a_config_that_was_merged_into_nothing_has_the_fields_that_it_states(
    config: dict[str, Any],
) -> None:
    assert stated_fields(merged({}, config, OF), OF) == stated_fields(config, OF)


@given(configs, configs)
def test_field_sets_obey_the_rules_of_sets(first: dict[str, Any], second: dict[str, Any]) -> None:
    a, b = stated_fields(first, OF), stated_fields(second, OF)
    both = field_set.intersection(a, b)

    assert field_set.union(a, b) == field_set.union(b, a)
    assert field_set.union(field_set.difference(a, b), both) == a
    assert not field_set.intersection(field_set.difference(a, b), b)


def _leaves(config: dict[str, Any]) -> dict[str, Any]:
    """A configuration without empty maps and lists, and lists of items in one order."""
    filled = {name: value for name, value in config.items() if value}
    for name in ("set", "ports"):
        if name in filled:
            filled[name] = sorted(filled[name], key=_order)
    return filled


def _order(item: Any) -> str:
    return str(sorted(item.items()) if isinstance(item, dict) else item)


def test_a_conflict_names_the_other_manager_and_the_field() -> None:
    obj, owners = applied({}, {"text": "a"}, {})

    with pytest.raises(ConflictsError) as caught:
        applied(obj, {"text": "b"}, owners, YOU)

    assert caught.value.by_manager == {ME: {"f:text": {}}}


def test_a_port_without_a_protocol_is_the_tcp_port() -> None:
    obj, owners = applied({}, {"ports": [{"port": 1, "protocol": "TCP", "name": "a"}]}, {})
    obj, owners = applied(obj, {"ports": [{"port": 1, "name": "a"}]}, owners, YOU)

    assert obj == {"ports": [{"port": 1, "protocol": "TCP", "name": "a"}]}
    assert 'k:{"port":1,"protocol":"TCP"}' in owners[YOU].fields["f:ports"]
