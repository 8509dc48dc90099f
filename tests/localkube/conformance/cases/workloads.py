"""Workloads that decode and are invalid, or change."""

from __future__ import annotations

from typing import Any

from tests.localkube.conformance.cases.steps import patch, post
from tests.localkube.conformance.transcript import Case, Step

DEPLOYMENTS = "/apis/apps/v1/namespaces/$ns/deployments"
REPLICA_SETS = "/apis/apps/v1/namespaces/$ns/replicasets"
CRON_JOBS = "/apis/batch/v1/namespaces/$ns/cronjobs"
STATEFUL_SETS = "/apis/apps/v1/namespaces/$ns/statefulsets"
DAEMON_SETS = "/apis/apps/v1/namespaces/$ns/daemonsets"
REVISIONS = "/apis/apps/v1/namespaces/$ns/controllerrevisions"
BATCH_JOBS = "/apis/batch/v1/namespaces/$ns/jobs"
TIME = "2026-01-01T00:00:00Z"
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


def cron_job(schedule: str = "* * * * *", name: str = "a", job: Any = None, **spec: Any) -> Step:
    template = {"template": {"spec": {**RUN, "restartPolicy": "Never"}}, **(job or {})}
    body = {"schedule": schedule, "jobTemplate": {"spec": template}, **spec}
    return post(CRON_JOBS, {"metadata": {"name": name}, "spec": body})


INVALID_SCHEDULES = (
    "", "x", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *",
    "* * * * 7", "5-2 * * * *", "*/0 * * * *", "*/-1 * * * *", "1-2-3 * * * *", "1/2/3 * * * *",
    "a * * * *", "* * * foo *", "1.5 * * * *", "@often", "@every", "@every soon",
    "TZ=UTC * * * * *",
)  # fmt: skip
VALID_SCHEDULES = (
    "*/5 0-6,22 1,15 jan-JUN MON", "? ? ? ? ?", "3/7 * * * *", "@hourly", "@every 1h30m",
    "@every 1.5h", ",,1 * * * *", "0 0 31 2 *",
)  # fmt: skip


def stateful_set(**spec: Any) -> Step:
    return owner(STATEFUL_SETS, **spec)


def daemon_set(**spec: Any) -> Step:
    return owner(DAEMON_SETS, **spec)


def replaced(unavailable: Any, surge: Any) -> Step:
    update = {"maxUnavailable": unavailable, "maxSurge": surge}
    return daemon_set(updateStrategy={"type": "RollingUpdate", "rollingUpdate": update})


def counted(value: str) -> dict[str, Any]:
    return {"metadata": {"annotations": {"deprecated.daemonset.template.generation": value}}}


CLAIM = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}
MOUNTS = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {
        "containers": [
            {
                "name": "main",
                "image": "a:1",
                "volumeMounts": [{"name": "data", "mountPath": "/data"}],
            }
        ]
    },
}

