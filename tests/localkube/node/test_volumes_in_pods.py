"""Files in real pods: volumes, host name, terminal, private directories."""

from __future__ import annotations

import base64
import json
import os
import sys
import venv
from pathlib import Path

import pytest

from kubekit.objects.kinds import (
    CONFIG_MAPS,
    EVENTS,
    PERSISTENT_VOLUME_CLAIMS as CLAIMS,
    PERSISTENT_VOLUMES as VOLUMES,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
)
from kubekit.objects.meta import Key
from localkube.node.env_and_files import PodContext
from localkube.node.pod import Pod
from localkube.node.volumes import VolumeDirectories
from tests.localkube.node.local_node import LocalNode, Raw, local_node, needs_namespaces, wait_for
from tests.localkube.node.pod_builders import container, manifest

pytestmark = [pytest.mark.slow, needs_namespaces]


def shell(name: str, script: str, source: Raw | None = None, **fields: object) -> Raw:
    """A pod that runs the script, with the volume at /v if one is given."""
    mounts = [{"name": "v", "mountPath": "/v"}] if source else []
    return manifest(
        name,
        container("main", "sh", "-c", script, volumeMounts=mounts, **fields),
        volumes=[{"name": "v", **source}] if source else [],
    )


async def test_a_pod_with_an_unsupported_volume_waits_with_a_reason(local: LocalNode) -> None:
    await local.run(shell("p", "true", {"nfs": {"server": "files", "path": "/data"}}))
    pod = await local.until("p", lambda p: p["status"].get("containerStatuses"))

    message = "volume v: nfs is not supported on the local node"
    waiting = pod["status"]["containerStatuses"][0]["state"]["waiting"]
    assert waiting == {"reason": "CreateContainerConfigError", "message": message}

    async def event() -> bool:
        return any(e.message == message for e in (await local.client.list(EVENTS, "default")).items)

    await wait_for(event, "the event")


async def test_a_config_map_volume_has_all_keys_and_is_read_only(local: LocalNode) -> None:
    meta = {"name": "conf", "namespace": "default"}
    binary = {"model": base64.b64encode(b"\0\1\2").decode()}
    await local.client.create(
        CONFIG_MAPS, {"metadata": meta, "data": {"rate": "0.5"}, "binaryData": binary}
    )
    script = "od -An -tx1 /v/model; cat /v/rate; echo x > /v/rate || touch /v/more"
    await local.run(shell("p", script, {"configMap": {"name": "conf"}}))

    assert (await local.ended("p"))["exitCode"] == 1
    text = await local.log("p")
    assert text.startswith(" 00 01 02\n0.5")
    assert text.count("Read-only file system") == 2


async def test_running_pods_see_changes_of_config_maps_secrets_and_labels(local: LocalNode) -> None:
    meta = {"name": "conf", "namespace": "default"}
    await local.client.create(CONFIG_MAPS, {"metadata": meta, "data": {"rate": "0.5"}})
    await local.client.create(
        SECRETS, {"metadata": meta, "data": {"key": base64.b64encode(b"old").decode()}}
    )
    labels = {"fieldRef": {"fieldPath": "metadata.labels['stage']"}}
    sources = [
        {"configMap": {"name": "conf"}},
        {"secret": {"name": "conf"}},
        {"downwardAPI": {"items": [{"path": "stage", **labels}]}},
        {"configMap": {"name": "later", "optional": True}},
    ]
    show = "for f in rate key stage more; do cat /v/$f 2>/dev/null; echo; done"
    script = f"while :; do echo $({show}); sleep 0.05; done"
    pod = shell("p", script, {"projected": {"sources": sources}})
    pod["metadata"]["labels"] = {"stage": "first"}
    await local.run(pod)
    await local.says("p", "0.5 old first\n")

    await local.client.patch(CONFIG_MAPS, Key("default", "conf"), {"data": {"rate": "0.1"}})
    await local.says("p", "0.1 old first\n")
    new = {"data": {"key": base64.b64encode(b"new").decode()}}
    await local.client.patch(SECRETS, Key("default", "conf"), new)
    await local.says("p", "0.1 new first\n")
    changed = {"metadata": {"labels": {"stage": "second"}}}
    await local.client.patch(PODS, Key("default", "p"), changed)
    await local.says("p", "0.1 new second\n")
    later = {"metadata": meta | {"name": "later"}, "data": {"more": "words"}}
    await local.client.create(CONFIG_MAPS, later)
    await local.says("p", "0.1 new second words\n")


