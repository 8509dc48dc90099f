"""Objects from creation to deletion."""

from __future__ import annotations

from tests.localkube.conformance.cases.steps import (
    CM,
    JOBS,
    NS,
    PODS,
    SVC,
    cm,
    delete,
    get,
    job,
    patch,
    pod,
    post,
    put,
)
from tests.localkube.conformance.transcript import Case

CASES = [
    Case(
        "a config map through its life",
        [
            post(CM, cm(data={"k": "v"})),
            get(f"{CM}/a"),
            get(CM),
            put(f"{CM}/a", cm(data={"k": "w"})),
            patch(f"{CM}/a", {"data": {"x": "y"}}),
            patch(f"{CM}/a", {"data": {"x": None}}),
            delete(f"{CM}/a"),
            get(f"{CM}/a"),
            delete(f"{CM}/a"),
        ],
    ),
    Case(
        "a pod through its life",
        [
            post(PODS, pod()),
            get(f"{PODS}/a"),
            patch(f"{PODS}/a", {"metadata": {"labels": {"x": "y"}}}),
            patch(f"{PODS}/a/status", {"status": {"phase": "Running"}}),
            get(f"{PODS}/a/status"),
            get(PODS),
            delete(f"{PODS}/a"),
            get(f"{PODS}/a"),
        ],
    ),
    Case(
        "a job through its life",
        [
            post(JOBS, job(tfReplicaSpecs={"Worker": {"replicas": 1}})),
            get(f"{JOBS}/a"),
            patch(f"{JOBS}/a", {"spec": {"more": 1}}),
            patch(f"{JOBS}/a/status", {"status": {"conditions": [{"type": "Running"}]}}),
            patch(f"{JOBS}/a", {"status": {"ignored": True}}),
            patch(f"{JOBS}/a", {"metadata": {"labels": {"x": "y"}}}),
            get(JOBS),
            delete(f"{JOBS}/a"),
            get(f"{JOBS}/a"),
        ],
    ),
    Case(
        "a job in another version",
        [
            post(JOBS.replace("/v1/", "/v1beta1/"), job(version="v1beta1", a={"b": 1})),
            get(f"{JOBS}/a"),
            get(f"{JOBS}/a".replace("/v1/", "/v1alpha1/")),
            get(JOBS.replace("/v1/", "/v1beta2/")),
            patch(f"{JOBS}/a".replace("/v1/", "/v1beta2/"), {"spec": {"c": 2}}),
            get(f"{JOBS}/a"),
            post(JOBS, job("b", version="v1beta1")),
            get("/apis/kubeflow.org/v9/namespaces/$ns/tfjobs"),
        ],
    ),
    Case(
        "a deleted collection",
        [
            post(CM, cm("a")),
            post(CM, {**cm("b"), "metadata": {"name": "b", "labels": {"x": "y"}}}),
            delete(f"{CM}?labelSelector=x%3Dy"),
            get(CM),
            delete(CM),
            get(CM),
        ],
    ),
    Case("generated names", [post(CM, {"metadata": {"generateName": "x-"}})]),
    Case(
        "a write that changes nothing",
        [
            post(CM, cm(data={"k": "v"})),
            patch(f"{CM}/a", {"data": {"k": "v"}}),
            put(
                f"{CM}/a",
                {**cm(data={"k": "v"}), "metadata": {"name": "a", "resourceVersion": "$rv.0"}},
            ),
            put(
                f"{CM}/a",
                {**cm(data={"k": "w"}), "metadata": {"name": "a", "resourceVersion": "$rv.1"}},
            ),
        ],
    ),
    Case(
        "a dry run",
        [
            post(f"{CM}?dryRun=All", cm()),
            get(f"{CM}/a"),
            post(CM, cm()),
            patch(f"{CM}/a?dryRun=All", {"data": {"x": "y"}}),
            delete(f"{CM}/a?dryRun=All"),
            get(f"{CM}/a"),
        ],
    ),
    Case(
        "a service",
        [
            post(
                SVC,
                {
                    "metadata": {"name": "a"},
                    "spec": {"clusterIP": "None", "selector": {"a": "b"}, "ports": [{"port": 80}]},
                },
            ),
            delete(f"{SVC}/a"),
        ],
    ),
    Case(
        "a secret with plain strings",
        [
            post(f"{NS}/secrets", {"metadata": {"name": "a"}, "stringData": {"k": "v"}}),
            get(f"{NS}/secrets/a"),
        ],
    ),
]
