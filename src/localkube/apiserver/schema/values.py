"""Rules of a schema for one value: enum, lengths, ranges, patterns, formats.

Causes have the wording of the real server. As with a real server, a format that is not in the table
is advice and not checked. Checksums (`isbn`, `creditcard`) are not checked either.
"""

from __future__ import annotations

import base64
import ipaddress
import re
from datetime import date, datetime
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import msgspec
import re2

from localkube.apiserver import causes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kubekit.objects.meta import Raw
    from localkube.apiserver.causes import Cause

_sorted = msgspec.json.Encoder(order="sorted")


def check_value(value: Any, raw: Raw, path: str) -> list[Cause]:
    """The causes for an invalid value of the right type."""
    found: list[Cause] = []
    if "enum" in raw and value not in raw["enum"]:
        found.append(causes.not_supported(path, value, [str(v) for v in raw["enum"]]))
    if isinstance(value, dict):
        found += _check_map(value, raw, path)
    elif isinstance(value, str):
        found += _check_text(value, raw, path)
    elif isinstance(value, list):
        found += _check_list(value, raw, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        found += _check_number(value, raw, path)
    return found


def join_path(path: str, name: str) -> str:
    """The path of a field."""
    return f"{path}.{name}" if path else name


def _check_map(value: Raw, raw: Raw, path: str) -> Iterator[Cause]:
    names = list(raw.get("required", ()))
    if raw.get("x-kubernetes-embedded-resource"):
        names += [name for name in ("apiVersion", "kind") if name not in names]
    yield from (causes.required(join_path(path, name)) for name in names if name not in value)
    if "maxProperties" in raw and len(value) > raw["maxProperties"]:
        yield causes.too_many(path, len(value), raw["maxProperties"])
    if len(value) < raw.get("minProperties", 0):
        detail = f"{path} in body should have at least {raw['minProperties']} properties"
        yield causes.invalid(path, len(value), detail)


def _check_text(value: str, raw: Raw, path: str) -> Iterator[Cause]:
    if "maxLength" in raw and len(value) > raw["maxLength"]:
        yield causes.too_long(path, raw["maxLength"])
    elif len(value) < raw.get("minLength", 0):
        detail = f"{path} in body should be at least {raw['minLength']} chars long"
        yield causes.invalid(path, value, detail)
    elif "pattern" in raw and not _search(raw["pattern"], value):
        yield causes.invalid(path, value, f"{path} in body should match '{raw['pattern']}'")


def _search(pattern: str, value: str) -> bool:
    """Whether the pattern matches."""
    # Go's regular expressions are RE2, which takes linear time: no pattern can stall the server.
    try:
        return compile_pattern(pattern).search(value) is not None
    except re2.error:
        return True  # a CRD that was stored before invalid patterns were rejected


@lru_cache(maxsize=4096)
def compile_pattern(pattern: str) -> re2._Regexp:
    """The pattern, or re2.error."""
    options = re2.Options()
    options.log_errors = False
    return re2.compile(pattern, options)


def _check_list(value: list[Any], raw: Raw, path: str) -> Iterator[Cause]:
    if "maxItems" in raw and len(value) > raw["maxItems"]:
        yield causes.too_many(path, len(value), raw["maxItems"])
    if len(value) < raw.get("minItems", 0):
        detail = f"{path} in body should have at least {raw['minItems']} items"
        yield causes.invalid(path, len(value), detail)
    yield from _check_unique(value, raw, path)


def _check_unique(value: list[Any], raw: Raw, path: str) -> Iterator[Cause]:
    """An item of a set, or the keys of an item of a map, must not come twice."""
    kind = raw.get("x-kubernetes-list-type")
    if kind not in ("set", "map"):
        return
    keys = raw.get("x-kubernetes-list-map-keys") or ()
    seen: set[bytes] = set()  # as JSON: items may be maps, which cannot be hashed
    for i, item in enumerate(value):
        by_key = {k: item.get(k) for k in keys if k in item} if isinstance(item, dict) else item
        identity = by_key if kind == "map" else item
        encoded = _sorted.encode(identity)
        if encoded in seen:
            yield causes.duplicate(f"{path}[{i}]", identity)
        seen.add(encoded)


def _check_number(value: float, raw: Raw, path: str) -> Iterator[Cause]:
    low, high = raw.get("minimum"), raw.get("maximum")
    if low is not None and (value < low or (raw.get("exclusiveMinimum") and value == low)):
        word = "greater than" if raw.get("exclusiveMinimum") else "greater than or equal to"
        yield causes.invalid(path, value, f"{path} in body should be {word} {low}")
    if high is not None and (value > high or (raw.get("exclusiveMaximum") and value == high)):
        word = "less than" if raw.get("exclusiveMaximum") else "less than or equal to"
        yield causes.invalid(path, value, f"{path} in body should be {word} {high}")
    factor = raw.get("multipleOf")
    if factor and value % factor:
        yield causes.invalid(path, value, f"{path} in body should be a multiple of {factor}")
    bound = {"int32": 2**31, "int64": 2**63}.get(raw.get("format", ""))
    if bound is not None and not -bound <= value < bound:
        yield causes.mistyped(path, value, f"{path} in body must fit into {raw['format']}")


_TIME = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?"
    r"([Zz]|[+-][0-9]{2}:[0-9]{2})"
)
# These follow the package strfmt of Kubernetes, with its oddities.
_DURATION = re.compile(r"[+-]?((\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))+|[+-]?0")
_SPAN = re.compile(r"\d+\s*([A-Za-zµ]+)")
_UNIT = re.compile(
    "ns|nano.*|us|µs|micro.*|ms|milli.*|s|sec.*|m|min.*|h|hr|hour.*|d|day.*|w|wk|week.*"
)
_ATOM = r"[^\s\x00-\x1f()<>\[\]:;@\\,.\"]+"
_ADDRESS = rf'({_ATOM}(\.{_ATOM})*|"[^"]*")@({_ATOM}(\.{_ATOM})*|\[[^\]]*\])'
_SIGN, _LETTER = r"[^\W_]", r"[^\W\d_]"
_HOST = re.compile(
    rf"{_SIGN}(-?{_SIGN}{{0,62}})?|({_SIGN}(({_SIGN}|-){{0,61}}{_SIGN})?\.)+{_LETTER}{{2,63}}"
)
_ZEROS = re.compile(r"(?<![0-9a-fA-F:])0+(?=[0-9])")
_HEX = "[0-9a-fA-F]"
_BYTE = r"\s*(0|[1-9]\d?|1\d\d|2[0-4]\d|25[0-5])\s*"


