"""Resource: the names, verbs and versions of one kind, with its rules (`rules`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from localkube.apiserver import codec
from localkube.apiserver.apply.field_types import FieldType, type_of
from localkube.apiserver.rules import Strategy

if TYPE_CHECKING:
    from kubekit.objects.meta import Raw
    from kubekit.schemas import Schema

ALL_VERBS = frozenset(
    {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
)
STATUS = frozenset({"status"})


@dataclass(frozen=True)
class Resource:
    """One kind in one version."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    singular: str = ""
    short: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: frozenset[str] = ALL_VERBS
    subresources: frozenset[str] = frozenset()
    storage_version: str = ""
    fields: tuple[str, ...] = ()
    """Selectable fields besides name and namespace."""
    custom: bool = False
    schema: Raw = field(default_factory=dict, compare=False)
    walkable_schema: Schema | None = field(default=None, compare=False)
    storage_schema: Schema | None = field(default=None, compare=False)
    """The schema of the storage version, if it differs."""
    needs_reshaping: bool = False
    """Whether stored bytes may have other fields than this version shows."""
    printer_columns: tuple[Raw, ...] = field(default=(), compare=False)
    scale: Raw = field(default_factory=dict, compare=False)
    deprecation: str = ""
    stored_in_group: str | None = None
    """The group under which its objects are stored, if it is not `group`: events have two."""
    create_on_update: bool = False
    """Whether an update of an object that does not exist creates it."""
    strategy: Strategy = field(default=Strategy(), compare=False)

    def __post_init__(self) -> None:
        # A frozen dataclass can only be completed like this.
        object.__setattr__(self, "singular", self.singular or self.kind.lower())
        object.__setattr__(self, "storage_version", self.storage_version or self.version)

    @cached_property
    def collection(self) -> str:
        """`pods`, `tfjobs.kubeflow.org`: the first part of the keys of its objects."""
        group = self.stored_group
        return f"{self.plural}.{group}" if group else self.plural

    @cached_property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @cached_property
    def gvk(self) -> Raw:
        """Group, version and kind, as discovery and OpenAPI name a type."""
        return {"group": self.group, "version": self.version, "kind": self.kind}

    @cached_property
    def root(self) -> str:
        """The path of its group and version: `/api/v1`, `/apis/batch/v1`."""
        return f"/apis/{self.api_version}" if self.group else f"/api/{self.version}"

    @cached_property
    def version_prefix(self) -> bytes:
        """The first bytes of its objects."""
        return codec.version_prefix(self.api_version)

    @property
    def stored_group(self) -> str:
        return self.group if self.stored_in_group is None else self.stored_in_group

    @cached_property
    def stored_api_version(self) -> str:
        group = self.stored_group
        return f"{group}/{self.storage_version}" if group else self.storage_version

    @cached_property
    def selectable(self) -> tuple[str, ...]:
        """All fields that a field selector may name."""
        return ("metadata.name", "metadata.namespace", *self.fields)

    @cached_property
    def field_type(self) -> FieldType:
        """The types of its fields, by which owners are tracked."""
        return type_of(self)

    @property
    def has_status(self) -> bool:
        """Whether status is written only through its subresource."""
        return "status" in self.subresources
