"""The image of a reader is the installation's, in the namespace that administrators have bound."""

from __future__ import annotations

from typing import Any

import pytest

from kubekit.client.decoding import ObjectList
from kubekit.errors import Forbidden, NotFound, ServerError, UsageError
from kubekit.objects.meta import Key, Raw
from muster.client.models.reader_image import reader_image


class Cluster:
    """The objects of a cluster by kind and key; the user may not read the kinds in `secret`."""

    def __init__(self, *objects: Raw, secret: tuple[str, ...] = ()) -> None:
        self.objects, self.secret = objects, secret

    async def get(self, kind: Any, key: Key) -> Raw:
        for row in await self._rows(kind):
            if Key(row["metadata"].get("namespace", ""), row["metadata"]["name"]) == key:
                return row
        raise NotFound(f"no {key}", status=404)

    async def list(self, kind: Any, namespace: str = "", **_: str) -> ObjectList[Raw]:
        rows = await self._rows(kind)
        found = [row for row in rows if namespace in ("", row["metadata"]["namespace"])]
        return ObjectList(found, "1")

    async def _rows(self, kind: Any) -> tuple[Raw, ...]:
        if kind.kind in self.secret:
            raise Forbidden(f"may not read {kind.kind}", status=403)
        return tuple(row for row in self.objects if row["kind"] == kind.kind)


def deployment(namespace: str, name: str, image: str) -> Raw:
    labels = {"app.kubernetes.io/part-of": "muster"}
    pod = {"spec": {"containers": [{"name": "main", "image": image}]}}
    meta = {"namespace": namespace, "name": name, "labels": labels}
    return {"kind": "Deployment", "metadata": meta, "spec": {"template": pod}}


def binding(name: str, namespace: str) -> Raw:
    subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    return {"kind": "ClusterRoleBinding", "metadata": {"name": name}, "subjects": [subject]}


TENANT = deployment("aaa", "muster-scheduler", "evil")


@pytest.mark.parametrize("name", ["muster-scheduler", "muster-operator"])
async def test_the_image_is_the_one_in_the_namespace_that_an_administrator_bound(name: str) -> None:
    cluster = Cluster(TENANT, deployment("muster", name, "good"), binding(name, "muster"))

    assert await reader_image(cluster) == "good"  # type: ignore[arg-type]
    assert await reader_image(cluster, "named") == "named"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "cluster",
    [
        Cluster(TENANT),
        Cluster(TENANT, binding("muster-scheduler", "muster")),
        Cluster(TENANT, binding("muster-scheduler", "aaa"), secret=("ClusterRoleBinding",)),
    ],
)
async def test_without_a_binding_no_image_is_taken_from_a_tenant(cluster: Cluster) -> None:
    assert await reader_image(cluster, default="muster") == "muster"  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="is not known") as caught:
        await reader_image(cluster)  # type: ignore[arg-type]
    assert "--image" in caught.value.hint
    assert "--reader-image" in caught.value.hint


async def test_a_server_that_fails_is_no_missing_installation() -> None:
    class Failing(Cluster):
        async def get(self, kind: Any, key: Key) -> Raw:
            raise ServerError("etcd is away", status=500)

    with pytest.raises(ServerError, match="etcd is away"):
        await reader_image(Failing(), default="muster")  # type: ignore[arg-type]
