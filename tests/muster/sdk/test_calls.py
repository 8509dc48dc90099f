"""Submitting, getting and listing jobs from Python."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import muster
from kubekit.objects.meta import Raw
from muster.cli import main


def comparable(job: muster.Job) -> Raw:
    """The manifest without what every submission has of its own."""
    manifest = job.manifest()
    annotations = dict(manifest["metadata"].get("annotations") or {})
    del annotations["muster.dev/submission"]
    labels = manifest["metadata"].get("labels")
    return {"spec": manifest["spec"], "labels": labels, "annotations": annotations}


def test_the_job_is_the_one_that_the_command_makes(
    cluster: muster.LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in cluster.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("VIRTUAL_ENV", sys.prefix)
    (tmp_path / "data").mkdir()
    flags = ["--workers=2", "--gpus=1", "--gang", "--env=EPOCHS=3", "--data-dir=data", "--cpu=500m"]
    with cluster.new_namespace() as one, cluster.new_namespace() as two:
        code = main.run("arena", ["submit", "tf", "--name=same", f"-n={one}", *flags, "sleep 9"])
        job = muster.submit(
            "tf",
            "sleep 9",
            name="same",
            namespace=two,
            workers=2,
            gpus=1,
            gang=True,
            env={"EPOCHS": 3},
            data_dir=Path("data"),
            cpu="500m",
        )

        assert code == 0
        assert comparable(job) == comparable(cluster.get_job("same", namespace=one))


def test_a_job_runs_with_the_python_of_the_program_also_if_its_environment_is_not_active(
    cluster: muster.LocalCluster, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")

    command = 'python -c "import sys; print(sys.prefix)"'
    job = cluster.submit("tf", command, name="prefix", namespace=namespace).wait(timeout="1m")

    assert list(job.logs()) == [sys.prefix]


def test_jobs_are_found_by_name_type_and_labels(
    cluster: muster.LocalCluster, namespace: str
) -> None:
    hello = cluster.submit("tf", "true", name="hello", label={"team": "a"}, namespace=namespace)
    other = cluster.submit("pytorch", "true", name="other", namespace=namespace)

    assert cluster.list_jobs(namespace=namespace) in ([other, hello], [hello, other])
    assert cluster.list_jobs("tf", namespace=namespace) == [hello]
    assert cluster.list_jobs(labels="team=a", namespace=namespace) == [hello]
    assert hello in muster.list_jobs(all_namespaces=True, cluster=cluster)
    assert cluster.get_job("hello", namespace=namespace) == hello
    with pytest.raises(muster.NotFound, match=f"no job helo in namespace {namespace}") as missing:
        cluster.get_job("helo", namespace=namespace)
    assert missing.value.hint == "Did you mean hello?"
    assert missing.value.__notes__ == ["Did you mean hello?"]


def test_a_taken_name_and_a_wrong_flag_get_a_sentence(
    cluster: muster.LocalCluster, namespace: str
) -> None:
    cluster.submit("tf", "sleep 60", name="taken", namespace=namespace)

    with pytest.raises(muster.AlreadyExists, match="a job named taken exists already") as taken:
        cluster.submit("tf", "sleep 60", name="taken", namespace=namespace)
    assert taken.value.hint.startswith("Choose another name, or delete it first")
    with pytest.raises(muster.UsageError, match="memory '4GB' is invalid") as wrong:
        cluster.submit("tf", "sleep 60", name="wrong", memory="4GB", namespace=namespace)
    assert wrong.value.hint == 'Did you mean memory="4Gi" or memory="4G"?'
    with pytest.raises(muster.UsageError, match="name 'Big Job' is not a job name"):
        cluster.submit("tf", "sleep 60", name="Big Job", namespace=namespace)


def test_replicas_restart_together_unless_restart_says_otherwise(
    cluster: muster.LocalCluster, namespace: str
) -> None:
    def scope(job: muster.Job) -> str | None:
        annotations: dict[str, str] = job.manifest()["metadata"]["annotations"]
        return annotations.get("muster.dev/restart")

    jobs = [
        cluster.submit("jax", "true", name="one", namespace=namespace),
        cluster.submit("jax", "true", name="gang", workers=2, namespace=namespace),
        cluster.run(print, kind="pytorch", workers=2, namespace=namespace),
        cluster.submit(
            "jax", "true", name="alone", workers=2, restart="replica", namespace=namespace
        ),
    ]

    assert [scope(job) for job in jobs] == [None, "gang", "gang", "replica"]
    with pytest.raises(muster.UsageError, match="restart 'pod' is invalid") as wrong:
        cluster.submit("jax", "true", name="wrong", restart="pod", namespace=namespace)
    assert wrong.value.hint == "Write gang or replica."


def test_arguments_of_a_wrong_type_or_name_get_a_sentence(
    cluster: muster.LocalCluster, namespace: str
) -> None:
    job = cluster.submit("tf", "sleep 60", name="typos", namespace=namespace)

    for name in (5, ""):
        with pytest.raises(muster.UsageError, match=f"name is {name!r}; write the name of a job"):
            cluster.get_job(name)  # type: ignore[arg-type]
    with pytest.raises(muster.UsageError, match="cluster is 3; write"):
        muster.get_job("typos", cluster=3)  # type: ignore[arg-type]
    with pytest.raises(muster.UsageError, match="tail is 'x'; write a whole number"):
        job.logs(tail="x")  # type: ignore[arg-type]
    with pytest.raises(muster.UsageError, match=r"'a\\n' is not a name"):
        cluster.get_job("a\n")
    with pytest.raises(muster.UsageError, match="no such argument: folow; did you mean follow"):
        job.logs(folow=True)  # type: ignore[call-arg]
    with pytest.raises(muster.UsageError, match="got 'x'; write a whole number"):
        job.scale("x")  # type: ignore[arg-type]
    with pytest.raises(muster.UsageError, match="has no argument command"):
        cluster.run(print, kind="tf", command="echo")  # type: ignore[call-arg]


def test_a_warning_about_a_job_is_logged(
    cluster: muster.LocalCluster, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "muster"):
        cluster.submit("tf", "true", name="j", data={"none": "/data"}, namespace=namespace)

    assert any("there is no volume claim none" in line for line in caplog.messages)


@pytest.mark.parametrize(
    ("choice", "error", "sentence"),
    [
        ({}, muster.NoCluster, "no cluster is configured"),
        ({"cluster": "local"}, muster.NoCluster, "no cluster is configured"),
        ({"cluster": "elsewhere"}, muster.UsageError, "write local, kube or kube:CONTEXT"),
        ({"kubeconfig": "/none"}, muster.ConfigError, "/none"),
    ],
)
def test_without_a_cluster_a_call_says_so(
    choice: dict[str, Any],
    error: type[Exception],
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("CI", "1")
    monkeypatch.setenv("HOME", str(tmp_path))

    with pytest.raises(error, match=sentence):
        muster.list_jobs(**choice)
    with pytest.raises(error, match=sentence):
        muster.submit("tf", "true", name="j", **choice)


def test_submit_starts_the_local_cluster_and_says_so(tmp_path: Path) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    project.mkdir()
    program = "import muster; print(muster.submit('tf', 'echo hi', name='a').wait('1m').status())"
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(project), "MUSTER_HOME": str(home)}

    try:
        ran = subprocess.run(
            [sys.executable, "-c", program],
            cwd=project,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
        )
    finally:
        subprocess.run(
            [sys.executable, "-m", "muster", "down", "--now"],
            env=environment,
            check=True,
            capture_output=True,
        )

    assert (ran.stdout, ran.returncode) == ("SUCCEEDED\n", 0)
    assert ran.stderr.startswith("no cluster is configured: using a local cluster here")
