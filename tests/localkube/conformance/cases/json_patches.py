"""JSON patches as generous clients write them, and patch bodies that are no patches."""

from __future__ import annotations

from typing import Any

from tests.localkube.conformance.cases.server_side_apply import DEPLOYMENTS, ONE, deployment
from tests.localkube.conformance.cases.steps import CM, JOBS, PODS, cm, get, job, patch, pod, post
from tests.localkube.conformance.transcript import JSON_PATCH, STRATEGIC, Case, Step

ITEMS = "/metadata/finalizers"
LISTED = ["x/a", "x/b", "x/c"]


def steps(*ops: dict[str, Any], of: str = f"{CM}/a") -> Step:
    return patch(of, list(ops), JSON_PATCH)


def op(name: str, path: Any, **more: Any) -> dict[str, Any]:
    return {"op": name, "path": path, **more}


def taken(name: str, where: str, **more: Any) -> Step:
    """One operation, tried on a pod."""
    return steps(op(name, where, **more), of=f"{PODS}/a?dryRun=All")


def indexed(index: str) -> list[Step]:
    place = f"{ITEMS}/{index}"
    return [
        taken("add", place, value="y/add"),
        taken("replace", place, value="y/replace"),
        taken("remove", place),
        taken("test", place, value="x/b"),
        taken("test", place, value=None),
    ]


INDEXES = ("-1", "+1", "1", "01", "-0", "3", "4", "-", "-3", "-4", "-5", "x", "", "1.0", "%201")
ODD_BODIES = (b"null", b"[]", b"5", b'"x"', b"", b"{}", b"[null]", b"[5]", b"[{}]")
WHOLE = cm(data={"z": "1"})

