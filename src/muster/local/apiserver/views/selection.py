"""Label and field selectors of one request, ready to be asked about stored objects.

Pure; built by `verbs.py` from the query, used by list, watch and deletecollection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from muster.api.selectors import FieldSelector, Selector, parse_fields, parse_labels
from muster.errors import InvalidSelector
from muster.local.apiserver import objects
from muster.local.apiserver.status import bad_request

if TYPE_CHECKING:
    from collections.abc import Mapping

    from muster.local.apiserver.entries import Entry
    from muster.local.apiserver.registry import Resource


class Selection(NamedTuple):
    """What a request wants to see of a collection."""

    labels: Selector
    fields: FieldSelector
    selectable: tuple[str, ...]

    @property
    def everything(self) -> bool:
        """Whether no object can be left out."""
        return not self.labels.requirements and not self.fields.terms

    def matches(self, entry: Entry) -> bool:
        """Whether the stored object is wanted."""
        if self.everything:
            return True
        facts = objects.facts(entry, self.selectable)
        return self.labels.matches(facts.labels) and self.fields.matches(facts.fields.__getitem__)


def selection(resource: Resource, query: Mapping[str, str], name: str = "") -> Selection:
    """The selection a query asks for; `name` narrows it to one object."""
    try:
        labels = parse_labels(query.get("labelSelector", ""))
        fields = parse_fields(query.get("fieldSelector", ""))
    except InvalidSelector as error:
        raise bad_request(f"unable to parse requirement: {error}") from error
    if name:
        fields = FieldSelector((*fields.terms, ("metadata.name", name, True)))
    unknown = sorted(fields.paths - set(resource.selectable))
    if unknown:
        raise bad_request(f"field label not supported: {unknown[0]}")
    return Selection(labels, fields, resource.selectable)
