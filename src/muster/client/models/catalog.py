"""The models that a cluster knows: the ConfigMaps with the label `muster.dev/model`.

Their content is written by the node and can be changed by users: it is text to show, and a path in
it is checked before it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kubekit.errors import UsageError, nearest
from kubekit.objects.kinds import CONFIG_MAPS
from kubekit.request_errors import NotFound
from muster.contract import exported_models
from muster.contract.exported_models import MODEL, Model, Version

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kubekit.client.blocking_client import BlockingClient
    from kubekit.objects.core import ConfigMap
    from kubekit.objects.meta import Key


class PublishedModel(NamedTuple):
    key: Key
    """Of its ConfigMap."""
    model: Model

    @property
    def namespace(self) -> str:
        return self.key.namespace


def published_models(config_maps: Iterable[ConfigMap]) -> list[PublishedModel]:
    """The models in these ConfigMaps; the model with the newest version first."""
    rows = []
    for config_map in config_maps:
        model = exported_models.decode(config_map) if MODEL in config_map.metadata.labels else None
        if model is not None and model.versions:
            newest = max((v.created.timestamp() for v in model.versions if v.created), default=0.0)
            rows.append((-newest, PublishedModel(config_map.metadata.key, model)))
    return [row for _, row in sorted(rows, key=lambda pair: (pair[0], pair[1].key))]


def list_models(client: BlockingClient, namespace: str) -> list[PublishedModel]:
    """All models of a namespace, of all for an empty one."""
    return published_models(client.list(CONFIG_MAPS, namespace, labels=MODEL).items)


def find_model(rows: list[PublishedModel], name: str) -> PublishedModel:
    """The model of this name, of a job of this name, or of this ConfigMap."""
    found = [row for row in rows if name in (row.model.name, row.model.job.name, row.key.name)]
    exact = [row for row in found if name == row.key.name]
    if len(exact or found) == 1:
        return (exact or found)[0]
    if found:
        names = ", ".join(row.key.name for row in found)
        raise UsageError(f"{len(found)} models are called {name}", hint=f"Name one of: {names}")
    near = nearest(name, [row.model.name for row in rows])
    hint = f"Did you mean {near}?" if near else "`arena models` lists them."
    raise NotFound(f"there is no model {name}", hint=hint)


def find_version(published: PublishedModel, version: str) -> Version:
    """A version of a model, by default the newest."""
    row = published.model.version(version)
    if row is None:
        versions = ", ".join(row.version for row in published.model.versions[:20])
        raise NotFound(
            f"the model {published.model.name} has no version {version}",
            hint=f"Its versions are {versions}.",
        )
    return row
