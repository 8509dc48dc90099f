"""Every flag of `arena submit`, in every spelling, has its effect on the submitted objects."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from muster.jobs.build.flags import BY_TYPE, Flag, TensorFlow, flags_of
from tests.muster.cli.submit_dry_run import BARE, Machine


@pytest.fixture
def machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Machine:
    (tmp_path / "app.conf").write_text('a: "1"\n')
    machine = Machine(tmp_path, capsys, monkeypatch)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    return machine


class Effect(NamedTuple):
    """A value of a flag, the path and value of the field that it sets, and other flags it needs."""

    value: str
    path: str
    expected: Any
    more: tuple[str, ...] = ()


GIT = ("--sync-mode=git", "--sync-source=https://x/p.git")
BOARD = ("--tensorboard",)
SECRET = {"secretName": "s"}
RESOURCES = "resources/limits"
TOLERATION = [{"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}]

SHARED: dict[str, Effect] = {
    "--name": Effect("other", "job/metadata/name", "other"),
    "--image": Effect("other:1", "main:@/image", "other:1"),
    "--gpus": Effect("3", f"main:@/{RESOURCES}/nvidia.com~gpu", "3"),
    "--device": Effect("amd.com/gpu=2", f"main:@/{RESOURCES}/amd.com~gpu", "2"),
    "--workers": Effect("4", "main:@/env/workers/value", "4"),
    "--retry": Effect("5", "job/spec/runPolicy/backoffLimit", 5),
    "--restart": Effect("replica", "job/metadata/annotations/muster.dev~restart", "replica"),
    "--working-dir": Effect("/usr", "main:@/workingDir", "/usr"),
    "--python": Effect(sys.executable, "main:@/env/MUSTER_PYTHON/value", sys.executable),
    "--isolated": Effect("", "main:@/workingDir", "/root"),
    "--env": Effect('K={"a": "b, #c"}', "main:@/env/K/value", '{"a": "b, #c"}'),
    "--env-from": Effect("secret/s", "main:@/envFrom", [{"secretRef": {"name": "s"}}]),
    "--shell": Effect("bash", "main:*/command", ["bash", "-c", "exec python t.py"]),
    "--annotation": Effect("k=v", "job/metadata/annotations/k", "v"),
    "--label": Effect("k=v", "@/template/metadata/labels/k", "v"),
    "--image-pull-secret": Effect("s", "pod:@/imagePullSecrets", [{"name": "s"}]),
    "--image-pull-policy": Effect("Never", "main:@/imagePullPolicy", "Never"),
    "--run-as-user": Effect("7", "pod:@/securityContext", {"runAsUser": 7}),
    "--model-name": Effect("m", "job/metadata/labels/modelName", "m", ("--model-source=pvc://a",)),
    "--model-source": Effect(
        "pvc://c/m", "job/metadata/annotations/muster.dev~model-dir", "/d/m", ("--data=c:/d",)
    ),
    "--model-dir": Effect(
        "/usr/m", "job/metadata/annotations/muster.dev~model-dir", "/usr/m", ("--data-dir=/usr",)
    ),
    "--gang": Effect("", "job/metadata/annotations/muster.dev~gang", "true"),
    "--priority": Effect("high", "pod:@/priorityClassName", "high"),
    "--queue": Effect("", "job/metadata/annotations/scheduling.x-k8s.io~suspend", "true"),
    "--toleration": Effect("k=v:NoSchedule,Equal", "pod:@/tolerations", TOLERATION),
    "--selector": Effect("k=v", "pod:@/nodeSelector", {"k": "v"}),
    "--topology": Effect("rack", "job/metadata/annotations/muster.dev~topology", "rack"),
    "--scheduler": Effect("volcano", "pod:@/schedulerName", "volcano"),
    "--rdma": Effect("", f"main:@/{RESOURCES}/rdma~hca", "1"),
    "--hostNetwork": Effect("", "pod:@/hostNetwork", True),
    "--hostIPC": Effect("", "pod:@/hostIPC", True),
    "--hostPID": Effect("", "pod:@/hostPID", True),
    "--data": Effect("c:/d", "main:@/volumeMounts/c/mountPath", "/d"),
    "--data-dir": Effect("/usr:/e", "main:@/volumeMounts/training-data-0/mountPath", "/e"),
    "--config-file": Effect(
        "app.conf:/etc/app/a.conf", "main:@/volumeMounts/config-0/mountPath", "/etc/app"
    ),
    "--share-memory": Effect("1Gi", "pod:@/volumes/dshm/emptyDir/sizeLimit", "1Gi"),
    "--sync-mode": Effect("git", "init:@/name", "init-code", ("--sync-source=https://x/p.git",)),
    "--sync-source": Effect(
        "https://x/p.git", "init:@/env/GIT_SYNC_DEST/value", "p", ("--sync-mode=git",)
    ),
    "--sync-image": Effect("mine:1", "init:@/image", "mine:1", GIT),
    "--sync-branch": Effect("b", "init:@/env/GIT_SYNC_BRANCH/value", "b", GIT),
    "--sync-revision": Effect("abc", "init:@/env/GIT_SYNC_REV/value", "abc", GIT),
    "--sync-depth": Effect("1", "init:@/env/GIT_SYNC_DEPTH/value", "1", GIT),
    "--sync-submodules": Effect("off", "init:@/env/GIT_SYNC_SUBMODULES/value", "off", GIT),
    "--sync-secret": Effect("s", "pod:@/volumes/code-secret/secret", SECRET, GIT),
    "--tensorboard": Effect("", "Deployment/metadata/name", "j-tensorboard"),
    "--tensorboard-image": Effect(
        "tb:1", "Deployment/spec/template/spec/containers/tensorboard/image", "tb:1", BOARD
    ),
    "--logdir": Effect("/l", "main:@/volumeMounts/training-logs-volume/mountPath", "/l", BOARD),
    "--clean-task-policy": Effect("None", "job/spec/runPolicy/cleanPodPolicy", "None"),
    "--running-timeout": Effect("1h30m", "job/spec/runPolicy/activeDeadlineSeconds", 5400),
    "--ttl-after-finished": Effect("90s", "job/spec/runPolicy/ttlSecondsAfterFinished", 90),
    "--cpu": Effect("2", "main:@/resources/requests/cpu", "2"),
    "--memory": Effect("1Gi", f"main:@/{RESOURCES}/memory", "1Gi"),
}

ALL_ROLES = ("--ps=1", "--chief", "--evaluator")
ROLES = {"worker": "Worker", "ps": "PS", "chief": "Chief", "evaluator": "Evaluator"}
NEAR = "affinity/podAffinity/preferredDuringSchedulingIgnoredDuringExecution"
FAR = "affinity/podAntiAffinity/preferredDuringSchedulingIgnoredDuringExecution"
MUST = "affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution"


def term(**labels: str) -> dict[str, Any]:
    chosen = {f"training.kubeflow.org/{key.replace('_', '-')}": v for key, v in labels.items()}
    return {"labelSelector": {"matchLabels": chosen}, "topologyKey": "kubernetes.io/hostname"}


TENSORFLOW: dict[str, Effect] = {
    "--worker-image": Effect("w:1", "main:Worker/image", "w:1"),
    "--ps-image": Effect("p:1", "main:PS/image", "p:1", ALL_ROLES),
    "--ps": Effect("2", "PS/replicas", 2),
    "--ps-gpus": Effect("1", f"main:PS/{RESOURCES}/nvidia.com~gpu", "1", ALL_ROLES),
    "--chief": Effect("", "Chief/replicas", 1),
    "--evaluator": Effect("", "Evaluator/replicas", 1),
    **{
        f"--{role}-port": Effect(
            "1234", f"main:{name}/ports/tfjob-port/containerPort", 1234, ALL_ROLES
        )
        for role, name in ROLES.items()
        if role != "evaluator"
    },
    **{
        f"--{role}-{what}": Effect("2M", f"main:{name}/resources/requests/{what}", "2M", ALL_ROLES)
        for role, name in ROLES.items()
        for what in ("cpu", "memory")
    },
    **{
        f"--{role}-{what}-limit": Effect("2M", f"main:{name}/{RESOURCES}/{what}", "2M", ALL_ROLES)
        for role, name in ROLES.items()
        for what in ("cpu", "memory")
    },
    **{
        f"--{role}-selector": Effect(
            "k=v", f"pod:{name}/nodeSelector", {"k": "v"}, (*ALL_ROLES, "--selector=a=b")
        )
        for role, name in ROLES.items()
    },
    "--worker-affinity-policy": Effect(
        "spread",
        f"pod:Worker/{FAR}",
        [{"weight": 100, "podAffinityTerm": term(job_name="j", replica_type="worker")}],
    ),
    "--worker-affinity-constraint": Effect(
        "required",
        f"pod:Worker/{MUST}",
        [term(job_name="j", replica_type="worker")],
        ("--worker-affinity-policy=spread",),
    ),
    "--ps-affinity-policy": Effect(
        "binpack",
        f"pod:PS/{NEAR}",
        [
            {"weight": 100, "podAffinityTerm": term(job_name="j")},
            {"weight": 60, "podAffinityTerm": term(job_name="j", replica_type="ps")},
        ],
        ALL_ROLES,
    ),
    "--ps-affinity-constraint": Effect(
        "required",
        f"pod:PS/{MUST}",
        [term(job_name="j", replica_type="ps")],
        (*ALL_ROLES, "--ps-affinity-policy=spread"),
    ),
    "--success-policy": Effect("AllWorkers", "job/spec/successPolicy", "AllWorkers"),
    "--starting-timeout": Effect(
        "5m", "job/metadata/annotations/muster.dev~starting-deadline-seconds", "300"
    ),
    "--role-sequence": Effect(
        "p,Worker", "job/metadata/annotations/job-role-sequence", "PS,Worker"
    ),
}

OWN: dict[str, dict[str, Effect]] = {
    "tfjob": TENSORFLOW,
    "mpijob": {
        "--gputopology": Effect("", f"main:@/{RESOURCES}/aliyun.com~gpu", "2", ("--gpus=2",)),
        "--mounts-on-launcher": Effect(
            "", "main:Launcher/volumeMounts/c/mountPath", "/d", ("--data=c:/d",)
        ),
    },
    "pytorchjob": {
        "--nproc-per-node": Effect("2", "main:Master/env/PET_NPROC_PER_NODE/value", "2"),
    },
    "jaxjob": {},
}
TOGETHER = ("--model-name", "--sync-mode", "--sync-source")
"""Flags that need another flag."""
RUNS = {**BARE, "mpijob": "Launcher"}

CASES = [
    pytest.param(type_, row, spelling, id=f"{type_} {spelling}")
    for type_ in OWN
    for row in flags_of(BY_TYPE[type_])
    for spelling in (row.spelling, row.old, row.short)
    if spelling
]


@pytest.mark.parametrize("type_", OWN)
def test_the_tables_of_this_test_have_every_flag_and_no_other(type_: str) -> None:
    listed = [*SHARED, *OWN[type_]]

    assert sorted(listed) == sorted(row.spelling for row in flags_of(BY_TYPE[type_]))


@pytest.mark.parametrize(("type_", "row", "spelling"), CASES)
def test_a_flag_has_its_effect(machine: Machine, type_: str, row: Flag, spelling: str) -> None:
    effect = {**SHARED, **OWN[type_]}[row.spelling]
    path = effect.path.replace("@", BARE[type_]).replace("*", RUNS[type_])
    base = ("--name=j", "--image=i:1", "--workers=2")
    more = () if row.spelling in TOGETHER else effect.more

    assert machine.dry(type_, *base, *more, "python t.py").at(path) != effect.expected
    if effect.value:
        ways: list[tuple[str, ...]] = [(spelling, effect.value), (f"{spelling}={effect.value}",)]
    else:
        ways = [(spelling,), (f"{spelling}=true",)]
    for way in ways:
        built = machine.dry(type_, *base, *effect.more, *way, "python t.py")
        assert built.at(path) == effect.expected, way


@pytest.mark.parametrize("type_", BY_TYPE)
def test_the_help_shows_the_flags_in_groups_and_the_most_used_first(
    machine: Machine, type_: str
) -> None:
    _, shown, _ = machine.run("submit", type_, "--help")

    headings = [line for line in shown.splitlines() if line.endswith(":") and line[0] != " "]
    assert headings[:2] == ["Main flags:", "Output and waiting:"]
    assert {"Files and data:", "Code sync:", "TensorBoard:", "Cluster:"} <= set(headings)
    first = shown.partition("Main flags:\n")[2].partition("\n\n")[0].splitlines()
    assert len(first) <= 10
    assert first[0].startswith("  --name")
    assert any("--gang" in line for line in first)


@pytest.mark.parametrize(
    "row", [row for row in flags_of(TensorFlow) if row.old], ids=lambda row: row.old
)
def test_an_old_spelling_works_and_says_what_to_write(machine: Machine, row: Flag) -> None:
    effect = {**SHARED, **TENSORFLOW}[row.spelling]
    words = ("--name=j", "--image=i", *ALL_ROLES, *(GIT if "sync" in row.spelling else ()))
    code, _, err = machine.run(
        "submit", "tf", *words, f"{row.old}={effect.value}", "--dry-run", "true"
    )

    assert code == 0
    assert f"Flag {row.old} has been deprecated, please use {row.spelling} instead" in err
    _, shown, _ = machine.run("submit", "tf", "--help")
    assert row.old not in shown


REPEATED = {
    "--device": ("a.b/c=1", "d.e/f=2"),
    "--env": ("A=1,2", "B=3"),
    "--env-from": ("secret/a", "configmap/b"),
    "--data": ("a:/a", "b:/b"),
    "--data-dir": ("/usr", "/etc:/c"),
    "--annotation": ("a=1,b=2", "c=3"),
    "--label": ("a=1", "c=3"),
    "--toleration": ("all", "k=v:NoSchedule,Exists"),
    "--selector": ("a=1", "b=2"),
    "--image-pull-secret": ("a", "b"),
    "--config-file": ("app.conf:/a/x", "app.conf:/b/x"),
}


@pytest.mark.parametrize("flag", REPEATED)
def test_a_repeatable_flag_adds_and_is_never_split_at_commas(machine: Machine, flag: str) -> None:
    base = ("tf", "--name=j", "--image=i", "--workers=2")
    one, other = REPEATED[flag]
    alone = [machine.dry(*base, f"{flag}={value}", "x") for value in (one, other)]
    both = machine.dry(*base, f"{flag}={one}", f"{flag}={other}", "x")

    assert len({str(built.objects) for built in (*alone, both)}) == 3
    if flag == "--env":
        assert both.at("main:Worker/env/A/value") == "1,2"
        assert both.at("main:Worker/env/B/value") == "3"
    if flag == "--annotation":
        assert both.at("job/metadata/annotations/a") == "1,b=2"
        assert both.at("job/metadata/annotations/c") == "3"


def test_the_last_of_a_single_flag_written_twice_counts_in_any_spelling(
    machine: Machine,
) -> None:
    built = machine.dry(
        "tf", "--name=j", "--workers=2", "--workerImage=a", "--worker-image=b", "--gpus=1",
        "--gpus=4", "x",
    )  # fmt: skip

    assert built.at("main:Worker/image") == "b"
    assert built.at("main:Worker/resources/limits/nvidia.com~gpu") == "4"


def test_flags_may_stand_after_the_command_and_words_after_two_dashes_are_the_command(
    machine: Machine,
) -> None:
    built = machine.dry("pytorch", "--name=j", "python t.py", "--image=i")
    assert built.at("main:Master/command") == ["sh", "-c", "exec python t.py"]

    code, out, _ = machine.run(
        "submit", "pytorch", "--name=j", "--image=i", "--dry-run", "--", "torchrun", "--gang", "t"
    )
    assert code == 0
    assert "torchrun --gang t" in out