CASES = [
    Case(
        "daemon sets that are invalid",
        [
            daemon_set(selector=None),
            daemon_set(selector={}),
            daemon_set(selector={"matchLabels": {"a": "c"}}),
            daemon_set(template={"spec": RUN}),
            daemon_set(template={**TEMPLATE, "spec": {**RUN, "restartPolicy": "Never"}}),
            daemon_set(template={**TEMPLATE, "spec": {**RUN, "activeDeadlineSeconds": 3}}),
            daemon_set(minReadySeconds=-1),
            daemon_set(revisionHistoryLimit=-1),
            daemon_set(updateStrategy={"type": "Sometimes"}),
            replaced(0, 0),
            replaced(1, 1),
            replaced("0%", "200%"),
            replaced(-1, 0),
            replaced("a", 0),
        ],
        ("wording",),
    ),
    Case(
        "daemon sets that change",
        [
            daemon_set(),
            patch(f"{DAEMON_SETS}/a", counted("7")),
            patch(f"{DAEMON_SETS}/a", counted("7") | {"spec": {"minReadySeconds": 3}}),
            patch(f"{DAEMON_SETS}/a", {"spec": {"template": {"metadata": {"labels": {"c": "d"}}}}}),
            patch(f"{DAEMON_SETS}/a", {"metadata": {"annotations": None}}),
            patch(f"{DAEMON_SETS}/a", {"spec": {"selector": {"matchLabels": {"c": "d"}}}}),
            patch(f"{DAEMON_SETS}/a", {"spec": {"updateStrategy": {"type": "OnDelete"}}}),
            patch(f"{DAEMON_SETS}/a/status", counted("9") | {"status": {"numberReady": 1}}),
            patch(f"{DAEMON_SETS}/a/status", {"status": {"numberAvailable": -1}}),
            patch(f"{DAEMON_SETS}/a/scale", {"spec": {"replicas": 2}}),
            post(DAEMON_SETS, counted("4") | {"spec": {"selector": {}}}),
        ],
        ("wording",),
    ),
    Case(
        "stateful sets that are invalid",
        [
            stateful_set(podManagementPolicy="Sometimes"),
            stateful_set(updateStrategy={"type": "Sometimes"}),
            stateful_set(updateStrategy={"type": "OnDelete", "rollingUpdate": {"partition": 1}}),
            stateful_set(
                updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": -1}}
            ),
            stateful_set(persistentVolumeClaimRetentionPolicy={"whenDeleted": "Never"}),
            stateful_set(replicas=-1),
            stateful_set(minReadySeconds=-1),
            stateful_set(ordinals={"start": -1}),
            stateful_set(selector=None),
            stateful_set(selector={}),
            stateful_set(selector={"matchLabels": {"a": "c"}}),
            stateful_set(serviceName="not_a_name"),
            stateful_set(volumeClaimTemplates=[{"metadata": {"name": "data"}}]),
            stateful_set(template=MOUNTS),
            stateful_set(template={**TEMPLATE, "spec": {**RUN, "restartPolicy": "Never"}}),
            stateful_set(template={**TEMPLATE, "spec": {**RUN, "activeDeadlineSeconds": 3}}),
        ],
        ("wording",),
    ),
    Case(
        "stateful sets that change",
        [
            stateful_set(template=MOUNTS, volumeClaimTemplates=[CLAIM], serviceName="s"),
            patch(f"{STATEFUL_SETS}/a", {"spec": {"replicas": 3}}),
            patch(f"{STATEFUL_SETS}/a", {"spec": {"serviceName": "t"}}),
            patch(f"{STATEFUL_SETS}/a", {"spec": {"podManagementPolicy": "Parallel"}}),
            patch(f"{STATEFUL_SETS}/a", {"spec": {"volumeClaimTemplates": []}}),
            patch(f"{STATEFUL_SETS}/a", {"spec": {"updateStrategy": {"type": "OnDelete"}}}),
            patch(
                f"{STATEFUL_SETS}/a",
                {"spec": {"updateStrategy": {"type": "OnDelete", "rollingUpdate": None}}},
            ),
            patch(f"{STATEFUL_SETS}/a/scale", {"spec": {"replicas": 2}}),
        ],
        ("wording",),
    ),
    Case(
        "revisions",
        [
            post(REVISIONS, {"metadata": {"name": "r"}, "revision": 1}),
            post(REVISIONS, {"metadata": {"name": "r"}, "data": {"a": 1}, "revision": -1}),
            post(REVISIONS, {"metadata": {"name": "r"}, "data": {"a": 1}, "revision": 1}),
            patch(f"{REVISIONS}/r", {"data": {"a": 2}}),
        ],
    ),
    Case(
        "cron jobs with an invalid schedule",
        [
            *(cron_job(schedule) for schedule in INVALID_SCHEDULES),
            *(cron_job(timeZone=zone) for zone in ("No/Where", "", "Local", "../etc", "a//b")),
        ],
    ),
    Case(
        "cron jobs with a valid schedule",
        [cron_job(schedule, name=f"c{number}") for number, schedule in enumerate(VALID_SCHEDULES)],
    ),
    Case(
        "cron jobs with invalid fields",
        [
            cron_job(concurrencyPolicy="Maybe"),
            cron_job(startingDeadlineSeconds=-1),
            cron_job(successfulJobsHistoryLimit=-1),
            cron_job(failedJobsHistoryLimit=-1),
            cron_job(name="a" * 53),
            cron_job(name="a" * 52),
            cron_job(job={"selector": {"matchLabels": {"a": "b"}}}),
            cron_job(job={"parallelism": -1}),
            cron_job(job={"template": {"spec": RUN}}),
            cron_job(job={"template": {"spec": {"restartPolicy": "Never"}}}),
            cron_job(job={"template": {"spec": {**RUN, "restartPolicy": "Sometimes"}}}),
            cron_job(timeZone="Europe/Berlin"),
            patch(f"{CRON_JOBS}/a", {"spec": {"schedule": "x"}}),
            patch(f"{CRON_JOBS}/a", {"spec": {"suspend": True}}),
            patch(f"{CRON_JOBS}/a/status", {"status": {"lastScheduleTime": TIME}}),
        ],
    ),
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
