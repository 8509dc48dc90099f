"""localkube runs a pod without `muster`: server, controllers and node need nothing of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.localkube.node import leftovers
from tests.localkube.node.local_node import may_make_namespaces
from tests.ordinary_user import NOBODY, run_as_nobody
from tests.prerequisites import missing_prerequisite
from tests.repository import ROOT

RUN_A_POD = """
import asyncio, sys
from pathlib import Path

class Refused:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "muster":
            raise ImportError(f"{name} is refused")
        return None

sys.meta_path.insert(0, Refused())
from kubekit.client.client import Client
from kubekit.objects.kinds import PODS, SERVICE_ACCOUNTS
from kubekit.objects.meta import Key
from localkube.cluster import Options, opened
from localkube.data_directory import claimed
from tests.waiting import eventually

KEY = Key("default", "alone")
WAIT = "while [ ! -e $WORK/go ]; do sleep 0.1; done"

async def phase(client, wanted):
    async def reached():
        return (await client.get(PODS, KEY)).status.phase == wanted
    await eventually(reached, timeout=30, what=wanted)
    print(wanted, flush=True)

async def use(cluster, work, stop):
    async with Client.connect(cluster.endpoint) as client:
        async def accounts():
            return (await client.list(SERVICE_ACCOUNTS, "default")).items
        await eventually(accounts, what="the account, which a controller makes,")
        container = {
            "name": "main",
            "image": "any",
            "command": ["sh", "-c", WAIT],
            "env": [{"name": "WORK", "value": str(work)}],
            "volumeMounts": [{"name": "work", "mountPath": str(work)}],
        }
        spec = {"nodeName": "muster-0", "restartPolicy": "Never", "containers": [container]}
        spec["volumes"] = [{"name": "work", "hostPath": {"path": str(work)}}]
        body = {"metadata": {"name": KEY.name}, "spec": spec}
        await client.create(PODS, body, namespace=KEY.namespace)
        await phase(client, "Running")
        (work / "go").touch()
        await phase(client, "Succeeded")
    stop.set()

async def main(home, runtime):
    data, work = home / "data", home / "work"
    work.mkdir()
    stop, hurry, ready = asyncio.Event(), asyncio.Event(), asyncio.Event()
    with claimed(data, home):
        async with opened(Options(data, port=0, runtime=runtime)) as cluster:
            print(cluster.agent.choice.kind, flush=True)
            async with asyncio.TaskGroup() as group:
                group.create_task(cluster.run(lambda client: {}, stop, hurry, ready=ready.set))
                await ready.wait()
                await use(cluster, work, stop)
    print("stopped", [name for name in sys.modules if name.partition(".")[0] == "muster"])

asyncio.run(asyncio.wait_for(main(Path(sys.argv[1]), sys.argv[2]), 60))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("user", "runtime"), [("ours", "namespaces"), ("nobody", "namespaces"), ("nobody", "plain")]
)
def test_a_cluster_runs_a_pod_with_muster_unimportable(user: str, runtime: str) -> None:
    if runtime == "namespaces" and not may_make_namespaces():
        missing_prerequisite("netns", "this machine forbids namespaces")
    if user == "nobody" and os.geteuid() != 0:
        missing_prerequisite("root", "only root can become nobody")
    home = Path(tempfile.mkdtemp())
    try:
        words = ["-c", RUN_A_POD, str(home), runtime]
        if user == "nobody":
            os.chown(home, NOBODY, NOBODY)
            result = run_as_nobody(str(home), *words, timeout=90)
        else:
            result = subprocess.run(
                [sys.executable, *words],
                cwd=ROOT,
                capture_output=True,
                text=True,
                timeout=90,
                check=False,
            )
        left = leftovers.of(home / "data")
    finally:
        shutil.rmtree(home, ignore_errors=True)

    kind, *lines = result.stdout.splitlines() or [""]
    assert lines == ["Running", "Succeeded", "stopped []"], result.stdout + result.stderr
    assert (kind == "plain") == (runtime == "plain")
    assert not left
