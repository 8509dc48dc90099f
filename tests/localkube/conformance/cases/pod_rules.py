"""Invalid pods, and updates of pods that are not allowed."""

from __future__ import annotations

from typing import Any

from tests.localkube.conformance.cases.steps import PODS, get, patch, pod, post
from tests.localkube.conformance.transcript import MERGE, STRATEGIC, Case, Step

ANY = {"key": "z", "operator": "Exists"}
GATE = [{"name": "example.com/a"}]
TCP = {"tcpSocket": {"port": 80}}


def main(**container: Any) -> Step:
    """A pod whose only container is so."""
    return post(PODS, pod(spec={"containers": [{"name": "main", "image": "a:1", **container}]}))


def volume(*sources: dict[str, Any], **spec: Any) -> Step:
    """A pod with one volume from these sources."""
    volume = {"name": "v", "projected": {"sources": [*sources]}}
    return post(PODS, pod(spec={"volumes": [volume], **spec}))


def changed(how: str = MERGE, **spec: Any) -> Step:
    return patch(f"{PODS}/a", {"spec": spec}, how)


CASES = [
    Case(
        "added tolerations",
        [
            post(PODS, pod("a", {"tolerations": [{**ANY, "key": "y"}]})),
            changed(tolerations=[ANY]),
            changed(STRATEGIC, tolerations=[ANY]),
            changed(tolerations=[ANY, {**ANY, "key": "y"}]),
            changed(
                tolerations=[
                    ANY,
                    {**ANY, "key": "y"},
                    {
                        "key": "node.kubernetes.io/not-ready",
                        "operator": "Exists",
                        "effect": "NoExecute",
                        "tolerationSeconds": 7,
                    },
                ]
            ),
            changed(tolerations=[{**ANY, "key": "y", "effect": "NoExecute"}]),
            changed(tolerations=None),
            get(f"{PODS}/a"),
        ],
    ),
    Case(
        "tolerations added to a pod without its own",
        [
            post(PODS, pod()),
            changed(tolerations=[ANY]),
            changed(tolerations=[]),
            changed(STRATEGIC, tolerations=[{**ANY, "key": "y", "effect": "NoExecute"}]),
            changed(tolerations=[ANY, {"operator": "Exists"}]),
            get(f"{PODS}/a"),
        ],
    ),
    Case(
        "scheduling gates cannot be added",
        [
            post(PODS, pod("a")),
            changed(schedulingGates=GATE),
            post(PODS, pod("b", {"schedulingGates": GATE})),
            patch(f"{PODS}/b", {"spec": {"schedulingGates": [*GATE, {"name": "example.com/b"}]}}),
            patch(f"{PODS}/b", {"spec": {"schedulingGates": [{"name": "example.com/b"}]}}),
            patch(f"{PODS}/b", {"spec": {"schedulingGates": None}}),
            post(PODS, pod("c", {"schedulingGates": GATE, "nodeName": "n"})),
            post(PODS, pod("d", {"schedulingGates": GATE, "nodeSelector": {"a": "b"}})),
            patch(f"{PODS}/d", {"spec": {"nodeSelector": {"c": "d"}}}),
        ],
        ("wording",),
    ),
    Case(
        "deadlines can only be shortened",
        [
            post(PODS, pod("a")),
            changed(activeDeadlineSeconds=100),
            changed(activeDeadlineSeconds=200),
            changed(activeDeadlineSeconds=None),
            changed(activeDeadlineSeconds=0),
            changed(activeDeadlineSeconds=-1),
            changed(activeDeadlineSeconds=50),
        ],
    ),
    Case(
        "fields that a new pod cannot have",
        [
            post(
                PODS,
                pod(spec={"ephemeralContainers": [{"name": "x", "image": "a:1"}]}),
            ),
            post(PODS, pod(spec={"overhead": {"cpu": "1"}})),
        ],
    ),
    Case(
        "tokens in volumes",
        [
            volume({"serviceAccountToken": {"path": "token"}}, serviceAccountName="x"),
            volume({"serviceAccountToken": {}}, serviceAccountName="default"),
            volume(
                {"serviceAccountToken": {"path": "token", "expirationSeconds": 5}},
                serviceAccountName="default",
            ),
            volume(
                {"serviceAccountToken": {"path": "../token"}},
                serviceAccountName="default",
            ),
        ],
        ("wording",),
    ),
    Case(
        "contradictory security contexts",
        [
            main(securityContext={"privileged": True, "allowPrivilegeEscalation": False}),
            main(
                securityContext={
                    "allowPrivilegeEscalation": False,
                    "capabilities": {"add": ["SYS_ADMIN"]},
                }
            ),
            main(securityContext={"runAsUser": -1}),
            main(securityContext={"runAsGroup": -1}),
            main(securityContext={"procMount": "Other"}),
            post(PODS, pod(spec={"securityContext": {"runAsUser": -1, "fsGroup": -1}})),
        ],
        ("causes", "wording"),
    ),
    Case(
        "a bound pod has no nominated node",
        [
            post(PODS, pod("a", {"nodeName": "n"})),
            patch(f"{PODS}/a/status", {"status": {"nominatedNodeName": "m"}}),
            post(PODS, pod("b")),
            patch(f"{PODS}/b/status", {"status": {"nominatedNodeName": "m"}}),
            post(
                f"{PODS}/b/binding",
                {"metadata": {"name": "b"}, "target": {"kind": "Node", "name": "n"}},
            ),
            get(f"{PODS}/b"),
            patch(f"{PODS}/b/status", {"status": {"nominatedNodeName": "n"}}),
            patch(f"{PODS}/b/status", {"status": {"nominatedNodeName": None}}),
        ],
    ),
    Case(
        "addresses of a pod that are not addresses",
        [
            post(PODS, pod()),
            *(
                patch(f"{PODS}/a/status", {"status": status})
                for status in (
                    {"podIP": "²"},
                    {"podIP": "10.0.0.256"},
                    {"podIPs": [{"ip": ""}]},
                    {"hostIP": "²"},
                    {"hostIPs": [{"ip": "²"}]},
                    {"hostIP": "10.0.0.1", "hostIPs": [{"ip": "10.0.0.2"}]},
                    {"podIP": "fd00::1", "podIPs": [{"ip": "fd00::1"}, {"ip": "10.0.0.1"}]},
                )
            ),
        ],
        ("causes",),
    ),
    Case(
        "probes with zero thresholds",
        [
            main(livenessProbe={**TCP, "successThreshold": 0}),
            post(
                PODS,
                pod(
                    "b",
                    {
                        "containers": [
                            {
                                "name": "main",
                                "image": "a:1",
                                "readinessProbe": {
                                    **TCP,
                                    "successThreshold": 0,
                                    "failureThreshold": 0,
                                    "periodSeconds": 0,
                                    "timeoutSeconds": 0,
                                },
                            }
                        ]
                    },
                ),
            ),
        ],
    ),
]
