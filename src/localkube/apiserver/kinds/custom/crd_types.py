"""The types of an ordinary definition, for one fast check of all its fields.

Definitions are the largest objects that the server reads, and a new cluster waits for nine of them.
The walk through the published schema, which removes unknown fields and finds the words for each
error, takes most of that time. A definition that decodes into these types has neither unknown
fields nor wrong types, so it needs no walk. The types leave out rare fields: a definition that has
one of them is walked through, as is a wrong definition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, UnsetType, field

if TYPE_CHECKING:
    from kubekit.objects.meta import Raw


class _Exact(msgspec.Struct, forbid_unknown_fields=True, gc=False, rename="camel"):
    pass


class _Rule(_Exact):
    rule: str
    message: str = ""
    field_path: str = ""


class _Schema(_Exact):
    type: str = ""
    description: str = ""
    format: str = ""
    pattern: str = ""
    properties: dict[str, _Schema] = field(default_factory=dict)
    additional_properties: _Schema | bool = False
    items: _Schema | UnsetType = UNSET
    any_of: list[_Schema] = field(default_factory=list)
    required: list[str] = field(default_factory=list)
    enum: list[Any] = field(default_factory=list)
    default: Any = None
    nullable: bool = False
    minimum: float = 0
    maximum: float = 0
    min_length: int = 0
    max_length: int = 0
    min_items: int = 0
    max_items: int = 0
    x_int_or_string: bool = field(default=False, name="x-kubernetes-int-or-string")
    x_preserve: bool = field(default=False, name="x-kubernetes-preserve-unknown-fields")
    x_rules: list[_Rule] = field(default_factory=list, name="x-kubernetes-validations")


class _Validation(_Exact):
    schema: _Schema = field(name="openAPIV3Schema")


class _Column(_Exact):
    name: str
    type: str
    json_path: str
    description: str = ""
    format: str = ""
    priority: int = 0


class _Scale(_Exact):
    spec_replicas_path: str
    status_replicas_path: str
    label_selector_path: str = ""


class _Nothing(_Exact):
    pass


class _Subresources(_Exact):
    status: _Nothing | UnsetType = UNSET
    scale: _Scale | UnsetType = UNSET


class _Version(_Exact):
    name: str
    served: bool
    storage: bool
    schema: _Validation
    subresources: _Subresources | UnsetType = UNSET
    additional_printer_columns: list[_Column] = field(default_factory=list)


class _Names(_Exact):
    plural: str
    kind: str
    singular: str = ""
    list_kind: str = ""
    short_names: list[str] = field(default_factory=list)
    categories: list[str] = field(default_factory=list)


class _Spec(_Exact):
    group: str
    names: _Names
    scope: str
    versions: list[_Version]


class _Metadata(_Exact):
    name: str
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)


class _Definition(_Exact):
    api_version: str
    kind: str
    metadata: _Metadata
    spec: _Spec


def is_well_typed(crd: Raw) -> bool:
    """Whether a definition has known fields only, each with a value of its type."""
    try:
        msgspec.convert(crd, _Definition)
    except msgspec.ValidationError:
        return False
    return True
