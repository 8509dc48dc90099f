"""Kinds that charts bring along, and that a cluster without their controllers only stores."""

from __future__ import annotations

from typing import Any

from tests.localkube.conformance.cases.steps import (
    NS,
    PODS,
    answered,
    delete,
    get,
    patch,
    pod,
    post,
    put,
)
from tests.localkube.conformance.cases.tables import TABLE
from tests.localkube.conformance.transcript import Case

NETWORKING = "/apis/networking.k8s.io/v1"
INGRESSES = f"{NETWORKING}/namespaces/$ns/ingresses"
CLASSES = f"{NETWORKING}/ingressclasses"
POLICIES = f"{NETWORKING}/namespaces/$ns/networkpolicies"
RUNTIMES = "/apis/node.k8s.io/v1/runtimeclasses"
TEMPLATES = f"{NS}/podtemplates"
OLD_CLASS = {"kubernetes.io/ingress.class": "x"}
DEFAULT = {"ingressclass.kubernetes.io/is-default-class": "true"}


def backend(name: str = "s", **port: Any) -> dict[str, Any]:
    return {"service": {"name": name, "port": port or {"number": 80}}}


def ingress(name: str = "a", annotations: Any = None, **spec: Any) -> dict[str, Any]:
    meta = {"name": name} | ({"annotations": annotations} if annotations else {})
    return {"metadata": meta, "spec": spec}


def rule(*paths: dict[str, Any], host: str = "") -> dict[str, Any]:
    return ({"host": host} if host else {}) | {"http": {"paths": list(paths)}}


def path(text: str = "/", kind: str = "Prefix", to: Any = None) -> dict[str, Any]:
    return {"path": text, "pathType": kind, "backend": backend() if to is None else to}


def to_port(**port: Any) -> dict[str, Any]:
    return path(to={"service": {"name": "s", "port": port}})


