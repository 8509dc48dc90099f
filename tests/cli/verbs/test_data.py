"""`arena data` lists the volume claims that are bound."""

from __future__ import annotations

from muster.api.kinds import PERSISTENT_VOLUME_CLAIMS
from muster.api.meta import Key
from tests.cli.place import Place


def test_claims_that_are_bound_are_data(place: Place) -> None:
    body = {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "models", "annotations": {"owner": "me", "description": "all"}},
        "spec": {
            "accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}},
        },
    }  # fmt: skip
    place.client.create(PERSISTENT_VOLUME_CLAIMS, body, namespace=place.namespace)
    assert len(place.arena("data", "list")[1].splitlines()) == 1
    bound = {"status": {"phase": "Bound"}}
    key = Key(place.namespace, "models")
    place.client.patch(PERSISTENT_VOLUME_CLAIMS, key, bound, subresource="status")

    _, out, _ = place.arena("data", "list")
    assert out.splitlines()[1].split()[:4] == ["models", "ReadWriteMany", "all", "me"]
    assert place.arena("data", "ls", "-o", "name")[1] == "models\n"
