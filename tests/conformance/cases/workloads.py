"""Deployments, replica sets and jobs that decode and are invalid."""

from __future__ import annotations

from typing import Any

from tests.conformance.cases.steps import patch, post
from tests.conformance.transcript import Case, Step

DEPLOYMENTS = "/apis/apps/v1/namespaces/$ns/deployments"
REPLICA_SETS = "/apis/apps/v1/namespaces/$ns/replicasets"
BATCH_JOBS = "/apis/batch/v1/namespaces/$ns/jobs"
RUN = {"containers": [{"name": "main", "image": "a:1"}]}
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": RUN}
INDEXED: dict[str, Any] = {"completionMode": "Indexed", "completions": 3}
SUCCESS: dict[str, Any] = {"successPolicy": {"rules": [{"succeededCount": 1}]}}


def owner(place: str, **spec: Any) -> Step:
    usual = {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}
    return post(place, {"metadata": {"name": "a"}, "spec": {**usual, **spec}})


def rolling(unavailable: Any, surge: Any) -> Step:
    update = {"maxUnavailable": unavailable, "maxSurge": surge}
    return owner(DEPLOYMENTS, strategy={"type": "RollingUpdate", "rollingUpdate": update})


def job(name: str = "a", **spec: Any) -> Step:
    template = {"spec": {**RUN, "restartPolicy": "Never"}}
    return post(BATCH_JOBS, {"metadata": {"name": name}, "spec": {"template": template, **spec}})


def changed(**spec: Any) -> Step:
    return patch(f"{BATCH_JOBS}/a", {"spec": spec})


CASES = [
    Case(
        "deployments with an invalid rolling update",
        [
            rolling(0, 0),
            rolling("0%", 0),
            rolling("x%", 1),
            rolling(1, "x"),
            rolling("101%", 1),
            rolling(-1, 1),
            rolling(1, -1),
            owner(DEPLOYMENTS, strategy={"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}),
            owner(DEPLOYMENTS, strategy={"type": "Sometimes"}),
            owner(DEPLOYMENTS, minReadySeconds=10, progressDeadlineSeconds=10),
            owner(DEPLOYMENTS, minReadySeconds=-1),
            owner(DEPLOYMENTS, progressDeadlineSeconds=-1),
            owner(DEPLOYMENTS, revisionHistoryLimit=-1),
            owner(DEPLOYMENTS, replicas=-1),
            owner(REPLICA_SETS, minReadySeconds=-1),
        ],
        ("wording",),
    ),
    Case(
        "deployments changed to an invalid rolling update",
        [
            owner(DEPLOYMENTS),
            patch(f"{DEPLOYMENTS}/a", {"spec": {"strategy": {"type": "Recreate"}}}),
            patch(
                f"{DEPLOYMENTS}/a",
                {"spec": {"strategy": {"type": "Recreate", "rollingUpdate": None}}},
            ),
            patch(f"{DEPLOYMENTS}/a", {"spec": {"progressDeadlineSeconds": 0}}),
        ],
        ("wording",),
    ),
    Case(
        "jobs with invalid counts",
        [
            job(**SUCCESS),
            job(backoffLimitPerIndex=1),
            job(maxFailedIndexes=1),
            job(completionMode="Indexed"),
            job(completionMode="Indexed", parallelism=2),
            job(completionMode="Sometimes"),
            job(**INDEXED, backoffLimitPerIndex=-1),
            job(**INDEXED, maxFailedIndexes=1),
            job(**INDEXED, backoffLimitPerIndex=1, maxFailedIndexes=4),
            job(**INDEXED, successPolicy={"rules": []}),
            job(**INDEXED, successPolicy={"rules": [{}]}),
            job(**INDEXED, successPolicy={"rules": [{"succeededCount": 4}]}),
            job(**INDEXED, successPolicy={"rules": [{"succeededIndexes": "0-5"}]}),
            job(**INDEXED, successPolicy={"rules": [{"succeededIndexes": "x"}]}),
            job("b", **INDEXED, **SUCCESS),
            job("c", **INDEXED, backoffLimitPerIndex=1, maxFailedIndexes=2),
            job("d", **INDEXED, successPolicy={"rules": [{"succeededIndexes": "0,1-2"}]}),
        ],
        ("wording",),
    ),
    Case(
        "jobs that are changed",
        [
            job(completions=2, parallelism=2),
            changed(completions=3),
            changed(completions=None),
            changed(parallelism=3),
            changed(backoffLimit=3),
            changed(completionMode="Indexed"),
            changed(podReplacementPolicy="Failed"),
            changed(manualSelector=True),
            changed(backoffLimitPerIndex=1),
            changed(suspend=True),
            changed(activeDeadlineSeconds=50),
            changed(ttlSecondsAfterFinished=50),
            job("b", **INDEXED),
            patch(f"{BATCH_JOBS}/b", {"spec": {"completions": 4}}),
            patch(f"{BATCH_JOBS}/b", {"spec": {"completions": 4, "parallelism": 4}}),
            patch(f"{BATCH_JOBS}/b", {"spec": SUCCESS}),
        ],
        ("wording",),
    ),
]