async def test_a_volume_is_written_again_only_when_its_objects_change(
    local: LocalNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    refreshed = []
    refresh = VolumeDirectories.refresh

    def recording(self: VolumeDirectories, pod: Pod, context: PodContext) -> None:
        refreshed.append(pod.metadata.name)
        refresh(self, pod, context)

    monkeypatch.setattr(VolumeDirectories, "refresh", recording)
    meta = {"name": "conf", "namespace": "default"}
    await local.client.create(SERVICE_ACCOUNTS, {"metadata": meta | {"name": "trainer"}})
    await local.client.create(CONFIG_MAPS, {"metadata": meta, "data": {"rate": "0.5"}})
    script = "while :; do cat /v/rate; echo; sleep 0.05; done"
    pod = shell("p", script, {"configMap": {"name": "conf"}})
    pod["spec"]["serviceAccountName"] = "trainer"
    await local.run(pod)
    await local.says("p", "0.5\n")

    await local.client.patch(CONFIG_MAPS, Key("default", "conf"), {"data": {"rate": "0.1"}})
    await local.says("p", "0.1\n")

    assert refreshed == ["p"]


async def test_a_claim_mounts_the_directory_of_its_volume(local: LocalNode, tmp_path: Path) -> None:
    """The test binds the claim, as a controller does."""
    await local.run(shell("p", "cat /v/file", {"persistentVolumeClaim": {"claimName": "data"}}))
    reason = "is not bound to a volume of this node"
    await local.until("p", lambda p: reason in json.dumps(p["status"]))

    (tmp_path / "disk").mkdir()
    (tmp_path / "disk" / "file").write_text("words")
    modes: Raw = {"accessModes": ["ReadWriteOnce"]}
    volume = modes | {"capacity": {"storage": "1Gi"}, "hostPath": {"path": f"{tmp_path}/disk"}}
    claim = modes | {"resources": {"requests": {"storage": "1Gi"}}, "volumeName": "disk"}
    await local.client.create(VOLUMES, {"metadata": {"name": "disk"}, "spec": volume})
    await local.client.create(
        CLAIMS, {"metadata": {"name": "data", "namespace": "default"}, "spec": claim}
    )

    assert (await local.ended("p"))["exitCode"] == 0
    assert await local.log("p") == "words"


async def test_a_sub_path_of_a_memory_volume_can_be_mounted(local: LocalNode) -> None:
    pod = shell("p", "echo words > /v/file; stat -f -c %T /v", {"emptyDir": {"medium": "Memory"}})
    mounts = pod["spec"]["containers"][0]["volumeMounts"]
    mounts[0]["subPath"] = "deep/part"
    mounts.append({"name": "v", "mountPath": "/whole"})
    pod["spec"]["containers"][0]["command"][-1] += "; cat /whole/deep/part/file"
    await local.run(pod)

    assert (await local.ended("p"))["exitCode"] == 0
    assert await local.log("p") == "tmpfs\nwords\n"


async def test_a_pod_resolves_its_own_host_name(local: LocalNode) -> None:
    script = "getent hosts $(hostname); hostname -f"
    for name, fields in {
        "a": {"hostname": "other"},
        "b": {"hostname": "w-0", "subdomain": "job"},
        "c" * 70: {},
    }.items():
        pod = shell(name, script.replace("$(", "$$("))
        pod["spec"] |= fields
        pod["metadata"]["labels"] = {}
        await local.run(pod)
    for name in ("a", "b", "c" * 70):
        assert (await local.ended(name))["exitCode"] == 0
        address = (await local.pod(name))["status"]["podIP"]
        assert address in await local.log(name)
    assert "w-0.job.default.svc.cluster.local\n" in await local.log("b")


async def test_the_termination_message_is_read_from_its_path(
    local: LocalNode,
) -> None:
    script = "echo reason > /tmp/words; echo logged; exit 1"
    huge = "truncate -s 1T /dev/termination-log; printf end >> /dev/termination-log"
    await local.run(
        shell("p", script, terminationMessagePath="/tmp/words"),
        shell("huge", huge),
    )

    assert (await local.ended("p"))["message"] == "reason\n"
    end = await local.ended("huge")
    assert (end["exitCode"], end["reason"]) == (0, "Completed")
    assert end["message"] == "end".rjust(4096, "\0")


async def test_the_end_of_the_log_is_the_message_of_a_program_that_fails_without_one(
    local: LocalNode,
) -> None:
    policy: Raw = {"terminationMessagePolicy": "FallbackToLogsOnError"}
    script = "seq 200; printf 'out of '; echo luck >&2; exit {}"
    await local.run(
        shell("bad", script.format(3), **policy), shell("good", script.format(0), **policy)
    )

    message = (await local.ended("bad"))["message"]
    assert message.splitlines()[0] == "122"
    assert "luck" in message
    assert len(message.splitlines()) <= 80
    assert "message" not in await local.ended("good")


async def test_a_pod_has_its_own_terminal(local: LocalNode) -> None:
    await local.run(shell("p", "tty; ls /dev/pts; test -t 0 && stty size", tty=True, stdin=True))

    assert (await local.ended("p"))["exitCode"] == 0
    assert (await local.log("p")).split() == ["/dev/pts/0", "0", "ptmx", "0", "0"]


def link_interpreters(folder: Path) -> None:
    """A virtual environment, a link to it, and a link to its base interpreter."""
    venv.create(folder / "real", with_pip=False)
    (folder / "link").symlink_to(folder / "real")
    (folder / "tool").symlink_to(os.path.realpath(sys.executable))


@pytest.mark.parametrize("name", ["link/bin/python", "tool"])
async def test_pods_can_run_an_interpreter_that_is_given_by_a_link(
    tmp_path: Path, name: str
) -> None:
    link_interpreters(tmp_path)

    async with local_node(tmp_path / "home", python=str(tmp_path / name)) as local:
        script = "import sys, json; print(sys.prefix)"
        await local.run(manifest("p", container("main", "python", "-c", script)))
        code = (await local.ended("p"))["exitCode"]
        text = await local.log("p")

    assert (text.strip(), code) == (f"{tmp_path}/link" if "link" in name else sys.base_prefix, 0)


async def test_files_in_private_directories_do_not_count_as_memory(local: LocalNode) -> None:
    await local.run(shell("p", "stat -c %d / /tmp /run /var/tmp ~ ~/.cache /dev/shm"))

    assert (await local.ended("p"))["exitCode"] == 0
    *private, shared = map(int, (await local.log("p")).split())
    assert set(private) == {os.lstat(local.home).st_dev}
    assert shared not in private
