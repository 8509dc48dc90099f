"""The verbs on jobs that really run: top, attach, stop, scale, logs, delete."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubekit.client.auth import kube_config
from kubekit.client.blocking_client import BlockingClient
from kubekit.objects.kinds import CONFIG_MAPS, EVENTS, PODS, SERVICES
from muster.contract.pod_groups import VOLCANO_POD_GROUPS
from tests.e2e.local_cluster import ARENA, EXAMPLES, LocalCluster
from tests.e2e.tmux import Screen
from tests.muster.words import exited
from tests.waiting import until

pytestmark = pytest.mark.slow

COUNT = "i=0; while true; do i=$((i+1)); echo line $i; sleep 0.05; done"

TYPOS = """
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: typos}
spec:
  runPolicy: {suspend: true}
  tfReplicaSpecs:
    Worker:
      replica: 2
      template:
        spec:
          containers:
          - {name: tensorflow, image: i, comand: [python]}
"""


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    cluster = LocalCluster(tmp_path_factory.mktemp("home"))
    cluster.env["PATH"] = f"{ARENA.parent}:{cluster.env['PATH']}"
    cluster.up("--nodes", "2", "--gpus-per-node", "2")
    yield cluster
    cluster.down()


@pytest.fixture
def counting(local: LocalCluster) -> Iterator[LocalCluster]:
    """A job of two workers that print numbers for ever."""
    local.submit("count", "--workers=2", "--gpus=1", command=COUNT)
    local.wait_job("count", "RUNNING")
    yield local
    local.arena("delete", "count")
    local.arena("wait", "count", "--for", "deleted", "--timeout", "30s")
    until(lambda: remains(local, "count") == [], what="everything of the job is gone")


def remains(local: LocalCluster, job: str) -> list[str]:
    """The names of objects that begin with the job's name."""
    with BlockingClient(kube_config.load(local.home / "kubeconfig")) as client:
        return [
            f"{kind.kind}/{name}"
            for kind in (PODS, SERVICES, CONFIG_MAPS, VOLCANO_POD_GROUPS)
            for obj in client.list(kind.read_as(dict), "default").items
            if (name := obj["metadata"]["name"]).startswith(job)
        ]


def pods(local: LocalCluster) -> list[str]:
    return [row["name"] for row in local.job("count")["instances"]]


def test_top_shows_the_usage_of_jobs_and_nodes(counting: LocalCluster) -> None:
    def measured() -> bool:
        usage = json.loads(counting.arena("top", "job", "count", "-o", "json").stdout)
        return len([row for row in usage["instances"] if row["used"]]) == 2 and (
            usage["used"]["memory"] > 0
        )

    until(measured, what="the memory of both pods is known")

    nodes = json.loads(counting.arena("top", "node", "-o", "json").stdout)
    assert sum(node["allocated"]["gpus"] for node in nodes) == 2
    assert sum(node["total"]["gpus"] for node in nodes) == 4
    assert sum(node["used"]["memory"] for node in nodes) > 0


