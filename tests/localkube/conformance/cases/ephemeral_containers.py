"""Ephemeral containers: the subresource that adds them, and what it refuses."""

from __future__ import annotations

from typing import Any

from tests.localkube.conformance.cases.server_side_apply import apply
from tests.localkube.conformance.cases.steps import PODS, get, patch, pod, post, put
from tests.localkube.conformance.transcript import MERGE, STRATEGIC, Case, Step

DEBUGGED = f"{PODS}/a/ephemeralcontainers"
VOLUMES = {"volumes": [{"name": "v", "emptyDir": {}}]}


def debug(name: str = "d", **more: Any) -> dict[str, Any]:
    return {"name": name, "image": "busybox:1"} | more


def add(*containers: dict[str, Any], how: str = STRATEGIC, **spec: Any) -> Step:
    return patch(DEBUGGED, {"spec": {"ephemeralContainers": list(containers), **spec}}, how)


def applied(*containers: dict[str, Any], name: str = "a", **meta: Any) -> dict[str, Any]:
    """The configuration of an apply that owns these containers."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **meta},
        "spec": {"ephemeralContainers": list(containers)},
    }


CASES = [
    Case(
        "ephemeral containers are added and stay",
        [
            post(PODS, pod(spec=VOLUMES)),
            get(DEBUGGED),
            add(debug(stdin=True, tty=True, targetContainerName="main")),
            add(debug("e", command=["sh"], env=[{"name": "A", "value": "b"}])),
            add(debug("f", volumeMounts=[{"name": "v", "mountPath": "/v"}])),
            get(f"{PODS}/a"),
            get(DEBUGGED),
        ],
    ),
    Case(
        "an apply of ephemeral containers",
        [
            post(PODS, pod()),
            apply(DEBUGGED, applied(debug(command=["sh"]))),
            apply(DEBUGGED, applied(debug(command=["sh"]))),
            apply(DEBUGGED, applied(debug("e")), manager="other"),
            apply(DEBUGGED, applied(debug("e", command=["sh"])), manager="other", force="true"),
            apply(DEBUGGED, applied(debug(image="other:1")), manager="other"),
            apply(DEBUGGED, applied()),
            apply(DEBUGGED, applied(debug("f"), labels={"a": "b"}), manager="third"),
            apply(f"{PODS}/a", applied(debug("g")), manager="third"),
            apply(f"{PODS}/none/ephemeralcontainers", applied(debug(), name="none")),
            apply(f"{PODS}/none/status", applied(name="none")),
            get(f"{PODS}/a"),
        ],
        ("wording",),
    ),
    Case(
        "changes of ephemeral containers",
        [
            post(PODS, pod()),
            add(debug()),
            add(how=MERGE),
            add(debug("e"), how=MERGE),
            add(debug(command=["sh"])),
            patch(f"{PODS}/a", {"spec": {"ephemeralContainers": [debug(), debug("e")]}}),
            patch(f"{PODS}/a", {"spec": {"ephemeralContainers": []}}),
            get(f"{PODS}/a"),
        ],
        ("wording",),
    ),
    Case(
        "the subresource of ephemeral containers changes nothing else",
        [
            post(PODS, pod(labels={"a": "b"})),
            patch(
                DEBUGGED,
                {
                    "metadata": {"labels": {"c": "d"}, "annotations": {"e": "f"}},
                    "spec": {"activeDeadlineSeconds": 3, "ephemeralContainers": [debug()]},
                    "status": {"phase": "Failed"},
                },
                STRATEGIC,
            ),
            put(DEBUGGED, pod(spec={"ephemeralContainers": [debug(), debug("e")]})),
            put(f"{PODS}/none/ephemeralcontainers", pod("none")),
            post(DEBUGGED, pod()),
            Step("DELETE", DEBUGGED),
        ],
    ),
    Case(
        "ephemeral containers that are invalid",
        [
            post(PODS, pod(spec=VOLUMES)),
            post(PODS, pod("b", {"ephemeralContainers": [debug()]})),
            add(debug("main")),
            add(debug(), debug(), how=MERGE),
            add({"name": "d"}),
            add({"image": "busybox:1"}, how=MERGE),
            add(debug("Not_a_name")),
            add(debug(targetContainerName="none")),
            add(debug(ports=[{"containerPort": 80}])),
            add(debug(resources={"requests": {"cpu": "1"}})),
            add(debug(livenessProbe={"exec": {"command": ["true"]}})),
            add(debug(readinessProbe={"exec": {"command": ["true"]}})),
            add(debug(startupProbe={"exec": {"command": ["true"]}})),
            add(debug(lifecycle={"preStop": {"exec": {"command": ["true"]}}})),
            add(debug(volumeMounts=[{"name": "v", "mountPath": "/v", "subPath": "s"}])),
            add(debug(volumeMounts=[{"name": "none", "mountPath": "/v"}])),
            add(debug(unknown=1)),
        ],
        ("wording",),
    ),
    Case(
        "ephemeral containers in a template",
        [
            post(
                "/apis/apps/v1/namespaces/$ns/deployments",
                {
                    "metadata": {"name": "a"},
                    "spec": {
                        "selector": {"matchLabels": {"a": "b"}},
                        "template": {
                            "metadata": {"labels": {"a": "b"}},
                            "spec": pod(spec={"ephemeralContainers": [debug()]})["spec"],
                        },
                    },
                },
            )
        ],
    ),
]
