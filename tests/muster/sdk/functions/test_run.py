"""Functions as jobs on a local cluster: values, exceptions, sizes, versions, every kind."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import muster
from kubekit.client.auth import kube_config
from kubekit.client.blocking_client import BlockingClient
from kubekit.objects.kinds import ROLE_BINDINGS, ROLES, SECRETS, SERVICE_ACCOUNTS
from muster.sdk.functions import package
from tests.muster.sdk.functions import own_module
from tests.muster.sdk.functions.own_module import Model, scale
from tests.waiting import until

pytestmark = pytest.mark.slow
MIB = 1 << 20


def run(
    cluster: muster.LocalCluster, namespace: str, function: Any, *args: Any, **more: Any
) -> Any:
    """The result of the function as a JAX job of two workers."""
    settings = {"kind": "jax", "workers": 2, "namespace": namespace, **more}
    return cluster.run(function, args, **settings).result(timeout="2m")


def test_a_function_with_a_closure_and_helpers_of_its_modules(
    cluster: muster.LocalCluster, namespace: str
) -> None:
    offset = 100

    def train(number: int, *, times: int) -> Model:
        return Model(scale(number) * times + own_module.FACTOR + offset)

    job = cluster.run(train, (3,), {"times": 2}, kind="jax", workers=2, namespace=namespace)

    model = job.result(timeout="2m")
    assert isinstance(model, Model)
    assert model.weight == 149
    assert job.name.startswith("train-")
    assert job.result() is not model  # it can be read again


def test_the_job_runs_with_the_python_and_in_the_directory_of_the_caller(
    cluster: muster.LocalCluster, namespace: str, tmp_path: Path
) -> None:
    def where() -> tuple[str, str]:
        return sys.executable, os.getcwd()

    assert run(cluster, namespace, where) == (sys.executable, str(tmp_path))


def test_an_exception_of_rank_0_is_raised_with_its_remote_traceback(
    cluster: muster.LocalCluster, namespace: str
) -> None:
    def train() -> None:
        raise LookupError("no data in /data")

    with pytest.raises(LookupError, match="no data in /data") as raised:
        run(cluster, namespace, train, workers=1)

    assert "in train\n" in str(raised.value.__cause__)
    assert str(raised.value.__cause__).count("LookupError: no data in /data") == 1


def test_an_exception_that_cannot_be_rebuilt_is_raised_as_text(
    cluster: muster.LocalCluster, namespace: str
) -> None:
    class Odd(Exception):
        def __init__(self, first: str, second: str) -> None:
            super().__init__(f"{first} and {second}")

    def train() -> None:
        raise Odd("this", "that")

    with pytest.raises(muster.RemoteError, match=r"rank 0 raised .*Odd: this and that") as raised:
        run(cluster, namespace, train, workers=1)

    assert isinstance(raised.value, muster.JobFailed)
    assert raised.value.exit_code == 1
    assert "in train\n" in str(raised.value.__cause__)


def test_a_failure_of_another_rank_names_its_replica_and_last_lines(
    cluster: muster.LocalCluster, namespace: str
) -> None:
    def train() -> None:
        if os.environ["PROCESS_ID"] == "1":
            raise MemoryError("rank 1 has too much")
        time.sleep(120)  # pace: rank 0 trains until the job ends

    with pytest.raises(muster.JobFailed) as failed:
        run(cluster, namespace, train, name="halves")

    assert failed.value.replica == "halves-worker-1"
    assert failed.value.last_lines[-1] == "MemoryError: rank 1 has too much"


def test_a_job_that_is_retried_delivers_its_last_attempt(
    cluster: muster.LocalCluster, namespace: str, tmp_path: Path
) -> None:
    def train() -> str:
        attempts = tmp_path / "attempts"
        with attempts.open("a") as file:
            file.write("x")
        count = len(attempts.read_text())
        if count == 1:
            raise ConnectionError("first attempt")
        return f"attempt {count}"

    assert run(cluster, namespace, train, workers=1, retry=3) == "attempt 2"


def test_a_result_of_an_earlier_attempt_is_not_that_of_a_killed_one(
    cluster: muster.LocalCluster, namespace: str, tmp_path: Path
) -> None:
    def train() -> None:
        marker = tmp_path / "second"
        if not marker.exists():
            marker.touch()
            raise ConnectionError("first attempt")
        os.kill(os.getpid(), 9)

    with pytest.raises(muster.JobFailed) as failed:
        run(cluster, namespace, train, workers=1, retry=2)

    assert not isinstance(failed.value, muster.RemoteError)
    assert failed.value.exit_code == 137


def test_a_value_that_is_too_large_or_cannot_be_pickled_is_an_error_and_the_job_succeeds(
    cluster: muster.LocalCluster, namespace: str, tmp_path: Path
) -> None:
    large = cluster.run(
        os.urandom, (2 * MIB,), kind="jax", name="large", workers=1, namespace=namespace
    )
    odd = cluster.run(
        lambda: (n for n in "abc"), kind="jax", name="odd", workers=1, namespace=namespace
    )

    with pytest.raises(muster.ResultError, match=r"returned 2,097,\d+ bytes.* at most 1,0"):
        large.result(timeout="2m")
    with pytest.raises(muster.ResultError, match="a generator, which cannot be pickled"):
        odd.result(timeout="2m")
    assert (large.status(), odd.status()) == ("SUCCEEDED", "SUCCEEDED")


def test_large_values_travel_through_a_shared_directory(
    cluster: muster.LocalCluster, namespace: str, tmp_path: Path
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()

    def double(data: bytes) -> bytes:
        return data * 2

    data = os.urandom(2 * MIB)
    job = cluster.run(
        double, (data,), kind="jax", workers=1, namespace=namespace, shared_dir=shared
    )

    assert job.result(timeout="2m") == data * 2
    file = next(shared.glob("muster-result-*"))
    file.write_bytes(file.read_bytes()[:-1] + b"!")
    with pytest.raises(muster.UntrustedResult, match="is not the file that rank 0 wrote"):
        job.result()


def test_a_function_that_is_too_large_is_refused_before_anything_is_created(
    cluster: muster.LocalCluster, namespace: str
) -> None:
    with pytest.raises(muster.UsageError, match=r"is 2,1\d\d,\d+ bytes, and a Secret has at most"):
        cluster.run(len, (os.urandom(2 * MIB),), kind="jax", name="huge", namespace=namespace)

    with BlockingClient(kube_config.load(cluster.kubeconfig)) as client:
        assert not any(
            row.metadata.name.startswith("huge") for row in client.list(SECRETS, namespace).items
        )
    with pytest.raises(muster.NotFound):
        cluster.get_job("huge", namespace=namespace)


def test_another_minor_version_of_python_is_refused(
    cluster: muster.LocalCluster, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(package, "PYTHON", (3, 9))

    with pytest.raises(muster.ResultError, match=r"sent by Python 3\.9, and the replica has"):
        run(cluster, namespace, len, "abc", workers=1)


@pytest.mark.parametrize(
    ("kind", "more"),
    [("pytorch", {}), ("tf", {"ps": 1}), ("tf", {"chief": True})],
)
def test_rank_0_of_each_kind_returns(
    cluster: muster.LocalCluster, namespace: str, kind: str, more: dict[str, Any]
) -> None:
    def role() -> str:
        return os.environ["HOSTNAME"]

    expected = {"pytorch": "j-master-0", "tf": "j-worker-0"}[kind]
    found = run(cluster, namespace, role, kind=kind, name="j", **more)

    assert found == ("j-chief-0" if "chief" in more else expected)


def test_a_replica_other_than_rank_0_cannot_write_the_result(
    cluster: muster.LocalCluster, namespace: str
) -> None:
    def try_to_write() -> str:
        if os.environ["PROCESS_ID"] == "0":
            return "of rank 0"
        from muster_function import program  # type: ignore[import-not-found]

        program.RIGHTS_PATIENCE = 0.0
        try:
            program.ResultSecret("j-result", b"", "").begin()
        except program.NotWritten as error:
            print(error)
        return "of rank 1"

    job = cluster.run(try_to_write, kind="jax", workers=2, name="j", namespace=namespace)

    assert job.result(timeout="2m") == "of rank 0"
    lines = list(job.logs(replica="worker-1"))
    assert any("cannot" in line and "forbidden" in line for line in lines), lines


def test_all_objects_are_deleted_with_the_job(cluster: muster.LocalCluster, namespace: str) -> None:
    job = cluster.run(len, ("abc",), kind="jax", name="gone", namespace=namespace)
    with BlockingClient(kube_config.load(cluster.kubeconfig)) as client:

        def names() -> list[str]:
            kinds = (SECRETS.read_as(dict), SERVICE_ACCOUNTS, ROLES, ROLE_BINDINGS)
            rows = [row for kind in kinds for row in client.list(kind, namespace).items]
            return sorted(
                row["metadata"]["name"]
                for row in rows
                if row["metadata"]["name"].startswith("gone-")
            )

        assert names() == ["gone-function", *["gone-rank-0"] * 3, "gone-result"]
        job.delete()
        until(lambda: names() == [], what="the objects are deleted")


def test_wrong_calls_say_what_to_write(cluster: muster.LocalCluster, namespace: str) -> None:
    for arguments, words in (
        (("train.py",), "run() needs a function, and got 'train.py'"),
        ((len, "abc"), "args='abc' is not a sequence"),
        ((len, (), None), "needs the argument kind"),
    ):
        with pytest.raises(muster.UsageError) as wrong:
            cluster.run(*arguments, namespace=namespace)  # type: ignore[call-arg]
        assert words in str(wrong.value)
    with pytest.raises(muster.UsageError, match=r"^run\(\) has no such argument: worker; did you"):
        cluster.run(len, kind="jax", worker=2, namespace=namespace)  # type: ignore[call-arg]
    with pytest.raises(muster.UsageError, match="nproc_per_node is for torchrun"):
        cluster.run(len, kind="pytorch", nproc_per_node=2, namespace=namespace)
    with pytest.raises(muster.UsageError, match="no such directory"):
        cluster.run(len, kind="jax", shared_dir="/no/such", namespace=namespace)
    command = cluster.submit("jax", "true", name="command", namespace=namespace)
    with pytest.raises(muster.UsageError, match="runs a command, so it has no result"):
        command.result()
