"""Addresses and node ports of services: allocated, requested, kept, released.

Both servers have the range 10.0.0.0/16. They draw addresses above 10.0.1.0 and node ports above
30086, which are not compared; a case that names one takes it from below.
"""

from __future__ import annotations

from typing import Any

from tests.localkube.conformance.cases.steps import SVC, delete, get, patch, post, put
from tests.localkube.conformance.cases.tables import table
from tests.localkube.conformance.transcript import Case, Step

WEB = {"port": 80, "targetPort": 8080}


def body(name: str = "a", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"ports": [WEB], "selector": {"a": "b"}, **spec}}


def service(name: str = "a", **spec: Any) -> Step:
    return post(SVC, body(name, **spec))


def spec(**fields: Any) -> Step:
    return patch(f"{SVC}/a", {"spec": fields})


CASES = [
    Case(
        "an address is allocated and kept",
        [
            service(),
            get(f"{SVC}/a"),
            table(SVC),
            put(f"{SVC}/a", body(ports=[{"port": 81, "targetPort": "http"}])),
            spec(clusterIP=""),
            spec(clusterIP=None, clusterIPs=None),
            spec(clusterIP="10.0.0.9"),
            spec(clusterIP="None"),
            spec(clusterIPs=["10.0.0.9"]),
            patch(f"{SVC}/a/status", {"status": {"loadBalancer": {}}}),
            delete(f"{SVC}/a"),
        ],
        ("column-descriptions",),
    ),
    Case(
        "requested addresses",
        [
            service(clusterIP="10.0.0.101"),
            service("b", clusterIP="10.0.0.101"),
            service("b", clusterIP="10.0.0.0"),
            service("b", clusterIP="10.0.255.255"),
            service("b", clusterIP="10.1.0.1"),
            service("b", clusterIP="192.168.0.1"),
            service("b", clusterIP="10.0.0.1"),
            service("b", clusterIPs=["10.0.0.102"]),
            service("b", clusterIP="10.0.0.102", clusterIPs=["10.0.0.102"]),
            delete(f"{SVC}/a"),
            service("c", clusterIP="10.0.0.101"),
        ],
    ),
    Case(
        "families of addresses",
        [
            service("a", ipFamilyPolicy="PreferDualStack"),
            spec(ipFamilyPolicy="SingleStack"),
            spec(ipFamilyPolicy=None),
            spec(ipFamilies=["IPv6"]),
            service("b", ipFamilyPolicy="RequireDualStack"),
            service("b", ipFamilies=["IPv6"]),
            service("b", ipFamilies=["IPv4", "IPv6"]),
            service("b", ipFamilies=["IPv4", "IPv6"], ipFamilyPolicy="PreferDualStack"),
            service("b", ipFamilies=["IPv4", "IPv4"]),
            service("b", ipFamilies=["IPv5"]),
            service("b", ipFamilyPolicy="Any"),
            service("b", clusterIP="10.0.0.103", ipFamilies=["IPv6"]),
            service("b", clusterIP="fd00::1"),
            service("b", clusterIP="None", selector=None, ipFamilies=["IPv6"]),
            service("c", clusterIP="None", ipFamilies=["IPv4"]),
            service("d", selector=None),
        ],
    ),
    Case(
        "services that are reached from outside",
        [
            service("a", type="NodePort"),
            table(f"{SVC}/a"),
            spec(type="ClusterIP"),
            spec(type="LoadBalancer"),
            table(f"{SVC}/a"),
            spec(type="ClusterIP"),
            service("b", type="NodePort", clusterIP="None"),
            service("b", type="LoadBalancer", clusterIP="None"),
            service("b", type="NodePort", ports=[{**WEB, "nodePort": 30001}]),
            service("c", type="NodePort", ports=[{**WEB, "nodePort": 30001}]),
            service("c", type="NodePort", ports=[{**WEB, "nodePort": 80}]),
            service("c", type="NodePort", sessionAffinity="ClientIP"),
        ],
        ("column-descriptions",),
    ),
    Case(
        "an ExternalName releases its address and gets one again",
        [
            service("a", clusterIP="10.0.0.104"),
            spec(type="ExternalName", externalName="x"),
            service("b", clusterIP="10.0.0.104"),
            spec(type="ClusterIP", externalName=None),
            get(f"{SVC}/a"),
            spec(type="ExternalName", externalName="x"),
            spec(type="ClusterIP", externalName=None, clusterIP="10.0.0.104"),
        ],
    ),
    Case(
        "the service kubernetes",
        [
            get("/api/v1/namespaces/default/services?fieldSelector=spec.clusterIP=10.0.0.1"),
            service("a", clusterIP="10.0.0.1"),
        ],
    ),
]  # fmt: skip
