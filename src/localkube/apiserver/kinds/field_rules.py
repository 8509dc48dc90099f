"""Shared by all kinds: filling in missing fields, and checks of single fields.

Defaults never replace a value of the client. Checks are worded as the real server words them. Both
may rely on types: the decoder has rejected fields of a wrong type before.
"""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING, Any

import msgspec

from kubekit.objects.meta import MAX_SECONDS
from localkube.apiserver import causes
from localkube.apiserver.admission import names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kubekit.objects.meta import Raw
    from localkube.apiserver.causes import Causes

PROTOCOLS = ("SCTP", "TCP", "UDP")
IP_RULE = "must be a valid IP address"
NOT_NEGATIVE = "must be greater than or equal to 0"
_IP_RULE_WITH_EXAMPLE = f"{IP_RULE}, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_PERCENT_RULE = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%', "
    " or '93%', regex used for validation is '[0-9]+%')"
)
TOKEN_SECONDS = 3600
"""The default lifetime of a token."""
_MIN_TOKEN_SECONDS, _MAX_TOKEN_SECONDS = 600, 2**32
_UNSPECIFIED = {"0.0.0.0", "::"}
_UNREACHABLE = {
    rule: tuple(map(ipaddress.ip_network, networks))
    for rule, networks in {
        "may not be in the loopback range (127.0.0.0/8, ::1/128)": ("127.0.0.0/8", "::1/128"),
        "may not be in the link-local range (169.254.0.0/16, fe80::/10)": (
            "169.254.0.0/16",
            "fe80::/10",
        ),
        "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)": (
            "224.0.0.0/24",
            "ff02::/16",
        ),
    }.items()
}


# -- defaults ------------------------------------------------------------------------------------


def fill(obj: Raw, **values: Any) -> Raw:
    """Set the fields that are missing, null or empty text, and return the same object."""
    for name, value in values.items():
        if obj.get(name) in (None, ""):
            obj[name] = value
    return obj


def fill_zeros(obj: Raw, **values: Any) -> Raw:
    """The same where zero counts as missing, as in Go structs whose fields are not pointers."""
    for name, value in values.items():
        obj[name] = obj.get(name) or value
    return obj


def ensure_map(obj: Raw, name: str) -> Raw:
    """The map under `name`, created if missing."""
    if obj.get(name) is None:
        obj[name] = {}
    inner: Raw = obj[name]
    return inner


def fill_optional(obj: Raw, name: str, **values: Any) -> None:
    """Fill in the map under `name`, if there is one."""
    if obj.get(name) is not None:
        fill(obj[name], **values)


# -- checks --------------------------------------------------------------------------------------


def each(obj: Raw, path: str, field: str) -> Iterator[tuple[str, Any]]:
    """The items of a list, each with its path; `path` is that of the object that has the list."""
    for i, item in enumerate(obj.get(field) or ()):
        yield f"{path}.{field}[{i}]".removeprefix("."), item


def check_required(obj: Raw, path: str, *fields: str) -> Causes:
    """A cause for each field that is missing or empty."""
    return [causes.required(f"{path}.{field}") for field in fields if not obj.get(field)]


def check_name(obj: Raw, path: str, rule: names.Rule, field: str = "name") -> Causes:
    """The causes for a name that is missing or breaks the rule."""
    name = str(obj.get(field) or "")
    if not name:
        return [causes.required(f"{path}.{field}")]
    return names.invalid_values(f"{path}.{field}", name, rule(name))


def check_range(number: int | None, low: int, high: int, path: str) -> Causes:
    """The cause for a number out of range; a missing number is valid."""
    if number is not None and not low <= number <= high:
        yield causes.invalid(path, number, f"must be between {low} and {high}, inclusive")


def check_grace(obj: Raw, path: str) -> Causes:
    """The cause for a grace period that is too long; a missing one is valid."""
    field = "terminationGracePeriodSeconds"
    if (obj.get(field) or 0) > MAX_SECONDS:
        rule = f"must be less than or equal to {MAX_SECONDS}"
        yield causes.invalid(f"{path}.{field}", obj[field], rule)


def one_of(obj: Raw, field: str, allowed: tuple[str, ...], path: str) -> Causes:
    """The cause for a value that is not allowed; a missing value is valid."""
    value = obj.get(field)
    if value and value not in allowed:
        yield causes.not_supported(f"{path}.{field}", value, allowed)


