"""How what is missing is filled in: never over what somebody wrote.

Pure; used by `defaults.py` and its neighbours.

What an IP address may not be, in services and endpoints.

Pure; called by `services.py` and `endpoints.py`. Worded as the real server words it.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any

from muster.local.apiserver import api_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from muster.api.meta import Raw
    from muster.local.apiserver.api_errors import Cause


def fill(obj: Raw, **values: Any) -> Raw:
    """Set what is missing (null, or without a word) and return the same object."""
    for name, value in values.items():
        if obj.get(name) in (None, ""):
            obj[name] = value
    return obj


def fill_zeros(obj: Raw, **values: Any) -> Raw:
    """The same where a zero, too, says nothing."""
    for name, value in values.items():
        obj[name] = obj.get(name) or value
    return obj


def ensure_map(obj: Raw, name: str) -> Raw:
    """The map under `name`, made if missing; a wrong type is left for validation to report."""
    if obj.get(name) is None:
        obj[name] = {}
    found = obj[name]
    return found if isinstance(found, dict) else {}


def maps_in(value: Any) -> list[Raw]:
    """The maps in a list, or nothing; the rest is left for validation to report."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


IP_RULE = "must be a valid IP address"
IP_RULE_WITH_EXAMPLE = f"{IP_RULE}, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_NOBODY = {"0.0.0.0", "::"}
_RANGES = {
    "may not be in the loopback range (127.0.0.0/8, ::1/128)": ("127.0.0.0/8", "::1/128"),
    "may not be in the link-local range (169.254.0.0/16, fe80::/10)": (
        "169.254.0.0/16",
        "fe80::/10",
    ),
    "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)": (
        "224.0.0.0/24",
        "ff02::/16",
    ),
}
_KEPT_FREE = {told: tuple(map(ipaddress.ip_network, found)) for told, found in _RANGES.items()}


def is_address(text: str) -> bool:
    """Whether a text is an IP address."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return "%" not in text


def check_address(text: str, path: str) -> Iterator[Cause]:
    """What is wrong with an address."""
    if not is_address(text):
        yield api_errors.invalid_value(path, text, IP_RULE_WITH_EXAMPLE)


def check_reachable(text: str, path: str) -> Iterator[Cause]:
    """What is wrong with an address that others shall reach."""
    found = ipaddress.ip_address(text)
    if str(found) in _NOBODY:
        yield api_errors.invalid_value(path, text, f"may not be unspecified ({found})")
    for told, networks in _KEPT_FREE.items():
        if any(found in network for network in networks):
            yield api_errors.invalid_value(path, text, told)