CASES = [
    Case(
        "JSON patches of missing fields",
        [
            post(CM, cm(data={"k": "v"})),
            steps(op("replace", "/data/new", value="x")),
            steps(op("replace", "/none/x", value="x")),
            steps(op("replace", "/data/k", value=None)),
            *(
                steps(op("test", f"/{path}", value=value))
                for path in ("data/none", "none/none", "none", "data/k")
                for value in (None, "", "x")
            ),
            steps(op("test", "/data/none")),
            steps(op("copy", "/data/k2", **{"from": "/data/none"})),
            steps(op("move", "/data/k3", **{"from": "/data/none"})),
            steps(op("move", "/data/k3", **{"from": "/data/k2"})),
            steps(op("remove", "/data/none")),
            steps(op("add", "/data/w")),
            get(f"{CM}/a"),
        ],
        ("wording",),
    ),
    Case(
        "JSON patches with odd paths",
        [
            post(CM, cm(data={"k": "v"})),
            steps(op("add", "x/data/q", value="1")),
            steps(op("add", "data", value="1")),
            steps(op("add", "", value=WHOLE)),
            steps(op("test", "", value={})),
            steps(op("remove", "")),
            steps(op("copy", "/data/k2", **{"from": ""})),
            steps(op("copy", "/data/k2", **{"from": "x/data/k"})),
            steps(op("copy", "/data/k2", **{"from": "/data"})),
            steps(op("add", "/", value={"x": "y"})),
            steps(op("replace", "", value=WHOLE)),
            steps(op("replace", "", value=WHOLE), op("add", "/data/y", value="1")),
            steps(op("replace", "", value=5)),
            steps(op("replace", "", value=None)),
            steps(op(5, "/data/w", value="x")),  # type: ignore[arg-type]
            steps(op("add", 5, value="x")),
            steps(op("add", None, value="x")),
            steps(op("copy", "/data/k9", **{"from": 5})),
            steps(op("ADD", "/data/w", value="x")),
            post(JOBS, job()),
            steps(
                *(op("add", f"/spec/{key}", value=1) for key in ("a~1b", "c~0d", "e~01f", "g~h")),
                of=f"{JOBS}/a",
            ),
        ],
        ("wording", "causes"),
    ),
    Case(
        "JSON patches of items by odd indexes",
        [
            post(PODS, pod(finalizers=LISTED)),
            *(step for index in INDEXES for step in indexed(index)),
            taken("move", f"{ITEMS}/0", **{"from": f"{ITEMS}/2"}),
            taken("move", f"{ITEMS}/-", **{"from": f"{ITEMS}/0"}),
            taken("move", f"{ITEMS}/-1", **{"from": f"{ITEMS}/0"}),
            taken("copy", f"{ITEMS}/-1", **{"from": f"{ITEMS}/0"}),
            taken("test", "/spec/containers/-1/name", value="main"),
            taken("test", "/spec/containers/+0/name", value="main"),
            taken("test", "/spec/containers/0/name/x", value="main"),
            taken("add", "/spec/containers/0/name/x", value="main"),
            patch(f"{PODS}/a", {"metadata": {"finalizers": None}}),
        ],
        ("wording",),
    ),
    Case(
        "JSON patches that test values of other types",
        [
            post(JOBS, job(n=1, b=True, l=[1, 2], m={"a": 1, "b": 2})),
            *(
                steps(op("test", f"/spec/{name}", value=value), of=f"{JOBS}/a")
                for name, value in (
                    ("n", 1),
                    ("n", 1.0),
                    ("n", True),
                    ("b", 1),
                    ("l", [1, 2]),
                    ("l", [2, 1]),
                    ("m", {"b": 2, "a": 1}),
                    ("m", {"a": 1}),
                )
            ),
        ],
        ("wording",),
    ),
    Case(
        "JSON patches that copy values into themselves",
        [
            post(JOBS, job(m={"a": "x" * 1000})),
            *(
                steps(
                    *(
                        op("copy", f"/spec/m/{number}", **{"from": "/spec/m"})
                        for number in range(copies)
                    ),
                    of=f"{JOBS}/a?dryRun=All",
                )
                for copies in (2, 11, 12, 13, 20, 40)
            ),
            steps(*[op("copy", "/spec/n", **{"from": "/spec/m"})] * 3000, of=f"{JOBS}/a"),
            steps(*[op("copy", "/spec/n", **{"from": "/spec/m"})] * 3200, of=f"{JOBS}/a"),
            steps(*[op("test", "/spec/n", value=1)] * 10_001, of=f"{JOBS}/a"),
        ],
        ("wording",),
    ),
    Case(
        "patches that remove kind and version",
        [
            post(CM, cm(data={"k": "v"})),
            steps(op("remove", "/kind")),
            steps(op("replace", "/kind", value=None)),
            steps(op("replace", "/kind", value="Secret")),
            patch(f"{CM}/a", {"kind": None}),
            patch(f"{CM}/a", {"kind": ""}),
            patch(f"{CM}/a", {"kind": 5}),
            patch(f"{CM}/a", {"kind": None, "apiVersion": None}, STRATEGIC),
            patch(f"{CM}/a", {"metadata": "x"}),
            get(f"{CM}/a"),
            post(JOBS, job()),
            steps(op("remove", "/kind"), of=f"{JOBS}/a"),
            patch(f"{JOBS}/a", {"kind": ""}),
            patch(f"{JOBS}/a", {"kind": "PyTorchJob"}),
            patch(f"{JOBS}/a", {"apiVersion": "example.com/v1"}),
            get(f"{JOBS}/a"),
        ],
        ("wording", "causes"),
    ),
    Case(
        "patch bodies that are no patches",
        [
            post(CM, cm(data={"k": "v"})),
            *(patch(f"{CM}/a", body, JSON_PATCH) for body in ODD_BODIES),
            *(patch(f"{CM}/a", body, STRATEGIC) for body in ODD_BODIES),
            *(patch(f"{CM}/a", body) for body in ODD_BODIES),
            get(f"{CM}/a"),
            post(DEPLOYMENTS, deployment(ONE)),
            *(patch(f"{DEPLOYMENTS}/a/scale", body, JSON_PATCH) for body in ODD_BODIES),
            *(patch(f"{DEPLOYMENTS}/a/scale", body) for body in ODD_BODIES),
        ],
        ("wording",),
    ),
]