def check_not_negative(obj: Raw, *fields: str, path: str = "spec") -> Causes:
    """A cause for each negative field."""
    for field in fields:
        if (obj.get(field) or 0) < 0:
            yield causes.invalid(f"{path}.{field}".lstrip("."), obj[field], NOT_NEGATIVE)


def check_int_or_percent(value: int | str, path: str, *, most: int | None = 100) -> Causes:
    """The cause for an invalid number or percentage."""
    if isinstance(value, int):
        if value < 0:
            yield causes.invalid(path, value, NOT_NEGATIVE)
    elif not re.fullmatch("[0-9]{1,9}%", value):
        yield causes.invalid(path, value, _PERCENT_RULE)
    elif most is not None and int(value[:-1]) > most:
        yield causes.invalid(path, value, f"must not be greater than {most}%")


def port_name_problems(name: str) -> list[str]:
    """The rules that the name of a container's port breaks."""
    problems = ["must be no more than 15 characters"] if len(name) > 15 else []
    if not re.fullmatch("[-a-z0-9]+", name):
        problems.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", name):
        problems.append("must contain at least one letter (a-z)")
    if "--" in name:
        problems.append("must not contain consecutive hyphens")
    if name[0] == "-" or name[-1] == "-":
        problems.append("must not begin or end with a hyphen")
    return problems


def check_port_number(port: int, path: str) -> Causes:
    """The cause for a number that is not a port."""
    return check_range(port, 1, 65535, path)


def check_port(port: int | str, path: str) -> Causes:
    """The causes for a port that is neither a number nor the name of a container's port."""
    if isinstance(port, str):
        yield from names.invalid_values(path, port, port_name_problems(port or "-"))
    else:
        yield from check_port_number(port, path)


def check_relative_path(file: str, path: str) -> Causes:
    """The causes for a path that leads out of the folder it starts in."""
    if file.startswith("/"):
        yield causes.invalid(path, file, "must be a relative path")
    if ".." in file.split("/"):
        yield causes.invalid(path, file, "must not contain '..'")


def check_file_path(file: str, path: str) -> Causes:
    """The causes for a path at which a volume cannot have a file."""
    yield from check_relative_path(file, path)
    # Names that begin like this are reserved for the writer of the volume.
    if file.startswith("..") and not file.startswith("../"):
        yield causes.invalid(path, file, "must not start with '..'")


def check_operator(requirement: Raw, path: str) -> Causes:
    """The causes for an operator that a selector does not have, or values that do not fit it."""
    operator, values = requirement.get("operator") or "", requirement.get("values") or ()
    if operator in ("In", "NotIn"):
        if not values:
            detail = "must be specified when `operator` is 'In' or 'NotIn'"
            yield causes.required(f"{path}.values", detail)
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            yield causes.forbidden(f"{path}.values", detail)
    else:
        yield causes.invalid(f"{path}.operator", operator, "not a valid selector operator")


def check_no_nul(value: Any, path: str) -> Causes:
    """The causes for texts with a NUL character: neither a path nor an argument can have one."""
    # Encoding is much faster than a walk; a text with a backslash only costs the walk.
    if b"\\u0000" in msgspec.json.encode(value):
        yield from _nul_causes(value, path)


def _nul_causes(value: Any, path: str) -> Causes:
    if isinstance(value, str) and "\0" in value:
        yield causes.invalid(path, value, "must not contain the NUL character")
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _nul_causes(item, f"{path}.{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _nul_causes(item, f"{path}[{index}]")


def is_address(text: str) -> bool:
    """Whether a text is an IP address."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return "%" not in text  # Python accepts the zone of a link-local address, Go does not


def check_address(text: str, path: str) -> Causes:
    """The cause for a text that is not an IP address."""
    if not is_address(text):
        yield causes.invalid(path, text, _IP_RULE_WITH_EXAMPLE)


def check_reachable(text: str, path: str) -> Causes:
    """The causes for an IP address that other machines cannot reach."""
    address = ipaddress.ip_address(text)
    if str(address) in _UNSPECIFIED:
        yield causes.invalid(path, text, f"may not be unspecified ({address})")
    for rule, networks in _UNREACHABLE.items():
        if any(address in network for network in networks):
            yield causes.invalid(path, text, rule)


def check_token_lifetime(seconds: int, path: str) -> Causes:
    if not _MIN_TOKEN_SECONDS <= seconds <= _MAX_TOKEN_SECONDS:
        too_short = seconds < _MIN_TOKEN_SECONDS
        limit = "less than 10 minutes" if too_short else "larger than 2^32 seconds"
        yield causes.invalid(path, seconds, f"may not specify a duration {limit}")