_decode_base64 = partial(base64.b64decode, validate=True)


def matches_format(text: str, name: str) -> bool:
    """Whether a text of a custom object has the format."""
    matches = _FORMATS.get(name)
    return matches is None or matches(text)


def decodes_as(text: str, name: str) -> bool:
    """Whether a text of a built-in kind can be decoded: its types have times and bytes only."""
    if name == "date-time":  # Go, unlike the format above, wants capitals
        return text.isupper() and _is_time(text)
    return name != "byte" or not text or _is_base64(text)


def _is_time(text: str) -> bool:
    return bool(_TIME.fullmatch(text)) and _is(datetime.fromisoformat, text.upper())


def _is(parse: Callable[[str], object], text: str) -> bool:
    """Whether a text can be parsed."""
    try:
        parse(text)
    except ValueError:
        return False
    return True


def _is_base64(text: str) -> bool:
    return bool(text) and _is(_decode_base64, text.replace("\n", ""))


def _is_duration(text: str) -> bool:
    """A duration of Go, or any text with a number and a unit, such as `about 5 minutes`."""
    if _DURATION.fullmatch(text):
        return True
    return any(_UNIT.fullmatch(unit.lower()) for unit in _SPAN.findall(text))


def _is_uri(text: str) -> bool:
    """A path, or any text with a scheme."""
    if not re.fullmatch(r"(/|[a-zA-Z][a-zA-Z0-9+.-]*:).*", text) or re.search(
        r"[\x00-\x20\x7f]", text
    ):
        return False
    return not re.search("%(?![0-9a-fA-F]{2})", text.partition("?")[0])


def _is_address(sign: str) -> Callable[[str], bool]:
    return lambda text: sign in text and "%" not in text and _is(ipaddress.ip_address, _plain(text))


def _is_network(text: str) -> bool:
    whole = re.search(r"/[0-9]{1,3}$", text) is not None
    return whole and _is(ipaddress.ip_interface, _plain(text))


def _plain(text: str) -> str:
    """An address without leading zeros, which the real server accepts."""
    return _ZEROS.sub("", text) if "." in text else text


def _matches(pattern: str, longest: int = 1 << 20) -> Callable[[str], bool]:
    compiled = re2.compile(pattern)  # linear time, as for patterns of schemas
    return lambda text: len(text) <= longest and compiled.fullmatch(text) is not None


def _uuid(version: str = _HEX, variant: str = _HEX) -> Callable[[str], bool]:
    middle = f"-?{version}{_HEX}{{3}}-?{variant}{_HEX}{{3}}-?"
    return _matches(f"{_HEX}{{8}}-?{_HEX}{{4}}{middle}{_HEX}{{12}}")


_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_PAIRS, _FOURS = f"({_HEX}{{2}}[:-])", f"({_HEX}{{4}}\\.)"
_FORMATS: dict[str, Callable[[str], bool]] = {
    "date": lambda text: len(text) == len("2026-01-02") and _is(date.fromisoformat, text),
    "date-time": _is_time,
    "datetime": _is_time,
    "duration": _is_duration,
    "email": _matches(rf"{_ADDRESS}|({_ATOM}|\"[^\"]*\"|\s)*<{_ADDRESS}>"),
    "hostname": lambda text: len(text) <= 255 and _HOST.fullmatch(text) is not None,
    "ipv4": _is_address("."),
    "ipv6": _is_address(":"),
    "cidr": _is_network,
    "mac": _matches(
        f"{_PAIRS}{{5}}{_HEX}{{2}}|{_PAIRS}{{7}}{_HEX}{{2}}|{_PAIRS}{{19}}{_HEX}{{2}}"
        f"|{_FOURS}{{2,3}}{_HEX}{{4}}|{_FOURS}{{9}}{_HEX}{{4}}"
    ),
    "uri": _is_uri,
    "uuid": _uuid(),
    "uuid3": _uuid("3"),
    "uuid4": _uuid("4", "[89abAB]"),
    "uuid5": _uuid("5", "[89abAB]"),
    "byte": _is_base64,
    "hexcolor": _matches(f"#?({_HEX}{{3}}|{_HEX}{{6}})"),
    "rgbcolor": _matches(rf"rgb\({_BYTE},{_BYTE},{_BYTE}\)"),
    "ssn": _matches(r"\d{3}[- ]\d{2}[- ]\d{4}"),
    "bsonobjectid": _matches(f"{_HEX}{{24}}"),
    "k8s-short-name": _matches(_LABEL, 63),
    "k8s-long-name": _matches(rf"{_LABEL}(\.{_LABEL})*", 253),
}
