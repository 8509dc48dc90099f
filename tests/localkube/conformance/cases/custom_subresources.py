"""Status, scale and selectable fields of custom resources."""

from __future__ import annotations

from tests.localkube.conformance.cases.crds import (
    CRDS,
    GROUP,
    NAME,
    OPEN,
    THINGS,
    definition,
    on_new_kind,
    thing,
    version,
)
from tests.localkube.conformance.cases.steps import answered, delete, get, patch, post, put
from tests.localkube.conformance.transcript import Case

CASES = [
    on_new_kind(
        post(THINGS, {**thing(size=1), "status": {"replicas": 9}}, until=answered(201)),
        get(f"{THINGS}/a/status"),
        patch(f"{THINGS}/a", {"status": {"replicas": 5}, "spec": {"size": 2}}),
        patch(f"{THINGS}/a/status", {"status": {"replicas": 5}, "spec": {"size": 3}}),
        patch(f"{THINGS}/a/status", {"status": {"replicas": "x"}}),
        patch(f"{THINGS}/a/status", {"metadata": {"labels": {"a": "b"}}}),
        get(f"{THINGS}/a/scale"),
        patch(f"{THINGS}/a/scale", {"spec": {"replicas": 7}}),
        get(f"{THINGS}/a"),
        put(
            f"{THINGS}/a/scale",
            {
                "apiVersion": "autoscaling/v1",
                "kind": "Scale",
                "metadata": {"name": "a", "namespace": "$ns"},
                "spec": {"replicas": 8},
            },
        ),
        patch(f"{THINGS}/a/scale", {"spec": {"replicas": 70}}),
        patch(f"{THINGS}/a/scale", {"spec": {"replicas": -1}}),
        get(f"{THINGS}/none/scale"),
        get(f"{THINGS}/a/nothing"),
        name="a custom kind's status and scale",
        differs=("wording", "causes"),
        subresources={
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.size",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            },
        },
    ),
    on_new_kind(
        post(THINGS, {**thing(size=1), "status": {"replicas": 9}}, until=answered(201)),
        get(f"{THINGS}/a/status"),
        patch(f"{THINGS}/a", {"status": {"replicas": 5}}),
        get(f"{THINGS}/a/scale"),
        name="a custom kind without subresources",
        differs=("wording",),
    ),
    on_new_kind(
        post(THINGS, thing("a", size=1), until=answered(201)),
        post(THINGS, thing("b", size=2, color="blue")),
        get(f"{THINGS}?fieldSelector=spec.color%3Dblue"),
        get(f"{THINGS}?fieldSelector=spec.size%3D1"),
        get(f"{THINGS}?fieldSelector=spec.code%3Dx"),
        name="a custom kind's selectable fields",
        differs=("wording",),
        selectableFields=[{"jsonPath": ".spec.color"}, {"jsonPath": ".spec.size"}],
    ),
    Case(
        "a cluster-wide custom kind",
        [
            post(CRDS, definition(version(schema=OPEN), scope="Cluster")),
            post(f"/apis/{GROUP}/v1/things", thing(any=1), until=answered(201)),
            get(f"/apis/{GROUP}/v1/things/a"),
            get(f"/apis/{GROUP}/v1/things"),
            patch(f"/apis/{GROUP}/v1/things/a", {"spec": {"any": 2}}),
            get(THINGS),
            delete(f"/apis/{GROUP}/v1/things"),
            get(f"/apis/{GROUP}/v1/things/a"),
            delete(f"{CRDS}/{NAME}"),
        ],
        ("wording", "crd-at-once"),
    ),
]
