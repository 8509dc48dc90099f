"""Real pods: processes in namespaces, their files, logs and exit codes."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
import time
from datetime import datetime
from pathlib import Path

import pytest

from kubekit.objects.conditions import FILES_DISCARDED
from kubekit.objects.kinds import CONFIG_MAPS, EVENTS, NODES, PODS, SECRETS
from kubekit.objects.meta import MAX_SECONDS, Key, condition_is_true
from localkube.node import pod_loop
from localkube.node.pod import Pod
from localkube.node.pod_decision import Decision, decide
from localkube.node.runtime.pod_records import PodRecord
from localkube.node_interface import ExecOptions
from tests.localkube.node import leftovers
from tests.localkube.node.exec_client import ExecClient
from tests.localkube.node.local_node import RAW_PODS, LocalNode, Raw, needs_namespaces, wait_for
from tests.localkube.node.pod_builders import container, manifest, shell
from tests.waiting import eventually, until

pytestmark = [pytest.mark.slow, needs_namespaces]

HOME = Path.home()
PLACES = [Path("/"), Path("/tmp"), HOME, HOME / ".cache", Path("/run"), Path("/usr")]


async def test_pods_that_exit_do_not_affect_other_pods(local: LocalNode) -> None:
    """Forty at once: some exit while others start, and the kernel reuses namespace numbers."""
    names = [f"p{number}" for number in range(40)]
    await local.run(*(shell(name, f"echo {name}") for name in names))

    ends = {name: (await local.ended(name))["exitCode"] for name in names}

    assert {name: code for name, code in ends.items() if code} == {}
    assert await local.log("p39") == "p39\n"


async def test_files_that_a_pod_writes_stay_in_the_pod(local: LocalNode) -> None:
    script = """
        touch /made-by-pod /tmp/made-by-pod ~/made-by-pod ~/.cache/made-by-pod /run/made-by-pod &&
        echo loss > /training_logs/loss && ls / && touch /usr/made-by-pod
    """
    mounts = [{"name": "logs", "mountPath": "/training_logs"}]
    pod = manifest(
        "writer",
        container("main", "sh", "-c", script, volumeMounts=mounts),
        volumes=[{"name": "logs", "emptyDir": {}}],
    )
    await local.run(pod)

    assert (await local.ended("writer"))["exitCode"] == 1
    text = await local.log("writer")
    assert "training_logs" in text
    assert "Read-only file system" in text
    assert [place for place in PLACES if (place / "made-by-pod").exists()] == []
    assert "training_logs" not in os.listdir("/")


async def test_the_clusters_own_state_is_hidden(local: LocalNode) -> None:
    await local.run(shell("spy", f"ls -A {local.home} ~/.kube ~/.muster 2>/dev/null; true"))

    await local.ended("spy")
    assert [line for line in (await local.log("spy")).split() if "/" not in line] == []


@pytest.mark.parametrize(
    ("script", "code", "number"), [("exit 3", 3, None), ("kill -9 $$$$", 137, 9), ("true", 0, None)]
)
async def test_exit_codes_and_signals_are_reported(
    local: LocalNode, script: str, code: int, number: int | None
) -> None:
    await local.run(shell("p", script))

    ended = await local.ended("p")
    assert (ended["exitCode"], ended.get("signal")) == (code, number)
    assert (await local.pod("p"))["status"]["phase"] == ("Failed" if code else "Succeeded")


async def test_a_program_that_cannot_run_has_a_reason(local: LocalNode) -> None:
    await local.run(manifest("p", container("main", "no-such-program")))

    ended = await local.ended("p")
    assert (ended["exitCode"], ended["reason"]) == (128, "StartError")
    assert "no-such-program" in ended["message"]


async def test_init_containers_share_volumes_with_the_main_container(local: LocalNode) -> None:
    mounts = [{"name": "v", "mountPath": "/data/deep"}]
    pod = manifest(
        "p",
        container("main", "cat", "/data/deep/x", volumeMounts=mounts),
        initContainers=[
            container("one", "sh", "-c", "echo first > /data/deep/x", volumeMounts=mounts),
            container("two", "sh", "-c", "echo second >> /data/deep/x", volumeMounts=mounts),
        ],
        volumes=[{"name": "v", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}],
    )
    await local.run(pod)

    assert (await local.ended("p"))["exitCode"] == 0
    assert await local.log("p") == "first\nsecond\n"


async def test_config_maps_secrets_and_pod_fields_appear_as_files_and_variables(
    local: LocalNode,
) -> None:
    meta = {"name": "conf", "namespace": "default"}
    await local.client.create(CONFIG_MAPS, {"metadata": meta, "data": {"rate": "0.5"}})
    secret = {"token": base64.b64encode(b"hush").decode()}
    await local.client.create(SECRETS, {"metadata": meta, "data": secret})
    volumes: dict[str, Raw] = {
        "c": {"configMap": {"name": "conf", "items": [{"key": "rate", "path": "a/rate"}]}},
        "s": {"secret": {"secretName": "conf", "defaultMode": 0o400}},
        "d": {
            "downwardAPI": {
                "items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]
            }
        },
    }
    script = "cat /c/a/rate /s/token /d/labels; stat -L -c %a /s/token; echo $RATE $IP"
    ref = {"configMapKeyRef": {"name": "conf", "key": "rate"}}
    pod = manifest(
        "p",
        container(
            "main",
            "sh",
            "-c",
            script,
            env=[
                {"name": "RATE", "valueFrom": ref},
                {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            ],
            volumeMounts=[{"name": name, "mountPath": f"/{name}"} for name in volumes],
        ),
        volumes=[{"name": name, **source} for name, source in volumes.items()],
    )
    await local.run(pod)

    assert (await local.ended("p"))["exitCode"] == 0
    address = (await local.pod("p"))["status"]["podIP"]
    assert await local.log("p") == f'0.5hushapp="p"400\n0.5 {address}\n'


async def test_a_pod_waits_for_a_config_map_with_a_reason(local: LocalNode) -> None:
    ref = {"configMapKeyRef": {"name": "later", "key": "k"}}
    await local.run(manifest("p", container("main", "true", env=[{"name": "K", "valueFrom": ref}])))
    pod = await local.until("p", lambda p: p["status"].get("containerStatuses"))
    waiting = pod["status"]["containerStatuses"][0]["state"]["waiting"]
    assert waiting == {
        "reason": "CreateContainerConfigError",
        "message": 'configmap "later" not found',
    }

    meta = {"name": "later", "namespace": "default"}
    await local.client.create(CONFIG_MAPS, {"metadata": meta, "data": {"k": "v"}})

    assert (await local.ended("p"))["exitCode"] == 0


async def test_logs_can_be_followed_limited_and_timestamped(local: LocalNode) -> None:
    await local.run(
        shell("p", "printf 'a\\nb\\n'; printf half; sleep 0.3; echo ' line'; echo err >&2")
    )
    await local.phase("p", "Running", "Succeeded")

    followed = await local.log("p", follow=True)

    assert followed == "a\nb\nhalf line\nerr\n"
    assert await local.log("p", tail=2) == "half line\nerr\n"
    assert await local.log("p", tail=0) == ""
    stamped = (await local.log("p", timestamps=True)).splitlines()
    assert [line.split(" ", 1)[1] for line in stamped] == ["a", "b", "half line", "err"]


async def test_a_failed_container_restarts_and_its_previous_log_is_kept(local: LocalNode) -> None:
    script = "test -e /keep/x && exit 0; touch /keep/x; echo first try; exit 5"
    mounts = [{"name": "keep", "mountPath": "/keep"}]
    pod = manifest(
        "p",
        container("main", "sh", "-c", script, volumeMounts=mounts),
        restartPolicy="OnFailure",
        volumes=[{"name": "keep", "emptyDir": {}}],
    )
    await local.run(pod)

    assert (await local.ended("p"))["exitCode"] == 0
    status = (await local.pod("p"))["status"]["containerStatuses"][0]
    assert status["restartCount"] == 1
    assert status["lastState"]["terminated"]["exitCode"] == 5
    assert await local.log("p", previous=True) == "first try\n"


async def test_deletion_sends_sigterm_before_sigkill(local: LocalNode) -> None:
    polite = "trap 'exit 0' TERM; echo ready; while :; do sleep 0.05; done"
    deaf = "trap 'echo asked' TERM; echo ready; while :; do sleep 0.05; done"
    await local.run(shell("polite", polite), shell("deaf", deaf))
    for name in ("polite", "deaf"):
        await local.says(name, "ready")

    await local.client.delete(PODS, Key("default", "polite"), grace=MAX_SECONDS)
    await local.gone("polite")

    await local.client.delete(PODS, Key("default", "deaf"), grace=MAX_SECONDS)
    await local.says("deaf", "asked")
    started = time.monotonic()
    await local.client.delete(PODS, Key("default", "deaf"), grace=1)
    await local.gone("deaf")
    assert time.monotonic() - started > 0.9


async def test_programs_of_a_shell_get_sigterm_and_the_grace_period(local: LocalNode) -> None:
    worker = "trap 'echo worker ends; exit 0' TERM; echo ready; while :; do sleep 0.05; done"
    handler = "trap 'sleep 0.2; echo saved; exit 0' TERM; while :; do sleep 0.05; done"
    handler = f"({worker}) & {handler}"
    deaf = "trap '' TERM; echo ready; while :; do sleep 0.05; done"
    await local.run(shell("handles", f"({handler}); true"), shell("deaf", f"({deaf}); true"))
    for name in ("handles", "deaf"):
        await local.says(name, "ready")
    log = asyncio.create_task(local.log("handles", follow=True))
    # An attached shell does not count: it ignores SIGTERM.
    pod, options = await local.pod("handles"), ExecOptions("main", ("sh", "-c", deaf))
    client = ExecClient(b"")
    attached = asyncio.create_task(local.backend.exec(pod, options, client))
    await eventually(lambda: client.out == b"ready\n", what="the attached shell")

    started = time.monotonic()
    await local.client.delete(PODS, Key("default", "handles"), grace=MAX_SECONDS)
    await local.client.delete(PODS, Key("default", "deaf"), grace=1)
    await local.gone("handles")
    await local.gone("deaf")

    assert time.monotonic() - started > 0.9
    assert (await log).splitlines() == ["ready", "saved", "worker ends"]
    assert await attached == 137


async def test_background_children_end_with_their_container(local: LocalNode) -> None:
    await local.run(shell("p", "setsid sleep 4321 & exit 0"))

    assert (await local.ended("p"))["exitCode"] == 0

    def ended() -> bool:
        return not [c for c in leftovers.of(local.home).processes.values() if "4321" in c]

    await eventually(ended, what="the end of the child")


async def test_an_images_directory_covers_the_host_files(local: LocalNode) -> None:
    layer = local.home / "images" / "tf:1"
    (layer / "opt" / "from-image").mkdir(parents=True)
    (layer / "opt" / "from-image" / "run.sh").write_text("echo from the image")
    await local.run(shell("p", "sh /opt/from-image/run.sh; ls /opt | wc -l"))

    assert (await local.ended("p"))["exitCode"] == 0
    assert await local.log("p") == f"from the image\n{len(os.listdir('/opt')) + 1}\n"


async def test_a_pod_ends_when_its_first_process_is_killed(local: LocalNode) -> None:
    await local.run(shell("p", "sleep 1000"))
    pod = await local.phase("p", "Running")
    record = json.loads((local.home / "pods" / pod["metadata"]["uid"] / "pod").read_text())

    os.kill(record["pause"], signal.SIGKILL)

    assert (await local.ended("p"))["exitCode"] == 137
    assert pod["status"]["phase"] == "Running"


async def test_a_killed_shim_ends_its_container_and_the_status_says_so(
    local: LocalNode,
) -> None:
    await local.run(shell("p", "sleep 1000"))
    await local.phase("p", "Running")
    processes = leftovers.of(local.home).processes
    shim = next(pid for pid, line in processes.items() if "import shim" in line)

    os.kill(shim, signal.SIGKILL)

    ended = await local.ended("p")
    assert (ended["exitCode"], ended["reason"]) == (137, "ContainerStatusUnknown")


async def test_nodes_are_registered_as_ready_with_the_declared_gpus(local: LocalNode) -> None:
    async def both() -> bool:
        nodes = (await local.client.list(NODES)).items
        ready = [n for n in nodes if condition_is_true(n.status.conditions, "Ready")]
        gpus = {n.metadata.name: n.status.allocatable.get("nvidia.com/gpu") for n in ready}
        return gpus == {"muster-0": "1", "muster-1": "1"}

    await wait_for(both, "both nodes ready")


async def test_the_missing_image_is_reported_once_per_owner(
    local: LocalNode,
) -> None:
    owner = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "name": "j",
        "uid": "u-1",
        "controller": True,
    }
    pods = [shell(f"p{i}", "true") for i in range(2)]
    for pod in pods:
        pod["metadata"] |= {"ownerReferences": [owner]}
    await local.run(*pods)
    for i in range(2):
        await local.ended(f"p{i}")

    async def events() -> list[str]:
        reasons = [e.reason for e in (await local.client.list(EVENTS, "default")).items]
        return reasons if reasons.count("Started") == 2 else []

    assert (await wait_for(events)).count("ImageNotPulled") == 1


async def test_closing_a_pod_that_failed_halfway_is_tried_again(
    local: LocalNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert local.agent is not None
    runtime = local.agent.runtime
    close, closed = runtime.close, asyncio.Event()

    async def close_halfway_once(uid: str) -> None:
        await close(uid)
        if not closed.is_set():
            closed.set()
            raise OSError(16, "Device or resource busy")

    monkeypatch.setattr(runtime, "close", close_halfway_once)
    await local.run(shell("writer", "echo x > $HOME/model"))

    pod = await local.until(
        "writer",
        lambda p: any(
            condition["type"] == FILES_DISCARDED
            for condition in p.get("status", {}).get("conditions", [])
        ),
        "the condition about discarded files",
    )

    assert closed.is_set()
    assert pod["status"]["phase"] == "Succeeded"


async def test_a_pod_that_ends_while_its_status_is_written_names_its_discarded_files_at_once(
    local: LocalNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever waits for the end reads the files in the same status."""
    assert local.agent is not None
    read, waited = local.agent.records.read, list[str]()

    def decide_before_it_ends(pod: Pod, record: PodRecord, now: datetime) -> Decision:
        decision = decide(pod, record, now)
        if record.alive and not decision.actions:
            waited.append(pod.metadata.name)
            until(lambda: not read(pod.metadata.uid).alive, what="it has ended")
        return decision

    monkeypatch.setattr(pod_loop, "decide", decide_before_it_ends)
    since = (await local.client.list(RAW_PODS, "default")).resource_version
    await local.run(shell("writer", "echo x > $HOME/model; sleep 3"))

    async with asyncio.timeout(60):
        async for event in local.client.watch(RAW_PODS, "default", since=since):
            if event.object.get("status", {}).get("phase") == "Succeeded":
                break

    assert waited
    assert FILES_DISCARDED in {row["type"] for row in event.object["status"]["conditions"]}


async def test_files_that_a_late_writer_leaves_are_deleted_later(
    local: LocalNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert local.agent is not None
    records = local.agent.records
    forget, late = records.forget, asyncio.Event()

    def forget_and_write_once(uid: str) -> bool:
        forget(uid)
        if not late.is_set():
            late.set()
            (records.pod(uid) / "volumes").mkdir(parents=True)
        return not records.pod(uid).exists()

    monkeypatch.setattr(records, "forget", forget_and_write_once)
    await local.run(shell("short", "true"))
    await local.ended("short")
    await local.client.delete(PODS, Key("default", "short"))

    await eventually(lambda: late.is_set() and not records.uids(), what="the end of its files")
