"""Fields that the server fills in."""

from __future__ import annotations

from typing import Any

from tests.localkube.conformance.cases.steps import PODS, SVC, get, patch, pod, post
from tests.localkube.conformance.transcript import Case, Step

BATCH_JOBS = "/apis/batch/v1/namespaces/$ns/jobs"
DEPLOYMENTS = "/apis/apps/v1/namespaces/$ns/deployments"
TEAM = {"team": "x"}


def batch(name: str, labels: dict[str, str] | None = None, **template: Any) -> Step:
    run = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "a:1"}]}
    body = {
        "metadata": {"name": name, "labels": labels},
        "spec": {"template": {"spec": run, **template}},
    }
    return post(BATCH_JOBS, body)


def contained(name: str, **container: Any) -> Step:
    """A pod whose only container is so."""
    body = pod(name, {"containers": [{"name": "main", "image": "a:1", **container}]})
    return post(PODS, body)


def deployed(name: str, **container: Any) -> Step:
    """A deployment of pods whose only container is so."""
    run = {"containers": [{"name": "main", "image": "a:1", **container}]}
    template = {"metadata": {"labels": TEAM}, "spec": run}
    spec = {"selector": {"matchLabels": TEAM}, "template": template}
    return post(DEPLOYMENTS, {"metadata": {"name": name}, "spec": spec})


def service(name: str, **spec: Any) -> Step:
    """An ExternalName service: it gets no cluster address, and its fields cause no warnings."""
    usual = {"ports": [{"port": 80}], "type": "ExternalName", "externalName": "x"}
    return post(SVC, {"metadata": {"name": name}, "spec": {**usual, **spec}})


CPU = {"resourceFieldRef": {"resource": "limits.cpu"}}
HELD = {
    "env": [
        {"name": "A", "valueFrom": CPU},
        {
            "name": "B",
            "valueFrom": {"resourceFieldRef": {**CPU["resourceFieldRef"], "divisor": "1m"}},
        },
    ],
    "lifecycle": {
        "postStart": {"httpGet": {"port": 80}},
        "preStop": {"httpGet": {"port": 80, "path": "/x", "scheme": "HTTPS"}},
    },
}
ROOM = {"limits": {"cpu": "1", "memory": "1Gi"}}

CASES = [
    Case(
        "jobs get their template's labels",
        [
            batch("a", metadata={"labels": TEAM}),
            get(f"{BATCH_JOBS}?labelSelector=team%3Dx"),
            batch("b", {"own": "y"}, metadata={"labels": TEAM}),
            batch("c"),
            batch("d", TEAM, metadata={"labels": TEAM}),
            patch(f"{BATCH_JOBS}/b", {"metadata": {"labels": None}}),
        ],
    ),
    Case(
        "containers with fields of fields",
        [
            contained("a", **HELD),
            deployed("a", **HELD),
            post(
                PODS,
                pod(
                    "b",
                    {
                        "volumes": [
                            {
                                "name": "v",
                                "downwardAPI": {
                                    "items": [
                                        {
                                            "path": "cpu",
                                            "resourceFieldRef": {
                                                "containerName": "main",
                                                "resource": "limits.cpu",
                                            },
                                        },
                                        {
                                            "path": "name",
                                            "fieldRef": {"fieldPath": "metadata.name"},
                                        },
                                    ]
                                },
                            },
                            {
                                "name": "w",
                                "projected": {
                                    "sources": [
                                        {
                                            "downwardAPI": {
                                                "items": [
                                                    {
                                                        "path": "name",
                                                        "fieldRef": {"fieldPath": "metadata.name"},
                                                    }
                                                ]
                                            }
                                        },
                                        {"serviceAccountToken": {"path": "token"}},
                                    ]
                                },
                            },
                        ],
                        "serviceAccountName": "default",
                    },
                ),
            ),
            contained("c", livenessProbe={"grpc": {"port": 80}}),
        ],
    ),
    Case(
        "services with session affinity",
        [
            service("a", sessionAffinity="ClientIP"),
            service("b", sessionAffinity="ClientIP", sessionAffinityConfig={"clientIP": {}}),
            service("c", sessionAffinity="None", sessionAffinityConfig={"clientIP": {}}),
            patch(f"{SVC}/a", {"spec": {"sessionAffinity": "None"}}),
            patch(f"{SVC}/c", {"spec": {"sessionAffinity": "ClientIP"}}),
            service("d", ports=[{"port": 80, "targetPort": 0}]),
            service("e", ports=[{"port": 80, "targetPort": ""}]),
        ],
    ),
    Case(
        "resources of whole pods",
        [
            post(PODS, pod("a", {"resources": ROOM})),
            post(PODS, pod("b", {"resources": {"limits": {"cpu": "1"}}})),
            post(PODS, pod("c", {"resources": {"requests": {"memory": "1Gi"}}})),
            post(
                PODS,
                pod(
                    "d",
                    {
                        "resources": ROOM,
                        "containers": [
                            {
                                "name": "main",
                                "image": "a:1",
                                "resources": {"requests": {"cpu": "100m"}},
                            }
                        ],
                    },
                ),
            ),
            post(PODS, pod("e", {"resources": {}})),
            post(
                PODS,
                pod(
                    "f",
                    {
                        "resources": {"limits": {"cpu": "2"}},
                        "containers": [
                            {
                                "name": name,
                                "image": "a:1",
                                "resources": {"requests": {"cpu": "500m", "memory": "1Mi"}},
                            }
                            for name in ("x", "y")
                        ],
                    },
                ),
            ),
            post(PODS, pod("g", {"resources": {"limits": {"example.com/gpu": "1"}}})),
            post(
                PODS,
                pod("h", {"resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}}),
            ),
            post(PODS, pod("i", {"resources": {"requests": {"cpu": "-1"}}})),
        ],
    ),
]
