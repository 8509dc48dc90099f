"""Every state of a job is told as it is: restarting, suspended, waiting, ended, stopped cluster."""

from __future__ import annotations

import copy
import json
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from muster.jobs import job_sentences
from tests.e2e.local_cluster import ARENA, LocalCluster, manifest
from tests.muster.words import exited, failed_of_late, restarted, tells
from tests.waiting import until

pytestmark = pytest.mark.slow

CRASH = "sh -c 'echo step 7; if hostname | grep -q worker-1; then echo boom; exit 3; fi; sleep 99'"
HALF = "sh -c 'if hostname | grep -q worker-1; then echo boom; exit 3; fi; sleep 2'"
RESTARTED = f"worker 1 (?:{'|'.join(restarted(times, 3, 'boom') for times in range(1, 10))})"
PEERS = """
ls ran-$HOSTNAME 2>/dev/null && echo trained && exit
touch ran-$HOSTNAME
until [ $(ls | grep -c ran-) = 3 ]; do sleep 0.05; done
if [ $HOSTNAME = peers-worker-1 ]; then
  until [ $(ls | grep -c lost-) = 2 ]; do sleep 0.05; done
  echo boom; exit 137
fi
touch lost-$HOSTNAME
echo "ConnectionResetError: [Errno 104] Connection reset by peer"; exit 1
"""
SLOW = "sh -c 'echo step 1; if hostname | grep -q worker-1; then sleep 99; fi'"
NEXT_TRY = r"next try (in (\d+ min|\d+ s|\d+ min \d+ s)|now)"
SILENT = (
    "nothing is logged yet since the last restart; "
    "`arena logs recreated --all --previous` shows the log before it\n"
)


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A cluster without GPUs, with jobs that crash."""
    cluster = LocalCluster(tmp_path_factory.mktemp("home"))
    cluster.up("--cpus-per-node=4")
    alone = "--restart=replica"
    cluster.submit("crash", "--workers=2", "--retry=99", alone, command=CRASH)
    cluster.submit("gang", "--workers=2", "--gang", "--retry=99", command=CRASH)
    gone = "--clean-task-policy=All"
    cluster.submit("half", "--workers=2", "--gang", "--retry=9", alone, gone, command=HALF)
    stays = "--clean-task-policy=None"
    cluster.submit("stays", "--workers=2", "--gang", "--retry=99", alone, stays, command=HALF)
    cluster.submit("slow", "--workers=2", "--gang", command=SLOW)
    folder = tmp_path_factory.mktemp("recreated")
    crash = f"mkdir {folder}/ran 2>/dev/null && echo no memory && exit 137"
    once = f"[ $HOSTNAME = recreated-worker-1 ] && {crash}; exec sleep 99"
    recreated = manifest("TFJob", "recreated", {"Worker": 2}, once, folder)
    recreated["spec"]["tfReplicaSpecs"]["Worker"]["restartPolicy"] = "ExitCode"
    cluster.apply(recreated)
    # The first version of MPIJobs keeps all pods by default.
    mpi = manifest("MPIJob", "no-path", {"Launcher": 1, "Worker": 2}, "exec sleep 99", folder)
    launcher = copy.deepcopy(mpi["spec"]["mpiReplicaSpecs"]["Launcher"])
    launcher["template"]["spec"]["containers"][0]["command"] = ["nosuch"]
    mpi["spec"]["mpiReplicaSpecs"]["Launcher"] = launcher
    cluster.apply(mpi)
    yield cluster
    cluster.down()


def restarting(local: LocalCluster, name: str) -> dict[str, Any]:
    """The job once it waits for its next try after two failures, for some seconds more."""

    def waits() -> dict[str, Any] | None:
        job = local.job(name)
        return job if job["nextTry"] > time.time() + 6 and job["restarts"] >= 2 else None

    return until(waits, timeout=200, every=0.3, what=f"{name} waits for its next try")


def shows(local: LocalCluster, pattern: str, *words: str) -> None:
    """The output of this verb has the pattern, if not at once, then while the job waits again."""
    until(
        lambda: re.search(pattern, local.arena(*words).stdout),
        timeout=200,
        every=0.3,
        what=f"{pattern} in the output of arena {' '.join(words)}",
    )


def test_workers_that_just_end_all_succeed_and_are_counted(local: LocalCluster) -> None:
    words = ["tf", "--name=ends", "--image=x", "--workers=3", "--wait", "sh -c 'echo done'"]
    output = local.arena("submit", *words).stderr

    assert re.findall(r"ends SUCCEEDED \((.*)\)", output)[-1].endswith(" of 3")
    until(lambda: status(local, "ends")["replicaStatuses"] == {"Worker": {"succeeded": 3}})
    assert "Restarting" not in {row["type"] for row in status(local, "ends")["conditions"]}
    assert [row["status"] for row in local.job("ends")["instances"]] == ["Completed"] * 3
    assert "has ended: 3 succeeded of 3" in local.arena("explain", "ends").stdout


def test_a_gang_that_loses_a_worker_restarts_once_and_blames_it(
    local: LocalCluster, tmp_path: Path
) -> None:
    flags = (f"--working-dir={tmp_path}", "--workers=3", "--retry=3", "--gang")
    local.arena("submit", "pytorch", "--name=peers", "--image=i", *flags, PEERS)

    job = local.wait_job("peers", "SUCCEEDED", "FAILED")
    assert (job["status"], job["restarts"]) == ("SUCCEEDED", 1), job
    assert [row["restarts"] for row in job["instances"]] == [1, 1, 1]
    page = local.arena("get", "peers", "-e").stdout
    assert re.findall(r"^  peers-\S+ +Completed .* (\d+)$", page, re.MULTILINE) == ["1"] * 3, page
    (restart,) = [line for line in page.splitlines() if "PyTorchJobRestarting]" in line]
    assert f"peers-worker-1 {exited(137, 'boom')}" in restart
    local.arena("delete", "peers")


def test_a_job_that_succeeds_while_a_replica_restarts_says_so(local: LocalCluster) -> None:
    waited = local.arena("wait", "half")
    reason = local.job("half")["reason"]
    assert tells(reason, "worker 1", exited(3, "boom"), "--success-policy=AllWorkers")
    text = re.escape(reason)
    assert waited.stdout == "tfjob/half succeeded\n"
    assert re.search(f"^{text}$", waited.stderr, re.MULTILINE)
    assert "CrashLoopBackOff" not in {row["status"] for row in local.job("half")["instances"]}
    until(lambda: not local.job("half")["instances"], what="its pods are gone")
    assert "half SUCCEEDED (1 succeeded, 1 not finished of 2)" in local.arena("wait", "half").stderr
    attempts = local.arena("logs", "half", "-i", "half-worker-1").stderr
    last = local.job("half")["restarts"] + 1
    assert f"half-worker-1: attempt {last} of {last}" in attempts
    page = local.arena("get", "half").stdout
    assert re.search(f"Reason: +{text}", page)
    gone = "Its pods are gone (cleaned up); their logs stay: arena logs half -n default"
    assert f"Instances:\n  {gone}\n" in f"{page}\n"
    assert re.search(
        rf"Why: +has ended: 1 succeeded, 1 not finished of 2\. {text}",
        local.arena("explain", "half").stdout,
    )


def test_a_worker_that_is_stopped_because_its_job_succeeded_is_named(local: LocalCluster) -> None:
    waited = local.arena("wait", "slow")
    text = local.job("slow")["reason"]
    assert tells(text, "worker 1", "worker 0", "--success-policy=AllWorkers")
    assert waited.stdout == "tfjob/slow succeeded\n"
    assert waited.stderr.splitlines()[-1] == text
    assert "slow SUCCEEDED (1 succeeded, 1 stopped of 2)" in local.arena("wait", "slow").stderr
    assert re.search(f"Reason: +{re.escape(text)}", local.arena("get", "slow").stdout)
    assert text in local.arena("get", "slow", "-e").stdout.partition("Events:")[2]
    log = local.arena("logs", "slow", "-i", "slow-worker-1")
    assert (log.stdout, log.stderr) == ("step 1\n", f"{text}\n")
    assert local.arena("logs", "slow").stderr == ""


def test_a_finished_job_that_keeps_its_pods_says_that_one_is_still_restarted(
    local: LocalCluster,
) -> None:
    local.wait_job("stays", "SUCCEEDED")
    text = (
        "Pods: +stays-worker-1 is still restarted after every failure, because the job's "
        "cleanPodPolicy is None; `arena delete stays` ends that"
    )
    until(lambda: re.search(text, local.arena("get", "stays").stdout), what="the pod is named")


def test_a_failed_mpi_job_of_a_manifest_names_the_missing_path_and_the_pods_that_are_left(
    local: LocalCluster,
) -> None:
    waited = local.arena("wait", "no-path", check=False)

    assert waited.returncode == 10
    assert "this pod does not have your PATH: write an absolute path" in waited.stderr
    page = local.arena("get", "no-path").stdout
    assert re.search(
        'Reason: +launcher .*: cannot run "nosuch": No such file or directory; this '
        "pod does not have your PATH: write an absolute path, set PATH in its env, or use "
        r"`arena submit`\.\n",
        page,
    )
    assert re.search(
        "Pods: +no-path-worker-0, no-path-worker-1 still run and hold their room, because the "
        "job's cleanPodPolicy is None; `arena delete no-path` ends that",
        page,
    )
    (address,) = re.findall(r"Node: +muster-0 \((.*)\)", page)
    assert re.search(
        rf"^no-path .* {re.escape(address)}$", local.arena("list").stdout, re.MULTILINE
    )
    local.arena("delete", "no-path")


def test_an_operator_beside_the_one_of_the_local_cluster_warns(local: LocalCluster) -> None:
    with subprocess.Popen(
        [ARENA, "operator", "-n", "empty"], env=local.env, stderr=subprocess.PIPE, text=True
    ) as operator:
        assert operator.stderr is not None
        lines = [operator.stderr.readline() for _ in range(3)]
        operator.send_signal(signal.SIGINT)
        assert operator.wait(timeout=30) == 0
    assert lines[1].startswith("warning: the local cluster runs an operator already, ")
    assert "informers synced" in lines[2]


def test_a_recreated_replica_shows_its_restart_while_the_job_runs(local: LocalCluster) -> None:
    def runs_again() -> dict[str, Any] | None:
        job = local.job("recreated")
        restarts = [row["restarts"] for row in job["instances"]]
        return job if job["status"] == "RUNNING" and restarts == [0, 1] else None

    job = until(runs_again, timeout=200, every=0.3, what="worker 1 runs again")
    assert job["restarts"] == 1
    assert job["reason"].startswith(failed_of_late("worker 1", 1, 137))
    assert job["reason"].endswith(": no memory")  # of the deleted pod
    silent = local.arena("logs", "recreated", "--all")
    assert (silent.stdout, silent.stderr) == ("", SILENT)
    page = local.arena("get", "recreated").stdout
    assert re.search(r" NODE +RESTARTS\n", page)
    assert re.search(r"recreated-worker-0 .* 0\n +recreated-worker-1 .* 1$", page.rstrip())


def status(local: LocalCluster, name: str) -> dict[str, Any]:
    raw = json.loads(local.arena("get", "tfjobs", name, "-o", "json").stdout)
    result: dict[str, Any] = raw["status"]
    return result


def test_a_crash_loop_is_restarting_with_its_reason(local: LocalCluster) -> None:
    job = restarting(local, "crash")
    assert job["status"] == "RESTARTING"
    assert re.fullmatch(RESTARTED, job["reason"])
    crash = job["instances"][1]["crash"]
    assert (crash["exitCode"], crash["lastLine"]) == (3, "boom")

    line = rf"{RESTARTED}; {NEXT_TRY}"
    for verb in ("get", "explain"):
        shows(local, line, verb, "crash")
    restarting(local, "crash")
    listing = local.arena("list")
    assert re.search(r"^crash +RESTARTING ", listing.stdout, re.MULTILINE)
    assert re.search(f"^crash: {line}$", listing.stderr, re.MULTILINE)
    restarting(local, "crash")
    late = local.arena("wait", "crash", "--timeout=1s", check=False)
    assert late.returncode == 1
    assert re.search(f"the job crash is still restarting: {RESTARTED}", late.stderr)


def test_a_gang_that_waits_for_its_restart_names_the_replica_that_failed(
    local: LocalCluster,
) -> None:
    sentence = failed_of_late("worker 1", 987, 3, "boom", with_gang=True)
    text = re.escape(sentence).replace("987", r"\d+")

    def waits() -> bool:  # for a moment its reason is the crash of worker 1
        job = restarting(local, "gang")
        seen.append(f"{job['status']}: {job['reason']}")
        return re.fullmatch(f"RESTARTING: {text}", seen[-1]) is not None

    seen: list[str] = []
    try:
        until(waits, timeout=200)
    except AssertionError:
        raise AssertionError(f"the gang does not wait for its restart: {set(seen)}") from None
    shows(local, rf"(?s)State: +restarting\n.*{text}; {NEXT_TRY}", "explain", "gang")


def test_a_suspended_job_is_suspended_everywhere(local: LocalCluster) -> None:
    local.submit("sleeps", command="sleep 99")
    local.arena("suspend", "sleeps")
    text = job_sentences.suspended("TFJob", "sleeps")
    assert local.wait_job("sleeps", "SUSPENDED")["reason"] == text
    assert re.search("^sleeps +SUSPENDED ", local.arena("list").stdout, re.MULTILINE)
    assert re.search(rf"State: +suspended\nWhy: +{text}", local.arena("explain", "sleeps").stdout)


def test_a_job_that_no_node_can_run_does_not_call_idle_nodes_full(local: LocalCluster) -> None:
    local.submit("large", "--workers=3", "--gpus=1", "--gang", command="sleep 9")

    def explained() -> bool:
        answer = json.loads(local.arena("explain", "large", "-o", "json").stdout)
        # No node is full or lacks anything else: the reason ends with the size of the largest.
        return answer["code"] == "FitsNowhere" and str(answer["reason"]).endswith("has 0")

    until(explained, what="the reason")
    total = local.arena("top", "job").stdout.splitlines()[-1]
    assert total == "Total Allocated/Requested GPUs of Training Jobs: 0/3"


def test_roles_that_fit_only_alone_name_what_is_short(local: LocalCluster) -> None:
    flags = ["--ps=1", "--ps-cpu=3", "--workers=2", "--worker-cpu=1", "--gang"]
    local.submit("both", *flags, command="sleep 9")

    def explained() -> bool:
        answer = json.loads(local.arena("explain", "both", "-o", "json").stdout)
        lacks = re.search(r"\b[1-9] cpu\b", answer["reason"])
        return answer["code"] == "DoesNotFitTogether" and lacks is not None

    until(explained, what="the reason")


def test_a_stopped_cluster_says_so_and_starts_again_with_other_nodes(local: LocalCluster) -> None:
    local.arena("delete", "crash", "gang", "large", "both", "stays", "recreated")
    local.down()
    stopped = subprocess.run(
        [ARENA, "status"], env=local.env, capture_output=True, text=True, check=False, timeout=30
    )
    assert stopped.returncode == 5
    assert "stopped; `arena up --detach` starts it again, with its jobs" in stopped.stdout
    assert "may still run" not in stopped.stdout

    for flags, gpus in ((["--nodes=2", "--gpus-per-node=3"], [3, 3]), ([], [0])):
        local.up(*flags)
        nodes = json.loads(local.arena("top", "node", "-o", "json").stdout)
        assert [node["total"]["gpus"] for node in nodes] == gpus
        if gpus[0]:
            local.down()
    assert local.job("sleeps")["status"] == "SUSPENDED"
