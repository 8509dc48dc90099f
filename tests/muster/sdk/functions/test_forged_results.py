"""Somebody who may write Secrets in the namespace cannot run code in the caller's program."""

from __future__ import annotations

import base64
import os
import pickle
import time
from pathlib import Path
from typing import Any

import pytest

import muster
from kubekit.client.auth import kube_config
from kubekit.client.blocking_client import BlockingClient
from kubekit.objects.kinds import SECRETS
from kubekit.objects.meta import Key
from muster.sdk.functions.standalone.sealed_record import make_record, seal

pytestmark = pytest.mark.slow


class Attack:
    """A pickle that leaves a file where it is loaded."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> Any:
        return Path.touch, (self.file,)


class Attacker:
    """The holder of a token that may read and write the Secret of a result."""

    def __init__(self, cluster: muster.LocalCluster, namespace: str) -> None:
        self._endpoint, self._namespace = kube_config.load(cluster.kubeconfig), namespace

    def read(self, job: muster.Job) -> dict[str, str]:
        with BlockingClient(self._endpoint) as client:
            return client.get(SECRETS, Key(self._namespace, f"{job.name}-result")).data

    def write(self, job: muster.Job, data: dict[str, str]) -> None:
        with BlockingClient(self._endpoint) as client:
            client.patch(SECRETS, Key(self._namespace, f"{job.name}-result"), {"data": data})


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


@pytest.fixture
def attacker(cluster: muster.LocalCluster, namespace: str) -> Attacker:
    return Attacker(cluster, namespace)


@pytest.fixture
def job(cluster: muster.LocalCluster, namespace: str) -> muster.Job:
    job = cluster.run(len, ("abc",), kind="jax", name="victim", namespace=namespace)
    assert job.result(timeout="2m") == 3
    return job


@pytest.mark.parametrize("key", [b"", b"a guess"], ids=["no key", "another key"])
@pytest.mark.parametrize("outcome", ["returned", "raised"])
def test_a_forged_result_is_refused_and_never_loaded(
    job: muster.Job, attacker: Attacker, tmp_path: Path, key: bytes, outcome: str
) -> None:
    trap = tmp_path / "trapped"
    header = {
        "job": job.uid, "outcome": outcome, "type": "x", "text": "x", "traceback": "x",
    }  # fmt: skip
    content = make_record(header, pickle.dumps(Attack(trap)))
    code = seal(key, job.uid, content) if key else ""
    attacker.write(job, {"result": encoded(content), "code": encoded(code.encode())})

    with pytest.raises(muster.UntrustedResult, match="was not loaded"):
        job.result()

    assert not trap.exists()
    pickle.loads(pickle.dumps(Attack(trap)))  # the trap works
    assert trap.exists()


def test_a_changed_byte_is_noticed(job: muster.Job, attacker: Attacker) -> None:
    content = base64.b64decode(attacker.read(job)["result"])
    attacker.write(job, {"result": encoded(content[:-1] + bytes([content[-1] ^ 1]))})

    with pytest.raises(muster.UntrustedResult):
        job.result()


def test_a_result_of_an_earlier_job_of_the_same_name_is_refused(
    cluster: muster.LocalCluster, namespace: str, job: muster.Job, attacker: Attacker
) -> None:
    old = attacker.read(job)
    job.delete()
    job.wait(until="deleted", timeout="1m")
    again = cluster.run(len, ("abcd",), kind="jax", name="victim", namespace=namespace)
    assert again.result(timeout="2m") == 4

    attacker.write(again, old)

    with pytest.raises(muster.UntrustedResult):
        again.result()


def test_the_key_in_the_cluster_is_never_used(
    cluster: muster.LocalCluster,
    namespace: str,
    job: muster.Job,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # As in another process of somebody else: this memory and this home have no key.
    monkeypatch.setattr("muster.sdk.functions.result_keys._of_this_process", {})
    keys = cluster.home.root / "function-keys"
    assert keys.stat().st_mode & 0o777 == 0o700
    assert (keys / job.uid).stat().st_mode & 0o777 == 0o600
    assert cluster.get_job("victim", namespace=namespace).result() == 3
    os.rename(keys / job.uid, tmp_path / "key")

    with pytest.raises(
        muster.ResultError, match="its key is only on the machine of the user who called"
    ):
        cluster.get_job("victim", namespace=namespace).result()


def test_another_function_in_the_secret_is_not_run(
    cluster: muster.LocalCluster, namespace: str
) -> None:
    job = cluster.run(
        time.sleep, (300,), kind="jax", name="swapped", workers=1, namespace=namespace
    )
    job.suspend()
    name = Key(namespace, "swapped-function")
    with BlockingClient(kube_config.load(cluster.kubeconfig)) as client:
        secret = client.get(SECRETS.read_as(dict), name)
        client.delete(SECRETS, name)
        secret["data"]["function.zip"] = encoded(b"other code")
        metadata = {key: secret["metadata"][key] for key in ("name", "ownerReferences")}
        client.create(SECRETS.read_as(dict), {**secret, "metadata": metadata}, namespace=namespace)
    job.resume()

    with pytest.raises(muster.JobFailed) as failed:
        job.result(timeout="2m")

    assert "is not the function that this job was submitted with" in failed.value.last_lines[-1]
