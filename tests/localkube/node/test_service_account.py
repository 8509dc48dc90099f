"""Programs in pods use the API: their token, its rights, and its renewal."""

from __future__ import annotations

import asyncio
import base64
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kubekit.objects.kinds import CONFIG_MAPS, PODS, SERVICE_ACCOUNTS, Kind
from kubekit.objects.meta import Key
from localkube.node.pod import Pod
from localkube.node.service_account import (
    TOKEN_DIRECTORY,
    Clocks,
    Renewal,
    ServiceAccountTokens,
    renew_at,
    with_token_volume,
)
from tests.localkube.node.local_node import LocalNode, Raw, local_node, needs_namespaces
from tests.localkube.node.pod_builders import container, make_pod, manifest

ROLES: Kind[Raw] = Kind("rbac.authorization.k8s.io", "v1", "roles", "Role", dict)
BINDINGS: Kind[Raw] = Kind("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", dict)

CALL = """
import json, os, ssl, urllib.error, urllib.request
folder = "/var/run/secrets/kubernetes.io/serviceaccount/"
read = lambda name: open(folder + name).read()
context = ssl.create_default_context(cafile=folder + "ca.crt")
host, port = (os.environ["KUBERNETES_SERVICE_" + word] for word in ("HOST", "PORT"))
where = f"https://{host}:{port}"

def code(path, token=read("token")):
    ask = urllib.request.Request(where + path, headers={"Authorization": "Bearer " + token})
    try:
        return urllib.request.urlopen(ask, context=context).status
    except urllib.error.HTTPError as error:
        return error.code

space = "/api/v1/namespaces/" + read("namespace")
print([code(space + "/configmaps"), code(space + "/secrets"), code("/api/v1/nodes"),
       code(space + "/configmaps", "wrong")])
"""


async def allow_config_maps(local: LocalNode, account: str) -> None:
    meta = {"name": account, "namespace": "default"}
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}]
    subject = {"kind": "ServiceAccount", **meta}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": account}
    await local.client.create(SERVICE_ACCOUNTS, {"metadata": meta})
    await local.client.create(ROLES, {"metadata": meta, "rules": rules})
    await local.client.create(BINDINGS, {"metadata": meta, "subjects": [subject], "roleRef": role})


@pytest.mark.slow
@needs_namespaces
@pytest.mark.parametrize("on_host", [False, True])
async def test_a_pods_token_has_exactly_the_rights_of_its_roles(
    local: LocalNode, on_host: bool
) -> None:
    await allow_config_maps(local, "trainer")
    await local.run(
        manifest(
            "p",
            container("main", "python", "-c", CALL),
            serviceAccountName="trainer",
            hostNetwork=on_host,
        ),
        manifest("plain", container("main", "python", "-c", CALL)),
    )

    assert (await local.ended("p"))["exitCode"] == 0, await local.log("p")
    assert await local.log("p") == "[200, 403, 403, 401]\n"
    await local.ended("plain")
    assert await local.log("plain") == "[403, 403, 403, 401]\n"


@pytest.mark.slow
@needs_namespaces
async def test_a_pod_without_automount_has_only_its_projected_tokens(
    local: LocalNode,
) -> None:
    sources = [
        {"serviceAccountToken": {"path": "deep/vault", "audience": "vault"}},
        {"downwardAPI": {"items": [{"path": "who", "fieldRef": {"fieldPath": "metadata.name"}}]}},
        {"configMap": {"name": "conf"}},
    ]
    meta = {"name": "conf", "namespace": "default"}
    await local.client.create(CONFIG_MAPS, {"metadata": meta, "data": {"rate": "0.5"}})
    script = f"ls {TOKEN_DIRECTORY} 2>/dev/null; cat /v/who /v/rate; cut -d. -f2 < /v/deep/vault"
    await local.run(
        manifest(
            "p",
            container("main", "sh", "-c", script, volumeMounts=[{"name": "v", "mountPath": "/v"}]),
            automountServiceAccountToken=False,
            volumes=[{"name": "v", "projected": {"sources": sources}}],
        )
    )

    assert (await local.ended("p"))["exitCode"] == 0
    text = await local.log("p")
    assert text.startswith("p0.5")
    claims = json.loads(_decoded(text.removeprefix("p0.5")))
    assert claims["aud"] == ["vault"]
    assert claims["kubernetes.io"]["pod"]["name"] == "p"


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text.strip() + "===")


@pytest.mark.slow
@needs_namespaces
async def test_a_token_that_is_due_is_replaced_in_the_running_pod(tmp_path: Path) -> None:
    later = timedelta()
    same = f'[ "$t" = "$(cat {TOKEN_DIRECTORY}/token)" ]'
    watch = f"t=$(cat {TOKEN_DIRECTORY}/token); echo up; while {same}; do sleep 0.02; done"
    async with local_node(tmp_path, clock=lambda: datetime.now(UTC) + later) as local:
        await local.run(manifest("p", container("main", "sh", "-c", watch)))
        await local.says("p", "up")

        later = timedelta(minutes=49)
        label = {"metadata": {"labels": {"look": "again"}}}
        await local.client.patch(PODS, Key("default", "p"), label)

        assert (await local.ended("p"))["exitCode"] == 0


