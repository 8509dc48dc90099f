"""What an IP address may not be, in services and endpoints.

Pure; called by `services.py` and `endpoints.py`. Worded as the real server words it.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from muster.local.apiserver import status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from muster.local.apiserver.status import Cause

SHORT = "must be a valid IP address"
WRONG = f"{SHORT}, (e.g. 10.9.8.7 or 2001:db8::ffff)"
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
        yield status.bad_value(path, text, WRONG)


def check_reachable(text: str, path: str) -> Iterator[Cause]:
    """What is wrong with an address that others shall reach."""
    found = ipaddress.ip_address(text)
    if str(found) in _NOBODY:
        yield status.bad_value(path, text, f"may not be unspecified ({found})")
    for told, networks in _KEPT_FREE.items():
        if any(found in network for network in networks):
            yield status.bad_value(path, text, told)
