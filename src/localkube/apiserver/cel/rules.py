"""The rules in a schema (`x-kubernetes-validations`), evaluated for an object.

A rule belongs to a place in the schema and is evaluated for every value there, as `self`. A rule
that reads `oldSelf` compares with the value before an update and is skipped where there is none:
on creation, for new fields, and for items of lists that have no keys.

An update is judged only by the values it changes: a value that breaks a rule and stays the same
gives a warning instead, unless the rule reads `oldSelf`.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from localkube.apiserver.api_errors import (
    Cause,
    duplicate,
    forbidden_field,
    invalid_value,
    required,
)
from localkube.apiserver.cel import field_path, values
from localkube.apiserver.cel.batches import Batch
from localkube.apiserver.cel.escaping import escape, fields_used, uses
from localkube.apiserver.cel.schema_types import as_resource

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kubekit.objects.meta import Raw

NOTHING = object()
"""The old value of a value that is new."""
_LONGEST_MESSAGE = 5 * 1024
_encoder = msgspec.json.Encoder(order="sorted")


class Site(NamedTuple):
    """A rule and a value that it is evaluated for."""

    rule: Rule
    path: str
    value: Any
    old: Any
    is_unchanged: bool


class Rule:
    """One rule at its place in the schema."""

    def __init__(self, raw: Raw, place: Place) -> None:
        self.text: str = raw["rule"]
        self.message_expression: str = raw.get("messageExpression") or ""
        self.optional_old = bool(raw.get("optionalOldSelf"))
        self.uses_old = uses(self.text, "oldSelf")
        self._raw = raw
        self._place = place

    @property
    def title(self) -> str:
        """The rule's own message, or its text."""
        return str(self._raw.get("message") or self.text).strip()

    @cached_property
    def field_path(self) -> str:
        """The path of the field that the rule is about, below its own place."""
        return field_path.normalized(self._raw.get("fieldPath") or "", self._place.schema)

    @property
    def default_message(self) -> str:
        """The message when there is no expression for it."""
        return self.title if self._raw.get("message") else f"failed rule: {self.title}"

    def batch(self, site: Site, expression: str) -> Batch:
        """An expression over the values of a site."""
        return Batch(self._variables(site), [expression], with_times=self._place.has_times)

    def _variables(self, site: Site) -> dict[str, Any]:
        """The values that the rule reads."""
        texts = (self.text, self.message_expression)
        seen = {"self": self._place.seen(site.value, texts, "self")}
        old = [] if site.old is NOTHING else [self._place.seen_old(site, texts)]
        if self.optional_old:
            return {**seen, "oldSelf__list": old}
        return {**seen, "oldSelf": old[0]} if old else seen

    def failure(self, site: Site, message: str) -> Cause:
        """The cause for a value that breaks the rule."""
        path = _joined(site.path, self.field_path)
        match self._raw.get("reason"):
            case "FieldValueForbidden":
                return forbidden_field(path, message)
            case "FieldValueRequired":
                return required(path, message)
            case "FieldValueDuplicate" if isinstance(site.value, dict | list):
                return Cause(path, "FieldValueDuplicate", "Duplicate value")
            case "FieldValueDuplicate":
                return duplicate(path, site.value)
            case _:
                return self._invalid(site, path, message)

    def _invalid(self, site: Site, path: str, message: str) -> Cause:
        if isinstance(site.value, dict | list):
            # The real server does not repeat large values.
            return Cause(path, "FieldValueInvalid", f"Invalid value: {message}")
        return invalid_value(path, site.value, message)

    def error(self, site: Site, error: str) -> Cause:
        """The cause for a value that the rule cannot be evaluated for."""
        if error.startswith("no such overload"):
            detail = (
                f"'{error}': call arguments did not match a supported operator, function or macro"
                f" signature for rule: {self.title}"
            )
        elif error.startswith("operation cancelled"):
            detail = (
                f"'{error}': no further validation rules will be run due to call cost exceeds"
                f" limit for rule: {self.title}"
            )
        else:
            detail = f"{error} evaluating rule: {self.title}"
        return invalid_value(site.path or "<nil>", self._place.schema.get("type", ""), detail)


def _joined(path: str, below: str) -> str:
    if not path or not below or below.startswith("["):
        return f"{path}{below}" or "<nil>"
    return f"{path}.{below}"


