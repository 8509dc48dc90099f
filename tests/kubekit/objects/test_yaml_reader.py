"""The one reader of YAML: attacks, limits, and the same values as PyYAML."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import example, given, strategies as st

from kubekit.objects import yaml_reader
from kubekit.objects.yaml_reader import Limits, YamlError, YamlTooLarge
from tests.kubekit.objects.yaml_attacks import ATTACKS, read_apart

SMALL = Limits(size=2000, values=30, depth=5)
MANIFEST = """\
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: "mnist", labels: {app: x, "1": '2'}}
spec: &spec
  tfReplicaSpecs:
    Worker: &worker
      replicas: 2
      template: !!map
        spec:
          containers:
          - name: tensorflow
            args: [-c, "echo\\t1", 2001-01-01, 0x1f, 1e3, ~, yes, 1:30]
            command: |
              #!/bin/sh
              exit 0
    Chief:
      <<: *worker
      replicas: 1
---
? [a]
: *spec
"""
LEAVES = (
    "a",
    "1",
    "1.5",
    "~",
    "''",
    '"x"',
    "2001-01-01",
    "true",
    "&a a",
    "&b b",
    "*a",
    "*b",
    "!x y",
)


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_refused_soon_and_in_one_sentence(name: str) -> None:
    said = read_apart(ATTACKS[name].encode())

    assert said
    assert len(said.splitlines()) == 1


def test_an_attack_in_another_encoding_is_refused() -> None:
    assert "nested deeper" in read_apart(("[" * 50_000).encode("utf-16"))


def test_the_loader_without_libyaml_refuses_the_same() -> None:
    for name in ("deep '['", "deep '- '", "laughs", "contains itself", "digits of base 60"):
        with pytest.raises(YamlError):
            yaml_reader.load_all(ATTACKS[name], yaml.SafeLoader, SMALL._replace(size=2 << 20))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: [\n\nb", "line 4: did not find expected ',' or ']'"),
        (
            "a\n---\nb",
            "line 2: expected a single document in the stream, but found another document",
        ),
        ("\0", "unacceptable character #x0000: control characters are not allowed"),
        (b"\xff", "it is not Unicode text: invalid start byte"),
        ("\ud800", "it is not Unicode text: surrogates not allowed"),
        ("!!bool x", "a value does not fit its tag"),
        ("!!int ''", "a value does not fit its tag"),
        ("!!timestamp x", "a value does not fit its tag"),
        ("2001-99-99", "a value cannot be read: month must be in 1..12"),
        ("*a", "line 1: the alias *a has no anchor before it"),
        ("- 1\n- &a {b: *a}", "line 2: *a contains itself"),
        ("!!python/object/apply:os.system [id]", "line 1: could not determine a constructor"),
    ],
)
def test_what_cannot_be_read_is_said_with_its_line(text: str | bytes, says: str) -> None:
    with pytest.raises(YamlError) as caught:
        yaml_reader.load(text)

    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_aliases_can_be_refused_and_a_quoted_star_is_not_one() -> None:
    assert yaml_reader.load("a: '*b'", aliases=False) == {"a": "*b"}
    with pytest.raises(YamlError, match="line 2: aliases are not accepted"):
        yaml_reader.load("a: &b 1\nc: *b", aliases=False)


def test_long_text_of_digits_is_text_where_it_is_quoted_or_the_loader_says_so() -> None:
    class Words(yaml_reader.SafeLoader):  # type: ignore[misc]
        yaml_implicit_resolvers: dict[str, Any] = {}

    digits = "1" * 2000
    assert yaml_reader.load(f"'{digits}'") == digits
    assert yaml_reader.load(digits, Words) == digits
    assert yaml_reader.load(f"!!str {digits}") == digits
    with pytest.raises(YamlError, match="a number has more than 1000 characters"):
        yaml_reader.load(digits)


# -- compared with PyYAML ----------------------------------------------------------------------


def plain(text: str | bytes) -> Any:
    """What PyYAML makes of it, as text, since NaN is not equal to itself; None if nothing."""
    try:
        return repr(list(yaml.load_all(text, yaml_reader.SafeLoader)))
    except Exception:  # noqa: BLE001 - PyYAML raises nearly everything
        return None


def measured(text: str | bytes) -> tuple[int, int]:
    """The values and levels of all documents, counted after the expansion of aliases."""
    total = deepest = 0
    for document in yaml.compose_all(text, yaml_reader.SafeLoader):
        todo = [(document, 0)]
        total += 1
        while todo:
            node, depth = todo.pop()
            total += 1
            if isinstance(node, yaml.CollectionNode):
                depth += 1
                parts = node.value
                if isinstance(node, yaml.MappingNode):
                    parts = [part for pair in node.value for part in pair]
                todo += [(part, depth) for part in parts]
            deepest = max(deepest, depth)
            assert total < 1_000_000, "an alias of itself was accepted"
    return total, deepest


def check_like_plain(text: str | bytes) -> None:
    """The reader accepts what PyYAML accepts, with the same values, if it is within the limits."""
    for limits in (yaml_reader.OWN_FILE, SMALL):
        try:
            seen = repr(yaml_reader.load_all(text, limits=limits))
        except YamlError as error:
            problem = error.problem
        else:
            assert seen == plain(text)
            values, depth = measured(text)
            assert values <= limits.values
            assert depth <= limits.depth
            assert len(text) <= limits.size
            continue
        if plain(text) is None or "contains itself" in problem:
            continue
        assert limits is SMALL, (text, problem)
        values, depth = measured(text)
        assert len(text) > limits.size or values > limits.values or depth > limits.depth


@st.composite
def nested(draw: st.DrawFn, depth: int = 7) -> str:
    """Text in the shape of the grammar: flow and block, keys, anchors, aliases, tags."""
    kind = draw(st.integers(0, 7 if depth else 1))
    if kind < 2:
        return draw(st.sampled_from(LEAVES))
    inner = st.lists(nested(depth=depth - 1), max_size=3)
    start = draw(st.sampled_from(("", "", "&a ", "&b ", "!!seq ", "!!map ")))
    match kind:
        case 2 | 3:
            return f"{start}[{', '.join(draw(inner))}]"
        case 4 | 5:
            keys = st.sampled_from(("k", "l", "<<", "? m", "&a n"))
            return f"{start}{{{', '.join(f'{draw(keys)}: {part}' for part in draw(inner))}}}"
        case 6:
            return f"{start}\n" + "".join(f"{' ' * (14 - 2 * depth)}- {p}\n" for p in draw(inner))
        case _:
            return "\n---\n".join(draw(inner))


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A manifest with pieces taken out, repeated, moved or replaced."""
    text = MANIFEST
    for _ in range(draw(st.integers(1, 5))):
        start, end, at = (draw(st.integers(0, len(text))) for _ in range(3))
        piece = draw(st.sampled_from((text[start:end][:60], *"[]{}:-?&*!|>'\"%#\n\t ", "\ufeff")))
        text = text[:at] + piece + text[at + draw(st.integers(0, 5)) :]
    return text


