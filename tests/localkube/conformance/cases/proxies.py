"""Requests to `proxy` of services, nodes and pods that lead to no program."""

from __future__ import annotations

from tests.localkube.conformance.cases.steps import NS, PODS, SVC, delete, get, pod, post, put
from tests.localkube.conformance.transcript import Case

ENDPOINTS = f"{NS}/endpoints"
NODES = "/api/v1/nodes"


def service(name: str, *ports: str) -> dict[str, object]:
    rows = [{"port": 80 + i, "name": port} for i, port in enumerate(ports)]
    return {"metadata": {"name": name}, "spec": {"ports": rows}}


CASES = [
    Case(
        "requests to services without an endpoint",
        [
            post(SVC, service("a", "http", "other")),
            get(f"{SVC}/a/proxy/"),
            get(f"{SVC}/a:80/proxy/x"),
            get(f"{SVC}/a:82/proxy/"),
            get(f"{SVC}/none/proxy/"),
            get(f"{SVC}/none:80/proxy/"),
            get(f"{SVC}/ftp:a:80/proxy/"),
            get(f"{SVC}/x:y:a:80/proxy/"),
            post(ENDPOINTS, {"metadata": {"name": "a"}}),
            get(f"{SVC}/a/proxy/"),
            get(f"{SVC}/https:a:http/proxy/"),
            put(f"{SVC}/a:80/proxy/x", {}),
            delete(f"{SVC}/a:80/proxy/x"),
            get(f"{SVC}/a:81/proxy"),
            get(f"{SVC}/a:82/proxy/"),
        ],
    ),
    Case(
        "requests to services without an endpoint for the port",
        [
            post(SVC, service("a", "")),
            post(
                ENDPOINTS,
                {
                    "metadata": {"name": "a"},
                    "subsets": [
                        {
                            "notReadyAddresses": [{"ip": "10.255.255.1"}],
                            "ports": [{"port": 1}, {"port": 2, "name": "other"}],
                        }
                    ],
                },
            ),
            get(f"{SVC}/a:80/proxy/"),
            get(f"{SVC}/a:other/proxy/"),
            get(f"{SVC}/a:none/proxy/"),
        ],
    ),
    Case(
        "requests to nodes without an address",
        [
            post(NODES, {"metadata": {"name": "$ns"}}),
            get(f"{NODES}/$ns/proxy/healthz"),
            get(f"{NODES}/https:$ns:99/proxy/"),
            get(f"{NODES}/none/proxy/"),
            get(f"{NODES}/a:b:c:d/proxy/"),
            delete(f"{NODES}/$ns"),
        ],
        ("zero-values",),
    ),
    Case(
        "requests to pods that do not exist or have no address",
        [
            post(PODS, pod("p")),
            get(f"{PODS}/p/proxy/"),
            get(f"{PODS}/p:80/proxy/"),
            get(f"{PODS}/x:y:p:80/proxy/"),
            get(f"{PODS}/none:80/proxy/"),
        ],
    ),
]
