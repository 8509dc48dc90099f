"""The values of flags: `K=V` pairs, durations, quantities, names.

Each function takes the flag and its text, and returns the value or raises UsageError with the flag
and an example. Nothing is dropped silently.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from kubekit.errors import UsageError
from kubekit.objects.annotation_values import read_integer
from kubekit.objects.quantity import MAX_INT64 as MOST, InvalidQuantity, parse_milli, parse_whole
from muster.contract.gang import MAX_TOPOLOGY_LABELS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kubekit.objects.meta import Raw

MAX_NAME_LENGTH = 49
MAX_INT32 = 2**31 - 1
"""The largest number of replicas, seconds or retries in Kubernetes."""
MIN_MEMORY = 1 << 20
"""Bytes. No program starts with less: such an amount lacks its unit."""
_MIN_MEGABYTES = 64
"""A smaller number without a unit means gigabytes: Python does not start in so few megabytes."""
_BYTES = re.compile(r"(\d+(?:\.\d+)?) ?([KMGTP]?)i?B?", re.IGNORECASE)
_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
# The rules of `api/selectors.py`, written again because that import would slow every submit.
_PART = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_LABEL_VALUE = re.compile(rf"({_PART})?")
_DOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_QUALIFIED = re.compile(rf"({_DOMAIN}/)?{_PART}")
_WORD = re.compile(r"[A-Za-z0-9][-\w./:@+]*", re.ASCII)
_SUBDOMAIN = re.compile(_DOMAIN)
_TOLERATION = re.compile(r"([^=:,]+)(?:=([^=:,]*))?:([^=:,]*),(Equal|Exists)")
_EFFECTS = ("", "NoSchedule", "PreferNoSchedule", "NoExecute")
_PIECE = re.compile(r"(\d+\.?\d*|\.\d+)(h|ms|us|µs|ns|m|s)")
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


def wrong(flag: str, text: str, hint: str) -> UsageError:
    """`--flag 'text' is invalid`, and a hint."""
    return UsageError(f"{flag} {text!r} is invalid", hint=hint)


def job_name(name: str) -> str:
    """A name that leaves room for the suffixes of pods and services."""
    if not _NAME.fullmatch(name) or len(name) > MAX_NAME_LENGTH:
        raise UsageError(
            f"--name {name!r} is not a job name",
            hint=f"At most {MAX_NAME_LENGTH} lower-case letters, digits and '-', "
            f"the first a letter: --name={suggest_name(name)}",
        )
    return name


def suggest_name(name: str) -> str:
    """The nearest valid job name."""
    plain = re.sub(r"[^a-z0-9-]+", "-", name.lower()).strip("-")
    valid = plain if plain[:1].isalpha() else f"job-{plain}"
    return valid[:MAX_NAME_LENGTH].rstrip("-")


def pairs(flag: str, entries: Iterable[str]) -> dict[str, str]:
    """`K=V` entries as a mapping; the value may contain anything, also `=` and commas."""
    result = {}
    for entry in entries:
        key, equals, value = entry.partition("=")
        if not equals or not key:
            raise wrong(flag, entry, f"Write {flag}=KEY=VALUE")
        result[key] = value
    return result


def labels(flag: str, entries: Iterable[str]) -> dict[str, str]:
    """`K=V` entries that are valid labels."""
    result = keyed(flag, entries)
    for key, value in result.items():
        if not _LABEL_VALUE.fullmatch(value):
            hint = "Letters, digits, '-', '_' and '.', at most 63, a letter or digit at both ends."
            raise wrong(flag, f"{key}={value}", hint)
    return result


def label_keys(flag: str, text: str) -> tuple[str, ...]:
    """Keys of node labels, separated by commas."""
    keys = tuple(key.strip() for key in text.split(",")) if text else ()
    for key in keys:
        if not _QUALIFIED.fullmatch(key):
            raise wrong(flag, text, f"Write the key of a node label: {flag}=example.com/rack")
    if len(keys) > MAX_TOPOLOGY_LABELS:
        raise wrong(flag, text, f"Write at most {MAX_TOPOLOGY_LABELS} labels.")
    return keys


def keyed(flag: str, entries: Iterable[str]) -> dict[str, str]:
    """`K=V` entries whose keys are valid for labels and annotations."""
    result = pairs(flag, entries)
    for key, value in result.items():
        if not _QUALIFIED.fullmatch(key):
            raise wrong(flag, f"{key}={value}", f"Write {flag}=[domain/]KEY=VALUE")
    return result


def object_name(flag: str, name: str) -> str:
    """The name of a claim, a secret, a class."""
    if not _SUBDOMAIN.fullmatch(name) or len(name) > 253:
        raise wrong(flag, name, "It is the name of an object: lower-case letters, digits, '-', '.'")
    return name


def device(flag: str, entries: Iterable[str]) -> dict[str, str]:
    """Extended resources and how many of each."""
    result = pairs(flag, entries)
    for name, amount in result.items():
        if name == "nvidia.com/gpu":
            raise UsageError(f"{flag} nvidia.com/gpu: please use '--gpus N' instead")
        if not _QUALIFIED.fullmatch(name) or "/" not in name:
            raise wrong(flag, f"{name}={amount}", f"Write {flag}=vendor.com/device=AMOUNT")
        _whole(flag, name, amount)
    return result


def _whole(flag: str, name: str, amount: str) -> None:
    """Raise UsageError unless the amount is a whole number."""
    try:
        milli = parse_milli(amount)
    except InvalidQuantity:
        milli = -1
    if milli < 0 or milli % 1000 or milli > 1000 * MAX_INT32:
        hint = f"Write {flag}={name}=AMOUNT with a whole number, e.g. {flag}={name}=1"
        raise wrong(flag, f"{name}={amount}", hint)


def cpu(flag: str, text: str) -> str:
    """A number of CPUs as Kubernetes reads it; an empty one stays empty."""
    if text and not _is_amount(text):
        raise wrong(flag, text, f"Write {flag}=2 or {flag}=500m")
    return text


def memory(flag: str, text: str) -> str:
    """A number of bytes as Kubernetes reads it; an empty one stays empty, and 0 means no limit."""
    if not text:
        return text
    if not _is_amount(text):
        raise wrong(flag, text, _memory_hint(flag, text))
    count = parse_whole(text)
    if 0 < count < MIN_MEMORY:
        amount = f"{count} byte{'s' if count > 1 else ''}"
        raise UsageError(f"{flag} {text!r} is only {amount}", hint=_memory_hint(flag, text))
    return text


def _is_amount(text: str) -> bool:
    try:
        return 0 <= parse_milli(text) < MOST
    except InvalidQuantity:
        return False


def _memory_hint(flag: str, text: str) -> str:
    """The probable meaning: 4GB is 4Gi or 4G, and a number without a unit is not bytes."""
    match = _BYTES.fullmatch(text)
    number, unit = (match[1], match[2].upper()) if match else ("", "")
    if number and _is_amount(text):  # a valid amount, but too small: 200, or docker's 500m
        few = not unit and float(number) < _MIN_MEGABYTES
        return f"Did you mean {flag}={number}{'Gi' if few else 'Mi'}?"
    if unit:
        decimal = unit.replace("K", "k")
        return f"Did you mean {flag}={number}{unit}i or {flag}={number}{decimal}?"
    return f"Write {flag}=4Gi or {flag}=500Mi"


def one_word(flag: str, text: str) -> str:
    """The name of an image or a scheduler; an empty one stays empty."""
    if text and not _WORD.fullmatch(text):
        raise wrong(flag, text, "It is one word of letters, digits and '-_./:@'.")
    return text


def seconds(flag: str, text: str) -> int:
    """A Go duration in whole seconds, rounded up: 90s, 5m, 1h30m, 1.5h."""
    pieces = list(_PIECE.finditer(text))
    if text != "0" and (not pieces or "".join(piece[0] for piece in pieces) != text):
        raise wrong(flag, text, f"Write {flag}=90s, 5m or 1h30m")
    total = sum(float(piece[1]) * _UNITS[piece[2]] for piece in pieces)
    if total > MAX_INT32:
        raise wrong(flag, text, f"It is at most {MAX_INT32} seconds.")
    return math.ceil(round(total, 6))  # 4.15 * 60 is a little more than 249


def toleration(text: str) -> Raw:
    """`all`, or `KEY=VALUE:EFFECT,OPERATOR`."""
    if text == "all":
        return {"operator": "Exists"}
    match = _TOLERATION.fullmatch(text)
    if match is None or match[3] not in _EFFECTS:
        raise wrong(
            "--toleration",
            text,
            "Write --toleration=KEY=VALUE:NoSchedule,Equal (or PreferNoSchedule, NoExecute; "
            "Exists) or --toleration=all",
        )
    key, value, effect, operator = match.groups()
    if operator == "Exists":
        value = ""  # Kubernetes rejects a value here; users of arena write one anyway.
    parts = {"key": key, "operator": operator, "value": value, "effect": effect}
    return {name: part for name, part in parts.items() if part}


def choice(flag: str, text: str, allowed: tuple[str, ...], complaint: str = "") -> str:
    """One of the allowed words, in any letter case; returned in its own."""
    word = next((word for word in allowed if word.lower() == text.lower()), None)
    if word is None:
        hint = f"Write {', '.join(allowed[:-1])} or {allowed[-1]}."
        raise UsageError(complaint, hint=hint) if complaint else wrong(flag, text, hint)
    return word


def is_path(text: str) -> bool:
    """Whether a volume can be mounted there: an absolute path, but not the root."""
    return text.startswith("/") and bool(text.strip("/")) and not set(text) & set("\0:")


def user_id(flag: str, text: str) -> int | None:
    """The number of a user; None without the flag."""
    if not text:
        return None
    number = read_integer(text)
    if number is None:
        raise wrong(flag, text, f"Write the number of a user, for example {flag}=1000")
    return number


def path(flag: str, text: str, hint: str) -> str:
    """A path at which a volume can be mounted."""
    if not is_path(text):
        raise wrong(flag, text, hint)
    return text
