"""`arena data` lists the volume claims that are bound."""

from __future__ import annotations

from kubekit.objects.meta import Key
from kubekit.objects.storage import VOLUME_CLAIMS
from tests.muster.cli.place import Place


def test_bound_claims_are_listed(place: Place) -> None:
    body = {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "models", "annotations": {"owner": "me", "description": "all"}},
        "spec": {
            "accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}},
        },
    }  # fmt: skip
    place.client.create(VOLUME_CLAIMS.read_as(dict), body, namespace=place.namespace)
    assert len(place.arena("data", "list")[1].splitlines()) == 1
    bound = {"status": {"phase": "Bound"}}
    key = Key(place.namespace, "models")
    place.client.patch(VOLUME_CLAIMS.read_as(dict), key, bound, subresource="status")

    _, out, _ = place.arena("data", "list")
    assert out.splitlines()[1].split()[:4] == ["models", "ReadWriteMany", "all", "me"]
    _, out, _ = place.arena("data", "list", "-A")
    assert ["models", place.namespace] in [line.split()[:2] for line in out.splitlines()]
    assert place.arena("data", "ls", "-o", "name")[1] == "models\n"