def ingress_class(name: str = "$ns", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": spec}


def policy(name: str = "a", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": spec}


INVALID_RULES = [
    rule(host="1.2.3.4"),
    rule({"backend": backend()}),
    rule(path("x")),
    rule(path("/a//b")),
    rule(path("/%2f/../x/..")),
    rule(path("/", "Foo")),
    rule(path("x", "ImplementationSpecific")),
    rule(path(to={})),
    rule(path(to=backend("A_b"))),
    rule(to_port(number=80, name="x")),
    rule(to_port()),
    rule(to_port(number=99999)),
    rule(to_port(name="Bad_")),
    rule(path(to={"service": {"port": {"number": 1}}})),
    rule(path(to={**backend(), "resource": {"kind": "K", "name": "n"}})),
    rule(path(to={"resource": {"kind": "K"}})),
    rule(host="Bad_"),
    rule(path(), host="*.ok.example"),
    rule(path(), host="*bad.example"),
    rule(path("")),
    rule(path("", "ImplementationSpecific")),
]
INGRESS = [
    Case(
        "ingresses are stored",
        [
            post(
                INGRESSES,
                ingress(
                    rules=[rule(path(), host="a.example"), rule(path("/x", "Exact"))],
                    tls=[{"hosts": ["a.example"], "secretName": "t"}],
                    ingressClassName="c",
                ),
            ),
            post(INGRESSES, ingress("b", defaultBackend=backend())),
            post(INGRESSES, ingress("c", OLD_CLASS, defaultBackend=backend())),
            post(
                INGRESSES,
                ingress("d", rules=[rule(path(), host=f"{i}.example") for i in range(5)]),
            ),
            patch(f"{INGRESSES}/b", {"spec": {"defaultBackend": backend("t")}}),
            patch(
                f"{INGRESSES}/b/status",
                {"status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}, {"hostname": "h.x"}]}}},
            ),
            get(INGRESSES, accept=TABLE),
            put(f"{INGRESSES}/none", ingress("none", defaultBackend=backend())),
            delete(f"{INGRESSES}/b"),
        ],
        ("column-descriptions",),
    ),
    Case(
        "ingresses that are invalid",
        [
            post(INGRESSES, ingress()),
            post(INGRESSES, ingress(rules=[{"host": "x"}])),
            post(
                INGRESSES,
                ingress(
                    "b",
                    rules=INVALID_RULES,
                    tls=[{"hosts": ["Bad_"], "secretName": "Bad_"}],
                    ingressClassName="Bad_",
                ),
            ),
            post(INGRESSES, ingress("c", OLD_CLASS, ingressClassName="y", rules=[rule(path())])),
            patch(
                f"{INGRESSES}/a/status",
                {
                    "status": {
                        "loadBalancer": {
                            "ingress": [{"ip": "x"}, {"hostname": "1.2.3.4"}, {"hostname": "Bad_"}]
                        }
                    }
                },
            ),
        ],
    ),
    Case(
        "classes of ingresses",
        [
            post(
                CLASSES,
                ingress_class(controller="a.example/c", parameters={"kind": "K", "name": "n"}),
            ),
            patch(f"{CLASSES}/$ns", {"spec": {"controller": "x/y"}}),
            patch(f"{CLASSES}/$ns", {"spec": {"parameters": {"name": "m", "apiGroup": "g.x"}}}),
            get(f"{CLASSES}/$ns", accept=TABLE),
            patch(f"{CLASSES}/$ns", {"metadata": {"annotations": DEFAULT}}),
            post(
                f"{INGRESSES}?dryRun=All",
                ingress(defaultBackend=backend()),
                until=lambda reply: "ingressClassName" in reply.body["spec"],
            ),
            post(INGRESSES, ingress("b", OLD_CLASS, defaultBackend=backend())),
            delete(f"{CLASSES}/$ns"),
        ],
        ("column-descriptions",),
    ),
    Case(
        "classes of ingresses that are invalid",
        [
            post(CLASSES, {"metadata": {"name": "$ns"}}),
            post(CLASSES, ingress_class(controller="Bad_ x")),
            *(
                post(CLASSES, ingress_class(controller="a/b", parameters=parameters))
                for parameters in (
                    {"apiGroup": "Bad_", "kind": "a/b", "scope": "X", "namespace": "y"},
                    {"kind": "a", "name": "x", "scope": "Namespace"},
                    {"kind": "a", "name": "x", "namespace": "x"},
                )
            ),
        ],
    ),
]
POLICY = [
    Case(
        "network policies are stored",
        [
            post(POLICIES, policy(podSelector={"matchLabels": {"a": "b"}})),
            post(
                POLICIES,
                policy(
                    "b",
                    ingress=[
                        {
                            "from": [
                                {"podSelector": {}},
                                {"namespaceSelector": {"matchLabels": {"x": "y"}}},
                                {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}},
                            ],
                            "ports": [
                                {"port": 80},
                                {"port": "http", "protocol": "UDP"},
                                {"port": 100, "endPort": 200},
                            ],
                        }
                    ],
                    egress=[{}],
                ),
            ),
            post(POLICIES, {"metadata": {"name": "c"}}),
            patch(f"{POLICIES}/a", {"spec": {"policyTypes": ["Ingress", "Egress"]}}),
            get(POLICIES, accept=TABLE),
            delete(f"{POLICIES}/a"),
        ],
        ("network-policy-warnings", "column-descriptions"),
    ),
    Case(
        "network policies that are invalid",
        [
            post(
                POLICIES,
                policy(
                    podSelector={"matchLabels": {"a": "Bad !"}},
                    policyTypes=["X"],
                    ingress=[
                        {
                            "from": [
                                {},
                                {"podSelector": {}, "ipBlock": {"cidr": "1.2.3.4/8"}},
                                {"ipBlock": {"cidr": "x"}},
                                {"ipBlock": {"cidr": ""}},
                                {
                                    "ipBlock": {
                                        "cidr": "10.0.0.0/8",
                                        "except": ["11.0.0.0/8", "x", "10.0.0.0/8"],
                                    }
                                },
                                {
                                    "podSelector": {
                                        "matchExpressions": [{"key": "a", "operator": "X"}]
                                    }
                                },
                            ],
                            "ports": [
                                {"port": 0},
                                {"port": "Bad_"},
                                {"port": "x", "endPort": 3},
                                {"endPort": 3},
                                {"port": 100, "endPort": 50},
                                {"port": 1, "protocol": "X"},
                                {"port": 1, "endPort": 70000},
                            ],
                        }
                    ],
                    egress=[{"to": [{}], "ports": [{"port": 99999}]}],
                ),
            ),
            post(POLICIES, policy(policyTypes=["Ingress", "Egress", "Egress"])),
        ],
        ("network-policy-warnings",),
    ),
]
OVERHEAD = {"cpu": "250m", "memory": "64Mi"}
TOLERATION = {"key": "k", "operator": "Exists"}
RUNTIME = [
    Case(
        "runtime classes, and pods that name one",
        [
            post(
                RUNTIMES,
                {
                    "metadata": {"name": "$ns"},
                    "handler": "runc",
                    "overhead": {"podFixed": OVERHEAD},
                    "scheduling": {"nodeSelector": {"a": "b"}, "tolerations": [TOLERATION]},
                },
            ),
            patch(f"{RUNTIMES}/$ns", {"handler": "y"}),
            get(f"{RUNTIMES}/$ns", accept=TABLE),
            post(PODS, pod("a", {"runtimeClassName": "$ns"})),
            post(PODS, pod("b", {"runtimeClassName": "none"})),
            post(PODS, pod("c", {"runtimeClassName": "$ns", "overhead": {"cpu": "1"}})),
            post(PODS, pod("d", {"runtimeClassName": "$ns", "overhead": OVERHEAD})),
            post(PODS, pod("e", {"overhead": {"cpu": "1"}})),
            post(PODS, pod("f", {"runtimeClassName": "$ns", "nodeSelector": {"a": "c"}})),
            post(
                PODS,
                pod(
                    "g",
                    {
                        "runtimeClassName": "$ns",
                        "nodeSelector": {"x": "y"},
                        "tolerations": [TOLERATION, {"key": "z", "operator": "Exists"}],
                    },
                ),
            ),
            delete(f"{RUNTIMES}/$ns"),
            post(
                f"{PODS}?dryRun=All",
                pod("h", {"runtimeClassName": "$ns"}),
                until=answered(403),
            ),
        ],
        ("column-descriptions",),
    ),
    Case(
        "runtime classes that are invalid",
        [
            post(RUNTIMES, {"metadata": {"name": "$ns"}}),
            post(RUNTIMES, {"metadata": {"name": "$ns"}, "handler": "Bad_"}),
            post(
                RUNTIMES,
                {
                    "metadata": {"name": "$ns"},
                    "handler": "x",
                    "overhead": {"podFixed": {"cpu": "-1"}},
                    "scheduling": {
                        "nodeSelector": {"Bad!": "x"},
                        "tolerations": [{"operator": "Foo"}],
                    },
                },
            ),
        ],
        ("wording",),
    ),
]


def template(name: str, labels: Any = None, **spec: Any) -> dict[str, Any]:
    meta = {"metadata": {"labels": labels}} if labels else {}
    body = {**meta, "spec": {**pod()["spec"], **spec}}
    return {"metadata": {"name": name}, "template": body}


TEMPLATE = [
    Case(
        "pod templates are stored",
        [
            post(TEMPLATES, template("a", {"x": "y"})),
            post(TEMPLATES, template("b", restartPolicy="Never")),
            patch(f"{TEMPLATES}/a", {"template": {"spec": {"restartPolicy": "Never"}}}),
            get(TEMPLATES, accept=TABLE),
            delete(f"{TEMPLATES}/a"),
            post(TEMPLATES, {"metadata": {"name": "c"}}),
            post(
                TEMPLATES,
                template("c", {"Bad!": "x"}, ephemeralContainers=[{"name": "x", "image": "y"}]),
            ),
        ],
        ("column-descriptions",),
    ),
]
CASES = [*INGRESS, *POLICY, *RUNTIME, *TEMPLATE]