class Place:
    """A place in a schema that has rules, at itself or below."""

    def __init__(self, schema: Raw, *, root: bool = False) -> None:
        self.schema = as_resource(schema) if root else schema
        alternatives = [part for part in schema.get("allOf") or () if isinstance(part, dict)]
        self.rules = [
            Rule(raw, self)
            for part in (schema, *alternatives)
            for raw in part.get("x-kubernetes-validations") or ()
            if str(raw.get("rule") or "").strip()
        ]
        self._fields = _places(schema.get("properties") or {})
        others = {name: schema.get(name) for name in ("items", "additionalProperties")}
        found = _places({name: part for name, part in others.items() if isinstance(part, dict)})
        self._items, self._values = found.get("items"), found.get("additionalProperties")

    @property
    def is_empty(self) -> bool:
        """Whether there are no rules here or below."""
        return not (self.rules or self._fields or self._items or self._values)

    def sites(
        self, value: Any, old: Any, path: str = "", unchanged: bool = False
    ) -> Iterator[Site]:
        """Every rule with every value that it applies to."""
        if value is None:
            return
        if old is None:
            old = NOTHING
        # A part of an unchanged value is unchanged, even if no old value can be found for it.
        unchanged = unchanged or (old is not NOTHING and _equal(value, old))
        for rule in self.rules:
            if not rule.uses_old or old is not NOTHING or rule.optional_old:
                yield Site(rule, path, value, old, unchanged)
        for below, part, old_part, part_path in self._parts(value, old, path):
            yield from below.sites(part, old_part, part_path, unchanged)

    def _parts(self, value: Any, old: Any, path: str) -> Iterator[tuple[Place, Any, Any, str]]:
        if isinstance(value, dict):
            before = old if isinstance(old, dict) else {}
            for name, part in value.items():
                if name in self._fields:
                    where = f"{path}.{name}" if path else name
                    yield self._fields[name], part, before.get(name, NOTHING), where
                elif self._values:
                    yield self._values, part, before.get(name, NOTHING), f"{path}[{name}]"
        elif isinstance(value, list) and self._items:
            find = self._old_items(old)
            for i, part in enumerate(value):
                yield self._items, part, find.get(self._identity(part), NOTHING), f"{path}[{i}]"

    def _old_items(self, old: Any) -> dict[bytes, Any]:
        if self.schema.get("x-kubernetes-list-type") != "map" or not isinstance(old, list):
            return {}
        return {self._identity(item): item for item in reversed(old)}

    def _identity(self, item: Any) -> bytes:
        return values.identity(item, self.schema.get("x-kubernetes-list-map-keys") or [])

    # -- values as expressions see them ----------------------------------------------------------

    @cached_property
    def _differs(self) -> bool:
        return values.differs(self.schema)

    @cached_property
    def has_times(self) -> bool:
        """Whether there may be times inside of the values."""
        return values.has_times(self.schema)

    @cached_property
    def _has_unordered_lists(self) -> bool:
        return values.has_unordered_lists(self.schema)

    def seen(self, value: Any, texts: tuple[str, ...], variable: str) -> Any:
        """A value as the expressions see it; fields that they do not read are left out."""
        if isinstance(value, dict) and self.schema.get("properties"):
            fields = [fields_used(text, variable) for text in texts]
            if None not in fields:
                names = frozenset[str]().union(*(used for used in fields if used is not None))
                value = {k: part for k, part in value.items() if (escape(k) or k) in names}
        return values.convert(value, self.schema) if self._differs else value

    def seen_old(self, site: Site, texts: tuple[str, ...]) -> Any:
        """The old value of a site as the expressions see it."""
        old = site.old
        if self._has_unordered_lists:
            old = values.in_order_of(site.value, old, self.schema)
        return self.seen(old, texts, "oldSelf")


def _places(schemas: Raw) -> dict[str, Place]:
    places = {name: Place(part) for name, part in schemas.items()}
    return {name: place for name, place in places.items() if not place.is_empty}


def _equal(value: Any, old: Any) -> bool:
    # The bytes too, because True == 1 in Python.
    return bool(value == old) and _encoder.encode(value) == _encoder.encode(old)


def is_usable_message(message: Any) -> bool:
    """Whether the result of a messageExpression is used as the message."""
    text = message.strip() if isinstance(message, str) else ""
    return bool(text) and "\n" not in text and len(text.encode()) <= _LONGEST_MESSAGE
