"""One scheduler holds the leases of its names; holders that died are known."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kubekit.client.auth.kube_config import load
from kubekit.client.client import Client
from kubekit.objects.kinds import LEASES
from muster.contract.scheduler_rights import name_lease
from muster.scheduler.name_leases import claim_names, has_died, holder_identity
from tests.local_server import LocalServer


def test_only_a_process_of_this_machine_is_known_to_have_died() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()

    assert has_died(holder_identity(child.pid))
    assert has_died(holder_identity(os.getpid()))
    assert not has_died(holder_identity(os.getppid()))
    assert not has_died("another-host/1")
    assert not has_died("elected")


@pytest.mark.slow
@pytest.mark.parametrize("given_up", [False, True])
async def test_of_two_schedulers_that_start_at_the_same_moment_one_gets_the_names(
    tmp_path: Path, given_up: bool
) -> None:
    names = ("muster", "kube-batch")
    with LocalServer(tmp_path) as server:
        async with Client.connect(load(server.kubeconfig)) as client:
            if given_up:
                for name in names:
                    metadata = {"name": name_lease(name), "namespace": "kube-system"}
                    await client.create(LEASES, {"metadata": metadata, "spec": {}})
            found = await asyncio.gather(
                claim_names(client, names, "kube-system", "host-a/1"),
                claim_names(client, names, "kube-system", "host-b/1"),
            )
            leases = (await client.list(LEASES, "kube-system")).items

    (others,) = [others for others in found if others]
    (winner,) = {lease.spec.holder_identity for lease in leases}
    assert {other.holder for other in others} == {winner}
