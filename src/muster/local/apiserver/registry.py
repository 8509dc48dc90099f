"""Which kinds this server knows: the built-in table, and what CRDs add as soon as they are stored.

`Registry.find` is asked on every request; `discovery.py` lists it. A CRD takes effect in the same
turn of the event loop in which its write becomes durable.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from muster.api.schemas import Schema
from muster.local.apiserver import objects
from muster.local.apiserver.kinds.crd import condition_is_true

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from muster.api.meta import Raw
    from muster.local.apiserver.store.changes import Change, Entry

ALL_VERBS = frozenset(
    {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
)
CRD_COLLECTION = "customresourcedefinitions.apiextensions.k8s.io"


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
    shape: Schema | None = field(default=None, compare=False)
    """The same schema, to be walked."""
    stored: Schema | None = field(default=None, compare=False)
    """The storage version's, where it is another one."""
    reshapes: bool = False
    """Whether stored bytes may be of another shape than this version shows."""
    columns: tuple[Raw, ...] = field(default=(), compare=False)
    scale: Raw = field(default_factory=dict, compare=False)
    deprecation: str = ""
    home: str | None = None
    """The group that its objects are stored in, where that is another one."""
    upserts: bool = False
    """Whether replacing an object that is not there creates it."""

    @property
    def collection(self) -> str:
        """`pods`, `tfjobs.kubeflow.org`: where its objects are stored, in all versions."""
        group = self.stored_group
        return f"{self.plural}.{group}" if group else self.plural

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @cached_property
    def opening(self) -> bytes:
        """How its objects begin, as bytes."""
        return objects.version_prefix(self.api_version)

    @property
    def stored_group(self) -> str:
        return self.group if self.home is None else self.home

    @property
    def stored_api_version(self) -> str:
        group = self.stored_group
        return f"{group}/{self.storage_version}" if group else self.storage_version

    @property
    def selectable(self) -> tuple[str, ...]:
        """Everything a field selector may name."""
        return ("metadata.name", "metadata.namespace", *self.fields)

    @property
    def has_status(self) -> bool:
        """Whether status is written only through its subresource."""
        return "status" in self.subresources


class Registry:
    """All resources, by group, version and plural."""

    def __init__(self, builtin: Iterable[Resource]) -> None:
        self._builtin = {(r.group, r.version, r.plural): r for r in builtin}
        self._custom: dict[str, list[Resource]] = {}
        self._index = dict(self._builtin)

    def load(self, definitions: Iterable[Entry]) -> None:
        """Learn the CRDs that are stored already."""
        for entry in definitions:
            crd = objects.decode(entry.value)
            self._custom[crd["metadata"]["name"]] = list(resources_of(crd))
        self._rebuild()

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """The resource, if it is served in that version."""
        return self._index.get((group, version, plural))

    def of_kind(self, group: str, version: str, kind: str) -> Resource | None:
        """The resource that holds objects of this kind."""
        wanted = (group, version, kind)
        found = (r for r in self._index.values() if (r.group, r.version, r.kind) == wanted)
        return next(found, None)

    def collection(self, name: str) -> Resource | None:
        """Any served version of the resource stored under this name."""
        return next((r for r in self._index.values() if r.collection == name), None)

    def all(self) -> Iterator[Resource]:
        """Every resource in every version, built-in first."""
        return iter(self._index.values())

    def learn(self, change: Change) -> None:
        """Take in a change of the store, if it is one of a CRD."""
        if not change.entry.key.startswith(f"{CRD_COLLECTION}/"):
            return
        crd = objects.decode(change.entry.value)
        name = crd["metadata"]["name"]
        if change.deleted:
            self._custom.pop(name, None)
        else:
            self._custom[name] = list(resources_of(crd))
        self._rebuild()

    def _rebuild(self) -> None:
        self._index = dict(self._builtin)
        for resources in self._custom.values():
            for resource in resources:
                self._index.setdefault(
                    (resource.group, resource.version, resource.plural), resource
                )


def resources_of(crd: Raw) -> Iterator[Resource]:
    """What a CRD adds: one resource per served version, newest and most stable first.

    Nothing while another definition has its names.
    """
    spec = crd["spec"]
    names = spec["names"]
    if not condition_is_true(crd["status"]["conditions"], "Established"):
        return
    storage: Raw = next((v for v in spec["versions"] if v.get("storage")), {})
    stored = _schema(storage)
    changed = crd["metadata"].get("generation", 1) > 1
    for version in sorted(spec["versions"], key=lambda v: rank(v["name"])):
        if not version.get("served"):
            continue
        subresources = version.get("subresources") or {}
        schema = _schema(version)
        yield Resource(
            group=spec["group"],
            version=version["name"],
            plural=names["plural"],
            kind=names["kind"],
            namespaced=spec.get("scope") != "Cluster",
            singular=names.get("singular") or names["kind"].lower(),
            short=tuple(names.get("shortNames") or ()),
            categories=tuple(names.get("categories") or ()),
            subresources=frozenset(subresources),
            storage_version=storage.get("name", ""),
            fields=tuple(f["jsonPath"].lstrip(".") for f in version.get("selectableFields") or ()),
            custom=True,
            schema=schema,
            shape=_walkable(schema),
            stored=_walkable(stored) if schema != stored else None,
            reshapes=(changed or schema != stored) and not _open(schema),
            columns=tuple(version.get("additionalPrinterColumns") or ()),
            scale=subresources.get("scale") or {},
            deprecation=_deprecation(version, spec),
        )


def _schema(version: Raw) -> Raw:
    return (version.get("schema") or {}).get("openAPIV3Schema") or {}


def _walkable(schema: Raw) -> Schema | None:
    return Schema(_without_metadata(schema)) if schema else None


def _open(schema: Raw) -> bool:
    """Whether a schema lets everything be as it is."""
    return not schema.get("properties") and bool(schema.get("x-kubernetes-preserve-unknown-fields"))


def _without_metadata(schema: Raw) -> Raw:
    """A CRD may say `metadata: {type: object}`; what metadata holds is not the CRD's to say."""
    properties = {k: v for k, v in schema.get("properties", {}).items() if k != "metadata"}
    return {**schema, "properties": properties}


def _deprecation(version: Raw, spec: Raw) -> str:
    if not version.get("deprecated"):
        return ""
    if version.get("deprecationWarning"):
        return str(version["deprecationWarning"])
    group, kind, rank_of_it = spec["group"], spec["names"]["kind"], rank(version["name"])
    better = [
        v["name"]
        for v in spec["versions"]
        if v.get("served") and not v.get("deprecated") and rank(v["name"]) < rank_of_it
    ]
    use = f"; use {group}/{min(better, key=rank)} {kind}" if better else ""
    return f"{group}/{version['name']} {kind} is deprecated{use}"


def rank(version: str) -> tuple[int, ...]:
    """The order of versions in discovery: v2, v1, v1beta2, v1beta1, v1alpha1."""
    stage = (
        0 if version[1:].isdigit() else 1 if "beta" in version else 2 if "alpha" in version else 3
    )
    numbers = "".join(c if c.isdigit() else " " for c in version).split()
    return (stage, *(-int(n) for n in numbers))
