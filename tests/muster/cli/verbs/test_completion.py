"""Completion answers real shells: verbs, flags and job names."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kubekit.client.auth import kube_config
from kubekit.client.blocking_client import BlockingClient
from kubekit.objects.kinds import NAMESPACES
from muster.cli.verbs import completion
from muster.contract.job_kinds import TFJOBS
from tests.local_server import LocalServer

BIN = Path(sys.executable).parent


@pytest.fixture
def env(job_server: LocalServer, tmp_path: Path) -> dict[str, str]:
    """An environment in which two jobs can be seen."""
    with BlockingClient(kube_config.load(job_server.kubeconfig)) as client:
        created = client.create(NAMESPACES.read_as(dict), {"metadata": {"generateName": "done-"}})
        for name in ("resnet-a", "resnet-b"):
            body = {"metadata": {"name": name}, "spec": {}}
            client.create(TFJOBS, body, namespace=created["metadata"]["name"])
    return {
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "KUBECONFIG": str(job_server.kubeconfig),
        "SPACE": created["metadata"]["name"],
    }


def completions(env: dict[str, str], line: str) -> list[str]:
    """The completions that bash gets for the last word of the line."""
    words = line.replace("$SPACE", env["SPACE"])
    result = subprocess.run(
        ["arena"],
        env={
            **env,
            "_ARENA_COMPLETE": "bash_complete",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split(" ")) - 1),
        },
        executable=BIN / "arena",
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.stderr == ""
    return [row.partition(",")[2] for row in result.stdout.splitlines() if row]


def test_verbs_flags_and_kinds_are_completed(env: dict[str, str]) -> None:
    assert completions(env, "arena su") == ["submit", "suspend"]
    assert completions(env, "arena list --all") == ["--all-namespaces", "--allNamespaces"]
    assert "tfjob" in completions(env, "arena submit tf")
    assert completions(env, "arena list -o j") == ["json"]


def test_job_names_are_completed_in_the_chosen_namespace(env: dict[str, str]) -> None:
    assert completions(env, "arena get -n $SPACE res") == ["resnet-a", "resnet-b"]
    assert completions(env, "arena delete -n $SPACE resnet-a resnet-b") == ["resnet-b"]
    assert completions(env, "arena logs -n $SPACE x") == []


def test_without_a_cluster_nothing_is_completed_or_printed(env: dict[str, str]) -> None:
    env["KUBECONFIG"] = "/no/such/file"

    assert completions(env, "arena get res") == []


@pytest.mark.slow
def test_bash_itself_completes(env: dict[str, str]) -> None:
    script = (
        "source <(arena completion bash); COMP_WORDS=(arena sus); COMP_CWORD=1;"
        "_arena_completion arena; echo ${COMPREPLY[@]}"
    )
    result = subprocess.run(
        ["bash", "-c", script], env=env, capture_output=True, text=True, check=True
    )

    assert result.stdout.strip() == "suspend"


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_every_shell_can_read_its_script(shell: str) -> None:
    script = completion.script("arena", shell)

    assert "_ARENA_COMPLETE" in script
    if shutil.which(shell):
        check = [shell, "--no-execute" if shell == "fish" else "-n"]
        result = subprocess.run(check, input=script, capture_output=True, text=True, check=False)
        assert (result.returncode, result.stderr) == (0, "")
