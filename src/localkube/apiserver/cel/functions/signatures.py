"""Declarations of functions, written as one sees them: `string.find(string) -> string`.

A function is declared twice. Expressions are checked with exact types, among them the types that
Kubernetes adds, such as URL or Quantity. They are evaluated with maps in place of the added types,
because the library cannot pass a value of a new type between Python and an expression.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cel_expr_python import cel

    from kubekit.objects.meta import Raw

Implementation = Callable[..., Any]

_SIGNATURE = re.compile(r"(?:([\w()]+)\.)?([\w<=>]+)\((.*)\) -> (.+)\Z")
_GENERIC = re.compile(r"(list|map|optional_type)\((.+)\)\Z")
_ANY_OF = ("string", "int", "uint", "double", "bool", "bytes", "timestamp", "duration")
OPAQUE = {
    "URL": "kubernetes.URL",
    "IP": "net.IP",
    "CIDR": "net.CIDR",
    "Quantity": "kubernetes.Quantity",
    "Semver": "kubernetes.Semver",
    "Format": "kubernetes.NamedFormat",
    "Authorizer": "kubernetes.authorization.Authorizer",
    "PathCheck": "kubernetes.authorization.PathCheck",
    "GroupCheck": "kubernetes.authorization.GroupCheck",
    "ResourceCheck": "kubernetes.authorization.ResourceCheck",
    "Decision": "kubernetes.authorization.Decision",
}
"""The types that Kubernetes adds, by their short names here."""


class Signature(NamedTuple):
    """One overload of a function."""

    target: str
    name: str
    arguments: tuple[str, ...]
    result: str


def parse(text: str) -> Signature:
    """Read a declaration."""
    found = _SIGNATURE.match(text)
    if found is None:
        raise ValueError(f"not a signature: {text}")
    target, name, arguments, result = found.groups(default="")
    if target in ("ip", "format"):  # a prefix and no value
        target, name = "", f"{target}.{name}"
    return Signature(target, name, tuple(a.strip() for a in arguments.split(",") if a), result)


def type_config(name: str) -> Raw:
    """A type in the form of an environment's configuration. `T` is a parameter."""
    if found := _GENERIC.match(name):
        params = found[2].split(", ") if found[1] == "map" else [found[2]]
        return {"type_name": found[1], "params": [type_config(param) for param in params]}
    if name == "T":
        return {"type_name": "T", "is_type_param": True}
    return {"type_name": OPAQUE.get(name, name)}


def declarations(texts: Mapping[str, Implementation]) -> list[Raw]:
    """Functions with their exact types, for a check of expressions."""
    functions: dict[str, list[Raw]] = {}
    for text in texts:
        target, name, arguments, result = parse(text)
        overload: Raw = {
            "id": _overload_id(text),
            "args": [type_config(argument) for argument in arguments],
            "return": type_config(result),
        }
        if target:
            overload["target"] = type_config(target)
        functions.setdefault(name, []).append(overload)
    return [{"name": name, "overloads": overloads} for name, overloads in functions.items()]


def implementations(
    texts: Mapping[str, Implementation], *, exact: bool = False
) -> list[cel.FunctionDecl]:
    """Functions with the types that their values have in an evaluation, or with exact types."""
    from cel_expr_python import cel

    functions: dict[str, dict[str, cel.Overload]] = {}
    for text, call in texts.items():
        signature = parse(text)
        for names in [_names(signature)] if exact else _expanded(signature):
            row = names if exact else [_kind(name) for name in names]
            overload_id = "_".join((signature.name, *row))
            # Overloads for lists of several types are one here, as are those for added types.
            functions.setdefault(signature.name, {})[overload_id] = cel.Overload(
                overload_id,
                return_type=_exact(signature.result) if exact else cel.Type.DYN,
                parameters=[_exact(name) if exact else getattr(cel.Type, name) for name in row],
                is_member=bool(signature.target),
                impl=call,
            )
    return [cel.FunctionDecl(name, [*overloads.values()]) for name, overloads in functions.items()]


def _names(signature: Signature) -> list[str]:
    return [*([signature.target] if signature.target else []), *signature.arguments]


def _overload_id(text: str) -> str:
    return re.sub(r"\W+", "_", text)


def _expanded(signature: Signature) -> list[list[str]]:
    """The parameters of each overload: one for every type that an argument `T` may have."""
    names = _names(signature)
    kinds = _ANY_OF if "T" in names else ("",)
    return [[kind if name == "T" else name for name in names] for kind in kinds]


def _kind(name: str) -> str:
    if name in OPAQUE:
        return "MAP"
    return "LIST" if name.startswith("list") else name.upper()


def _exact(name: str) -> cel.Type:
    from cel_expr_python import cel

    if name in OPAQUE:
        return cel.Type.AbstractType(OPAQUE[name])
    kind: cel.Type = cel.Type.DYN if name == "T" else getattr(cel.Type, _kind(name))
    return kind
