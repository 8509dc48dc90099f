"""Environment and command line of a container."""

from __future__ import annotations

import base64

import msgspec
import pytest

from localkube.node import env_and_files
from localkube.node.env_and_files import PodContext
from localkube.node.pod import FieldRef, MissingReference
from tests.localkube.node.pod_builders import Raw, container, make_pod

BASE = {"PATH": "/bin", "HOME": "/root"}


def variables(*entries: Raw, context: PodContext | None = None, **fields: object) -> dict[str, str]:
    pod = make_pod("p", container("main", "true", env=list(entries), **fields))
    return env_and_files.environment(pod, pod.spec.containers[0], context or PodContext(), BASE)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$(A)", "one"),
        ("x$(A)y$(A)", "xoneyone"),
        ("$$(A)", "$(A)"),
        ("$(UNKNOWN)", "$(UNKNOWN)"),
        ("$A ${A} $", "$A ${A} $"),
        ("$(A", "$(A"),
        ("$$ $$$$", "$ $$"),
        ("$$$(A)", "$one"),
        ("$($(A)", "$($(A)"),
    ],
)
def test_references_are_replaced_where_the_name_is_known(text: str, expected: str) -> None:
    assert env_and_files.expand(text, {"A": "one"}) == expected


def test_a_variable_may_use_earlier_variables_but_not_later_ones() -> None:
    values = variables(
        {"name": "LATE", "value": "$(HOST)"},
        {"name": "HOST", "value": "ps-0"},
        {"name": "URL", "value": "$(HOST):2222"},
    )

    assert values["URL"] == "ps-0:2222"
    assert values["LATE"] == "$(HOST)"


def test_own_variables_override_the_base_environment() -> None:
    assert variables({"name": "PATH", "value": "/opt:$(PATH)"})["PATH"] == "/opt:/bin"


def test_variables_can_have_the_values_of_pod_fields() -> None:
    source = {
        "NAME": "metadata.name",
        "SPACE": "metadata.namespace",
        "NODE": "spec.nodeName",
        "IP": "status.podIP",
        "APP": "metadata.labels['app']",
    }
    entries = [
        {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
        for name, path in source.items()
    ]

    values = variables(*entries, context=PodContext(pod_ip="10.0.0.7"))

    assert {name: values[name] for name in source} == {
        "NAME": "p",
        "SPACE": "default",
        "NODE": "muster-0",
        "IP": "10.0.0.7",
        "APP": "p",
    }


@pytest.mark.parametrize(
    ("resource", "divisor", "expected"),
    [
        ("limits.cpu", "0", "2"),
        ("limits.cpu", "1m", "1500"),
        ("requests.memory", "1Mi", "512"),
        ("limits.memory", "1Gi", "64"),
    ],
)
def test_resources_are_counted_in_units_of_the_divisor(
    resource: str, divisor: str, expected: str
) -> None:
    source = {"resourceFieldRef": {"resource": resource, "divisor": divisor}}
    resources = {"limits": {"cpu": "1500m"}, "requests": {"memory": "512Mi"}}

    values = variables(
        {"name": "X", "valueFrom": source},
        context=PodContext(node={"memory": "64Gi"}),
        resources=resources,
    )

    assert values["X"] == expected


def test_variables_come_from_single_keys_and_from_whole_objects() -> None:
    context = PodContext(
        config_maps={"conf": {"rate": "0.1", "not a name": "x"}},
        secrets={"key": {"token": base64.b64encode(b"s3cret").decode()}},
    )

    values = variables(
        {"name": "RATE", "valueFrom": {"configMapKeyRef": {"name": "conf", "key": "rate"}}},
        context=context,
        envFrom=[
            {"secretRef": {"name": "key"}},
            {"prefix": "C_", "configMapRef": {"name": "conf"}},
        ],
    )

    assert values["RATE"] == values["C_rate"] == "0.1"
    assert values["token"] == "s3cret"
    assert "C_not a name" not in values


def test_a_missing_reference_is_named_unless_it_is_optional() -> None:
    ref = {"name": "conf", "key": "rate"}

    with pytest.raises(MissingReference, match='configmap "conf" not found'):
        variables({"name": "A", "valueFrom": {"configMapKeyRef": ref}})
    with pytest.raises(MissingReference, match="key rate"):
        variables(
            {"name": "A", "valueFrom": {"configMapKeyRef": ref}},
            context=PodContext(config_maps={"conf": {}}),
        )
    optional = variables({"name": "A", "valueFrom": {"configMapKeyRef": ref | {"optional": True}}})
    assert "A" not in optional


def test_a_value_that_is_not_base64_may_be_of_a_secret_or_a_config_map() -> None:
    with pytest.raises(MissingReference, match=r"^a value is not base64: "):
        env_and_files.decoded("not base64!")


def test_labels_are_quoted_so_that_a_value_is_one_line() -> None:
    meta = {"annotations": {"a": 'say "hi"\\\n\tbell\a', "b": "caf\xe9 \x1f\u200b\U000e0001"}}
    ref = msgspec.convert({"fieldPath": "metadata.annotations"}, FieldRef)

    lines = env_and_files.field_value(make_pod("p", meta=meta), ref, PodContext()).split("\n")

    assert lines == [
        r'a="say \"hi\"\\\n\tbell\a"',
        'b="caf\xe9 ' + r'\x1f\u200b\U000e0001"',
    ]