def test_a_command_runs_in_an_instance_and_returns_its_exit_code(counting: LocalCluster) -> None:
    words = ["attach", "count", "-i", "count-worker-1", "sh", "-c", "hostname; exit 3"]
    result = counting.arena(*words, check=False)

    assert (result.returncode, result.stdout) == (3, "count-worker-1\n")
    assert "attached to container tensorflow of count-worker-1" in result.stderr
    quoted = counting.arena("attach", "count", "echo in $HOSTNAME; pwd", cwd=EXAMPLES)
    assert quoted.stdout.splitlines()[0] == "in count-worker-0"
    assert len(quoted.stdout.splitlines()) == 2
    piped = subprocess.run(
        [ARENA, "attach", "count"],
        input="echo $((6*7))\n",
        env=counting.env,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert piped.stdout == "42\n"


def test_an_attached_shell_knows_the_terminals_size(counting: LocalCluster, tmp_path: Path) -> None:
    with Screen(counting.env, tmp_path) as screen:
        screen.type("arena attach count; echo code $?")
        until(lambda: "attached to container" in screen.text(), what="the greeting")
        screen.type("stty size; hostname; exit 5")
        until(lambda: "count-worker-0" in screen.text().splitlines(), what="the pod's name")
        assert "50 200\n" in screen.text()
        until(lambda: "code 5" in screen.text().splitlines(), what="the shell's exit code")


def test_get_with_watch_redraws_the_terminal_when_the_job_changes(
    counting: LocalCluster, tmp_path: Path
) -> None:
    with Screen(counting.env, tmp_path) as screen:
        screen.type("arena get count -w")
        until(lambda: "Status:      RUNNING" in screen.text(), what="the job runs")
        counting.arena("suspend", "count")
        until(lambda: "Status:      SUSPENDED" in screen.text(), what="the job is stopped")
        assert screen.text().count("Name:        count") == 1
        screen.interrupt()
        screen.run("true")


def test_a_job_is_stopped_started_and_scaled(counting: LocalCluster) -> None:
    counting.arena("suspend", "count")
    until(lambda: pods(counting) == [], what="no pods")
    until(lambda: "suspended" in counting.job("count")["reason"], what="the reason")

    counting.arena("resume", "count")
    counting.wait_job("count", "RUNNING")
    counting.arena("scale", "count", "--workers", "3")
    until(lambda: len(pods(counting)) == 3, what="three pods")
    counting.arena("wait", "count", "--for", "running", "--timeout", "30s")


def test_a_followed_log_continues_after_the_daemon_was_killed(counting: LocalCluster) -> None:
    follower = subprocess.Popen(
        [ARENA, "logs", "-f", "count"],
        env=counting.env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert follower.stdout is not None
    lines = [follower.stdout.readline() for _ in range(10)]

    counting.kill_daemon()
    told = counting.arena("list", check=False).stderr
    assert "the daemon of the local cluster was killed" in told
    assert "`arena up --detach --nodes=2 --gpus-per-node=2" in told
    counting.up("--nodes", "2", "--gpus-per-node", "2")
    written = counting.arena("logs", "count", "--tail", "1").stdout
    while int(lines[-1].split()[1]) < int(written.split()[1]):
        lines.append(follower.stdout.readline())
    follower.send_signal(signal.SIGINT)
    follower.communicate(timeout=30)

    numbers = [int(line.split()[1]) for line in lines]
    assert numbers == list(range(1, len(numbers) + 1))


def test_all_logs_are_read_at_once(counting: LocalCluster) -> None:
    def spoken() -> bool:
        logs = [counting.arena("logs", "count", "-i", pod).stdout for pod in pods(counting)]
        return len(logs) == 2 and all("line 2\n" in log for log in logs)

    until(spoken, what="two lines of both")

    lines = counting.arena("logs", "count", "--all", "--tail", "2").stdout.splitlines()

    assert [re.sub(r"\d+$", "N", line) for line in lines] == [
        "count-worker-0 | line N",
        "count-worker-0 | line N",
        "count-worker-1 | line N",
        "count-worker-1 | line N",
    ]


def test_a_failed_jobs_log_and_exit_code_are_there_afterwards(local: LocalCluster) -> None:
    local.submit("bad", command="echo it is broken; exit 9")

    result = local.arena("wait", "bad", "--timeout", "60s", check=False)

    assert result.returncode == 10
    assert exited(9) in result.stderr
    assert local.arena("logs", "bad").stdout == "it is broken\n"
    assert local.arena("logs", "bad-chief-0").stdout == "it is broken\n"
    assert local.arena("prune", "--since", "0s").stdout.startswith("Delete tfjob bad with Age ")
    until(lambda: remains(local, "bad") == [], what="everything of the job is gone")


def test_logs_wait_for_a_pod_that_has_no_room_yet(local: LocalCluster) -> None:
    local.submit("first", "--gpus=2", "--workers=2", "--gang", command="sleep 60")
    local.wait_job("first", "RUNNING")
    local.submit("second", "--gpus=2", "--workers=2", "--gang", command="echo at last")
    follower = subprocess.Popen(
        [ARENA, "logs", "-f", "second"],
        env=local.env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=EXAMPLES,
    )
    assert follower.stderr is not None
    # Before, it may have waited for the creation of the pod.
    assert any("waiting for second-worker-0 to start" in line for line in follower.stderr)

    local.arena("delete", "first")

    assert follower.communicate(timeout=60)[0] == "at last\n"
    local.arena("delete", "second")


def test_typos_in_a_file_are_warned_of_at_once_and_in_an_event(
    local: LocalCluster, tmp_path: Path
) -> None:
    file = tmp_path / "typos.yaml"
    file.write_text(TYPOS)
    submitted = local.arena("submit", "-f", str(file))

    assert submitted.stderr.splitlines()[:2] == [
        "warning: unknown field spec.tfReplicaSpecs.Worker.replica (did you mean replicas?)",
        "warning: unknown field spec.tfReplicaSpecs.Worker.template.spec.containers[0].comand "
        "(did you mean command?)",
    ]
    with BlockingClient(kube_config.load(local.home / "kubeconfig")) as client:

        def reported() -> list[str]:
            events = client.list(EVENTS, "default").items
            return [event.message for event in events if event.reason == "UnknownField"]

        (message,) = until(reported, what="the event")
    assert message.startswith("unknown fields: spec.tfReplicaSpecs.Worker.replica (did you mean")
    local.arena("delete", "typos")
