"""Warnings about unknown and duplicate fields, also of rejected writes."""

from __future__ import annotations

from typing import Any

from tests.localkube.conformance.cases.server_side_apply import APPLY
from tests.localkube.conformance.cases.steps import (
    CM,
    JOBS,
    PODS,
    cm,
    delete,
    job,
    patch,
    pod,
    post,
    put,
)
from tests.localkube.conformance.transcript import JSON_PATCH, MERGE, STRATEGIC, Case, Step

WRONG_KEY = {"/": "x"}
TWICE = b'{"data":{"k":"1","k":"2"}}'
TWICE_AND_UNKNOWN = b'{"nope":1,"data":{"k":"1","k":"2"}}'
NEW_TWICE = (
    b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"1","k":"2"},"x":1}'
)
JOB_TWICE = (
    b'{"apiVersion":"kubeflow.org/v1","kind":"TFJob","metadata":{"name":"a","nope":1},"z":1,'
    b'"spec":{"k":"1","k":"2"},"x":1}'
)
STRICT = "fieldValidation=Strict"


def odd(body: dict[str, Any]) -> dict[str, Any]:
    """With a field that nobody knows."""
    return {**body, "nope": 1}


def steps(*ops: dict[str, Any]) -> Step:
    return patch(f"{CM}/a", list(ops), JSON_PATCH)


CASES = [
    Case(
        "warnings of rejected writes",
        [
            post(CM, cm()),
            post(CM, odd(cm())),
            post(CM, odd(cm("B"))),
            post(CM, odd(cm("b", data=WRONG_KEY))),
            post(CM, odd(cm("b", data=5))),
            post(CM, odd({**cm("b"), "metadata": {"name": "b", "namespace": "x"}})),
            post(CM, odd(pod())),
            post("/api/v1/namespaces/none-such/configmaps", odd(cm())),
            put(f"{CM}/none", odd(cm("none"))),
            put(f"{CM}/a", odd(cm("b"))),
            put(f"{CM}/a", odd(cm(data=WRONG_KEY))),
            put(f"{CM}/a", odd({**cm(), "metadata": {"name": "a", "resourceVersion": "1"}})),
            Step("PUT", f"{CM}/none?{STRICT}", odd(cm("none"))),
            Step("PUT", f"{CM}/a?fieldValidation=Ignore", odd(cm(data=WRONG_KEY))),
            patch(f"{CM}/a", odd({"data": WRONG_KEY})),
            patch(f"{CM}/a", odd({"data": WRONG_KEY}), STRATEGIC),
            steps(
                {"op": "add", "path": "/nope", "value": 1},
                {"op": "add", "path": "/data", "value": WRONG_KEY},
            ),
            patch(f"{CM}/none", odd({})),
            patch(f"{CM}/a", odd({"metadata": {"resourceVersion": "1"}})),
            patch(f"{CM}/a", odd({"metadata": {"name": "b"}})),
            post(PODS, odd(pod())),
            patch(f"{PODS}/a", {"spec": {"nope": 1, "hostname": "x"}}),
            patch(f"{PODS}/a/status", {"status": {"nope": 1}}),
            delete("/apis/batch/v1/namespaces/$ns/jobs/none"),
        ],
        ("wording", "causes"),
    ),
    Case(
        "warnings of rejected custom objects",
        [
            post(JOBS, job()),
            post(JOBS, JOB_TWICE),
            post(JOBS, odd(job("B"))),
            put(f"{JOBS}/a", JOB_TWICE),
            put(f"{JOBS}/none", odd(job("none"))),
            patch(f"{JOBS}/a", b'{"spec":{"k":"1","k":"2"},"x":1}'),
            patch(f"{JOBS}/a", b'{"spec":{"k":"1","k":"2"},"metadata":{"resourceVersion":"1"}}'),
            patch(f"{JOBS}/none", b'{"spec":{"k":"1","k":"2"},"x":1}'),
            Step("PATCH", f"{JOBS}/a?{STRICT}", b'{"spec":{"k":"1","k":"2"},"x":1}', MERGE),
        ],
        ("wording", "causes"),
    ),
    Case(
        "duplicate fields",
        [
            post(CM, NEW_TWICE),
            post(CM, NEW_TWICE),
            patch(f"{CM}/a", TWICE),
            patch(f"{CM}/a", TWICE, STRATEGIC),
            patch(f"{CM}/a", TWICE_AND_UNKNOWN),
            patch(f"{CM}/a", TWICE_AND_UNKNOWN, STRATEGIC),
            patch(f"{CM}/a?{STRICT}", TWICE),
            patch(f"{CM}/a?{STRICT}", TWICE, STRATEGIC),
            patch(f"{CM}/a?{STRICT}", TWICE_AND_UNKNOWN),
            patch(f"{CM}/a?fieldValidation=Ignore", TWICE_AND_UNKNOWN),
            patch(f"{CM}/none", TWICE),
            patch(f"{CM}/none?{STRICT}", TWICE),
            patch(f"{CM}/a", b'[{"op":"add","op":"add","path":"/data/x","value":"1"}]', JSON_PATCH),
            patch(
                f"{CM}/a?{STRICT}",
                b'[{"op":"add","op":"add","path":"/data/x","value":"1"}]',
                JSON_PATCH,
            ),
            patch(
                f"{CM}/b?fieldManager=me",
                b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"},'
                b'"data":{"k":"1","k":"2"}}',
                APPLY,
            ),
            patch(
                f"{CM}/b?fieldManager=me",
                b"apiVersion: v1\nkind: ConfigMap\ndata:\n  k: '1'\n  l: '1'\n  k: '2'\n",
                APPLY,
            ),
        ],
        ("wording", "causes"),
    ),
]