@pytest.mark.slow
@needs_namespaces
async def test_a_pod_waits_for_its_service_account_with_a_reason(local: LocalNode) -> None:
    meta = {"name": "late", "namespace": "default"}
    await local.client.create(SERVICE_ACCOUNTS, {"metadata": meta})
    pod = manifest("p", serviceAccountName="late")
    node = pod["spec"].pop("nodeName")
    created = await local.client.create(PODS, pod)
    await local.client.delete(SERVICE_ACCOUNTS, Key("default", "late"))
    await local.client.bind(Key("default", "p"), uid=created.metadata.uid, node=node)
    waiting = await local.until("p", lambda p: p["status"].get("containerStatuses"))
    state = waiting["status"]["containerStatuses"][0]["state"]["waiting"]
    assert state["message"] == 'serviceaccount "late" not found'

    await local.client.create(SERVICE_ACCOUNTS, {"metadata": meta})

    assert (await local.ended("p"))["exitCode"] == 0


def test_a_token_is_renewed_after_four_fifths_of_its_lifetime_or_a_day() -> None:
    issued = datetime(2026, 1, 1, tzinfo=UTC)

    assert renew_at(issued, issued + timedelta(hours=1)) == issued + timedelta(minutes=48)
    assert renew_at(issued, issued + timedelta(days=365)) == issued + timedelta(days=1)


def test_automount_of_the_pod_overrides_that_of_its_service_account() -> None:
    unset = make_pod()
    enabled = make_pod(automountServiceAccountToken=True)
    disabled = make_pod(automountServiceAccountToken=False)

    def mounts_token(pod: Pod, account: Raw) -> bool:
        return bool(with_token_volume(pod, account).spec.containers[0].volume_mounts)

    pods = (unset, enabled, disabled)
    against = {"automountServiceAccountToken": False}
    assert [mounts_token(pod, {}) for pod in pods] == [True, True, False]
    assert [mounts_token(pod, against) for pod in pods] == [False, True, False]


def test_a_container_keeps_its_own_mount_at_the_token_directory() -> None:
    own_mount = {"name": "v", "mountPath": TOKEN_DIRECTORY}
    mounting = container("a", volumeMounts=[own_mount])

    first, second = with_token_volume(make_pod("p", mounting, container("b")), {}).spec.containers

    assert [m.name for m in first.volume_mounts] == ["v"]
    assert [m.mount_path for m in second.volume_mounts] == [TOKEN_DIRECTORY]
    assert with_token_volume(make_pod("p", mounting), {}).spec.volumes == ()


ISSUED = Clocks(datetime(2026, 11, 17, 12, tzinfo=UTC), 1000.0)
RENEWAL = Renewal(ISSUED.wall + timedelta(minutes=48), ISSUED)


@pytest.mark.parametrize(
    ("wall", "monotonic", "left"),
    [
        pytest.param(600, 600, 2280, id="both clocks agree"),
        pytest.param(605, 600, 2275, id="the clock is fast"),
        pytest.param(595, 600, 2280, id="the clock is slow, monotonic time counts"),
        pytest.param(600 + 7200, 600, 0, id="the clock was set forward"),
        pytest.param(600 - 7200, 600, 0, id="the clock was set back"),
        pytest.param(2880, 2880, 0, id="it is due"),
    ],
)
def test_a_token_is_due_by_either_clock_and_when_they_part(
    wall: float, monotonic: float, left: float
) -> None:
    now = Clocks(ISSUED.wall + timedelta(seconds=wall), ISSUED.monotonic + monotonic)

    assert RENEWAL.left(now) == pytest.approx(left)


@pytest.mark.looptime
async def test_pods_are_woken_when_the_clock_is_set_and_a_refusal_counts_once(
    tmp_path: Path,
) -> None:
    (tmp_path / "uid").mkdir()
    saved = {"token": (ISSUED.wall + timedelta(minutes=48)).isoformat()}
    (tmp_path / "uid" / "tokens").write_text(json.dumps(saved))
    loop, ahead, woken = asyncio.get_running_loop(), 0.0, list[str]()
    start = loop.time()

    def clock() -> datetime:
        return ISSUED.wall + timedelta(seconds=loop.time() - start + ahead)

    tokens = ServiceAccountTokens(None, tmp_path, clock, loop.time)  # type: ignore[arg-type]
    assert tokens.due_in("uid") == pytest.approx(48 * 60)
    assert not tokens.refused("uid"), "it was just written"
    async with asyncio.TaskGroup() as group:
        task = group.create_task(tokens.watch_clock(woken.append))
        await asyncio.sleep(60)
        assert woken == []
        ahead = -7200.0
        await asyncio.sleep(60)
        task.cancel()

    assert woken == ["uid"]
    assert tokens.due_in("uid") == 0
    ahead = 0.0
    assert tokens.due_in("uid") == pytest.approx(46 * 60)
    assert tokens.refused("uid")
    assert (tokens.due_in("uid") or 0) <= 0