@given(nested())
@example("&a [&b [*b]]")
@example("- &a {k: 1}\n- {<<: *a, l: 2}")
def test_nested_text_is_read_as_by_pyyaml(text: str) -> None:
    check_like_plain(text)


@given(mutated())
@example(MANIFEST)
def test_a_mutated_manifest_is_read_as_by_pyyaml(text: str) -> None:
    check_like_plain(text)


@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-16")))
@example(b"\xef\xbb\xbfa: 1")
@example(b"\xff\xfea\x00:\x00 \x001\x00")
@example(b"\xfe\xff\x00a")
@example(b"\xff\xfe\x00\xd8")
def test_any_bytes_are_read_as_by_pyyaml(data: bytes) -> None:
    check_like_plain(data)


@given(st.text(max_size=200))
def test_any_text_is_read_as_by_pyyaml(text: str) -> None:
    check_like_plain(text)


@pytest.mark.parametrize(
    ("at_limit", "above"),
    [
        ("[" * 5 + "]" * 5, "[" * 6 + "]" * 6),
        ("- &a [[]]\n- [[*a]]", "- &a [[]]\n- [[[*a]]]"),
        ("a: " + "{b: " * 4 + "c" + "}" * 4, "a: " + "{b: " * 5 + "c" + "}" * 5),
    ],
)
def test_the_depth_is_exact_and_aliases_count_as_what_they_stand_for(
    at_limit: str, above: str
) -> None:
    yaml_reader.load(at_limit, limits=SMALL)

    with pytest.raises(YamlError, match="it is nested deeper than 5 levels"):
        yaml_reader.load(above, limits=SMALL)


@pytest.mark.parametrize(
    ("at_limit", "above"),
    [
        ("- a\n" * 28, "- a\n" * 29),
        ("- &a [b, c]\n" + "- *a\n" * 8 + "- d\n", "- &a [b, c]\n" + "- *a\n" * 9 + "- d\n"),
        ("#" * 2000, "#" * 2001),
    ],
)
def test_the_number_of_values_is_exact_and_too_many_are_too_large(
    at_limit: str, above: str
) -> None:
    yaml_reader.load(at_limit, limits=SMALL)

    with pytest.raises(YamlTooLarge):
        yaml_reader.load(above, limits=SMALL)
