"""The rules of one kind, by concern: the hooks that the code for all kinds calls.

All kinds are created, changed, deleted, counted and printed by the same code (`verbs`, `admission`,
`views`). Where kinds differ, that code calls a hook of `resource.strategy`, as the registries of
kube-apiserver do. A hook left out does nothing, so a Strategy states only what its kind has.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from localkube.apiserver.admission import names
from localkube.apiserver.views import cells

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime

    from kubekit.objects.meta import Raw
    from kubekit.objects.quantity import Amount
    from kubekit.schemas import Schema
    from localkube.apiserver.apply.field_set import FieldSet
    from localkube.apiserver.causes import Cause
    from localkube.apiserver.resource import Resource
    from localkube.apiserver.store.collection import ObjectReader


def _no_change(*_: object) -> None:
    """The kind has no rule here."""


def _no_causes(*_: object) -> Iterable[Cause]:
    return ()


def _same(obj: Raw, *_: object) -> Raw:
    return obj


@dataclass(frozen=True)
class Completion:
    """The fields that the server gives an object, in the order of use."""

    prepare_update: Callable[[Raw, Raw], None] | None = None
    """New and old object, before defaults."""
    defaults: Callable[[Raw], object] = _no_change
    complete_create: Callable[[Raw, ObjectReader], None] = _no_change
    """Fields of a new object that come from other objects."""
    finish_create: Callable[[Raw, str], object] = _no_change
    """The object and the present time, after defaults."""
    finish_update: Callable[[Raw, Raw, str], object] = _no_change
    """New object, old object and subresource, after defaults."""


@dataclass(frozen=True)
class Checks:
    """The causes of a 422; those of an update get the new and the old object."""

    name: Callable[[str], list[str]] = names.check_subdomain
    always: Callable[[Raw], Iterable[Cause]] = _no_causes
    create: Callable[[Raw], Iterable[Cause]] = _no_causes
    immutable: tuple[str, ...] = ()
    """Paths of fields that no update changes."""
    update: Callable[[Raw, Raw], Iterable[Cause]] = _no_causes
    status: Callable[[Raw, Raw], Iterable[Cause]] = _no_causes
    """An update of the status, through its subresource."""
    spec: Callable[[Raw, Raw], Iterable[Cause]] = _no_causes
    """An update through a subresource that writes a part of the spec."""


@dataclass(frozen=True)
class Admission:
    """Rules that need other objects or the rights of the writer; they raise."""

    create: Callable[[Raw, ObjectReader, datetime], None] = _no_change
    update: Callable[[Raw, Raw, ObjectReader, datetime], None] = _no_change
    grants: bool = False
    """Whether the object grants permissions, which the writer must then have."""


@dataclass(frozen=True)
class Status:
    keeps: FieldSet = field(default_factory=lambda: {"f:spec": {}})
    """Fields that a write of the status leaves as they are."""
    on_create: bool = False
    """Whether a new object keeps the status of the request, as a node does."""


@dataclass(frozen=True)
class Forms:
    """Schemas and other forms of the object."""

    apply_schema: Callable[[Resource, Raw, Raw | None], None] = _no_change
    """Check a new object, or a changed and its old object, by the schema; raises."""
    check_types: Callable[[Raw, Schema], Iterable[Cause]] = _no_causes
    """Checks of types that the published schema lacks."""
    unknown_fields: Callable[[Raw], list[str]] = lambda obj: []
    """Paths of fields that the schema preserves although the kind does not have them."""
    to_stored: Callable[[Raw], Raw] = _same
    from_stored: Callable[[Raw, str], Raw] = _same


@dataclass(frozen=True)
class Deletion:
    grace: Callable[[Raw, Raw], int] | None = None
    """Seconds the object may take to stop, from the delete options; None if it stops at once."""
    blocks_removal: Callable[[Raw], bool] = lambda obj: False
    """Whether the object must stay for another reason than finalizers and grace."""
    on_marked: Callable[[Raw], None] = _no_change
    """Called when a deletion marks the object instead of removing it."""
    marked_first: bool = False
    """Whether the first delete request only marks the object."""
    protected: frozenset[str] = frozenset()
    """Names of objects that cannot be deleted."""
    orphan_warning: str = ""
    """The warning to a request without a propagation policy, if it orphans dependents."""
    answer: Literal["status", "object"] = "status"
    view: Callable[[Raw, datetime], Raw] | None = None
    """The object in the answer to its deletion, if that differs from the stored object."""
    contents: Callable[[Raw], str] = lambda obj: ""
    """Prefix of the keys of all objects that are removed with the object, as a CRD's are."""
    storage_preconditions: bool = False
    """Whether a failed precondition is worded as the storage layer words it."""


@dataclass(frozen=True)
class Quota:
    charge: Callable[[Raw], dict[str, Amount]] | None = None
    """The usage of the object, by the names of a ResourceQuota's `hard`."""
    counted_as: str = ""
    """A second name by which quotas count objects, besides `count/…`."""
    limited: bool = True
    """Whether a quota may reject an object."""
    matches_scope: Callable[[Raw, Raw], bool] = lambda term, obj: False
    unspecified: Callable[[Iterable[str], Raw], str] = lambda hard, obj: ""
    """The fields that the object must specify because a quota limits them, as a message."""


@dataclass(frozen=True)
class Ranges:
    """What limit ranges mean for the kind."""

    complete: bool = False
    """Whether the containers of a new object get the defaults of limit ranges."""
    violations: Callable[[Raw, Raw], Iterable[str]] = lambda spec, limit_range: ()
    """Why an object with this spec is outside of a limit range."""
    on_update: bool = False
    """Whether an update must stay within limit ranges too."""


@dataclass(frozen=True)
class Table:
    """How kubectl prints the objects."""

    columns: dict[str, cells.Cell] = field(default_factory=lambda: cells.NAME | cells.AGE)
    """Cells by column: `Name`, or `Name+` for a column of wide output only."""
    conditions: Callable[[Raw], list[Raw]] = lambda obj: []
    """The conditions of a row."""
    shown: Callable[[Raw], Raw] = _same
    """The object whose metadata a row shows."""


@dataclass(frozen=True)
class Strategy:
    """The rules of one kind, by concern. Hooks change objects in place."""

    generation: Literal["none", "fixed", "spec"] = "none"
    """Whether metadata.generation exists, and whether changes of the spec increase it."""
    generation_metadata: str = ""
    """A field of metadata whose changes increase the generation too."""
    update_names_revision: bool = False
    """Whether an update must name the revision that it changes."""
    completion: Completion = Completion()
    checks: Checks = Checks()
    admission: Admission = Admission()
    warnings: Callable[[Raw], Iterable[str]] = lambda obj: ()
    """Warnings to the writer of a valid object."""
    status: Status = Status()
    forms: Forms = Forms()
    deletion: Deletion = Deletion()
    quota: Quota = Quota()
    ranges: Ranges = Ranges()
    table: Table = Table()
