"""Logs of jobs outlive their pods and the daemon, until the job is deleted."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.local_cluster import LocalCluster, manifest
from tests.muster.words import exited
from tests.waiting import until

pytestmark = pytest.mark.slow

CRASH = """\
case $HOSTNAME in
  *-1) until [ -e crash-worker-0 ] && [ -e crash-worker-2 ]; do sleep 0.05; done
       python -c 'print("one speaks", flush=True); raise ValueError("boom")';;
  *) echo "$HOSTNAME speaks"; touch $HOSTNAME; sleep 100;;
esac
"""


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    cluster = LocalCluster(tmp_path_factory.mktemp("home"))
    cluster.up()
    yield cluster
    cluster.down()


def archived(local: LocalCluster) -> list[Path]:
    return sorted((local.home / "data" / "pod-logs").glob("*"))


@pytest.mark.parametrize("policy", ["All", "Running"])
def test_the_logs_of_a_crashed_job_stay_until_it_is_deleted(
    local: LocalCluster, policy: str, tmp_path: Path
) -> None:
    where = f"--working-dir={tmp_path}"
    words = ["submit", "tf", "--name=crash", "--image=i", "--workers=3", "--wait", where]
    waited = local.arena(*words, f"--clean-task-policy={policy}", CRASH, check=False)

    assert waited.returncode == 10
    failure = f"worker 1 {exited(1)}."
    assert waited.stderr.count(failure) == waited.stderr.count("crash-worker-1") == 1
    assert waited.stderr.count("  ValueError: boom\n") == waited.stderr.count("boom") == 1
    assert "See: arena logs crash -i crash-worker-1 -n default" in waited.stderr

    def gone() -> bool:
        left = {row["name"] for row in local.job("crash")["instances"]}
        return left == (set() if policy == "All" else {"crash-worker-1"})

    until(gone, what="the pods are cleaned up")
    if policy == "All":
        local.kill_daemon()
        local.up()

    chief = local.arena("logs", "crash")
    assert chief.stdout == "crash-worker-0 speaks\n"
    assert failure in chief.stderr
    assert "  ValueError: boom\n" in chief.stderr
    lines = local.arena("logs", "crash", "--all").stdout.splitlines()
    assert lines[0] == "crash-worker-0 | crash-worker-0 speaks"
    assert lines[1:3] == [
        "crash-worker-1 | one speaks",
        "crash-worker-1 | Traceback (most recent call last):",
    ]
    assert lines[-2:] == [
        "crash-worker-1 | ValueError: boom",
        "crash-worker-2 | crash-worker-2 speaks",
    ]
    followed = local.arena("logs", "-f", "crash", "-i", "1", "--tail", "1")
    assert (followed.stdout, followed.stderr) == ("ValueError: boom\n", "")
    for verb in ("get", "explain"):
        page = local.arena(verb, "crash").stdout
        assert failure in page
        assert page.count("  ValueError: boom\n") == 1

    local.arena("delete", "crash")
    until(lambda: archived(local) == [], what="the logs are deleted with the job")


def test_every_attempt_of_a_gang_stays_readable(local: LocalCluster, tmp_path: Path) -> None:
    script = """
        cd FOLDER
        if [ -d $HOSTNAME ]; then echo second; exit; fi
        mkdir $HOSTNAME
        case $HOSTNAME in
          *-0) echo first; exec sleep 100;;
          *-1) echo first; until [ -d again-worker-0 -a -d again-worker-2 ]; do sleep 0.05; done;;
          *-2) exec sleep 100;;
        esac
        exit 137
    """.replace("FOLDER", str(tmp_path))
    job = manifest("TFJob", "again", {"Worker": 3}, script, tmp_path)
    job["metadata"]["annotations"] = {"muster.dev/restart": "gang"}
    job["spec"]["tfReplicaSpecs"]["Worker"]["restartPolicy"] = "ExitCode"
    job["spec"]["runPolicy"] = {"cleanPodPolicy": "All"}
    local.apply(job)
    local.wait_job("again", "SUCCEEDED")
    until(lambda: local.job("again")["instances"] == [], what="the pods are cleaned up")

    last = local.arena("logs", "again", "--all").stdout.splitlines()
    assert last == [f"again-worker-{index} | second" for index in range(3)]
    previous = local.arena("logs", "again", "-i", "again-worker-1", "--previous")
    assert previous.stdout == "first\n"
    assert previous.stderr.startswith("again-worker-1: attempt 1 of 2, ended ")
    assert previous.stderr.endswith(" with exit code 137\n")
    assert local.arena("logs", "again", "--attempt", "1").stdout == "first\n"
    killed = local.arena("logs", "again", "-i", "2", "--previous")  # it never wrote a line
    assert killed.stdout == ""
    assert killed.stderr.startswith("again-worker-2: attempt 1 of 2, ended ")

    local.down()
    local.up()
    assert local.arena("logs", "again-worker-1", "--attempt", "1").stdout == "first\n"
    local.arena("delete", "again")
    until(lambda: archived(local) == [], what="the logs are deleted with the job")


def test_the_last_failure_that_retry_allows_is_not_followed_by_another_attempt(
    local: LocalCluster,
) -> None:
    script = "echo first; echo boom; exit 3"
    words = ["submit", "jax", "--name=once", "--image=i", "--retry=1", "--wait"]

    waited = local.arena(*words, script, check=False)

    assert waited.returncode == 10
    assert f"; worker 0 {exited(3)}.\n  first\n  boom\n" in waited.stderr
    assert "See: arena logs once -n default" in waited.stderr
    assert local.arena("logs", "once").stdout == "first\nboom\n"
    second = local.arena("logs", "once", "--attempt=2", check=False)
    assert (second.returncode, second.stdout) == (2, "")
    assert "once-worker-0 has no attempt 2" in second.stderr
    local.arena("delete", "once")


def test_the_log_of_a_failed_job_is_that_of_the_attempt_that_failed(
    local: LocalCluster, tmp_path: Path
) -> None:
    script = "test ! -e FILE || exec sleep 100; touch FILE; echo first; echo boom; exit 3"
    command = script.replace("FILE", str(tmp_path / "ran"))
    job = manifest("TFJob", "killed", {"Worker": 1}, command, tmp_path)
    role = job["spec"]["tfReplicaSpecs"]["Worker"]
    role["restartPolicy"] = "OnFailure"
    # Beside a second container the node restarts the first one, and the job's end kills it.
    sidecar = {"name": "side", "image": "i", "command": ["sleep", "100"]}
    role["template"]["spec"]["containers"].append(sidecar)
    job["spec"]["runPolicy"] = {"backoffLimit": 1, "cleanPodPolicy": "Running"}
    local.apply(job)

    waited = local.arena("wait", "killed", check=False)

    # Its containers do not ask for FallbackToLogsOnError: the lines come from the log.
    ending = f"worker 0 {exited(3, container='tensorflow')}.\n  first\n  boom\n"
    assert waited.returncode == 10
    assert ending in waited.stderr
    until(lambda: local.job("killed")["instances"] == [], what="the pod is deleted")
    page = local.arena("get", "killed").stdout
    assert [page.count(f"  {line}\n") for line in ("first", "boom")] == [1, 1]
    for flags in ([], ["-i", "killed-worker-0"], ["--attempt=1"]):
        shown = local.arena("logs", "killed", *flags)
        assert shown.stdout == "first\nboom\n", (flags, shown.stderr)
    local.arena("delete", "killed")


def test_a_job_that_is_deleted_while_its_log_is_followed_is_named(local: LocalCluster) -> None:
    words = ["submit", "jax", "--name=gone", "--image=i"]
    local.arena(*words, "trap 'echo end; exit 1' TERM; echo begin; while :; do sleep 0.1; done")
    follower = local.start("logs", "-f", "gone")
    assert follower.stdout is not None
    assert follower.stdout.readline() == "begin\n"

    local.arena("delete", "gone")

    _, errors = follower.communicate(timeout=60)
    assert follower.returncode == 3, errors
    assert "the job gone was deleted" in errors
    assert "was removed" not in errors


TWICE = """\
case $HOSTNAME in *-0) exec sleep 100;; esac
echo begin; until [ -e go ]; do sleep 0.05; done; echo boom; exit 3
"""


def test_a_followed_job_shows_where_an_attempt_begins_and_why_it_failed(
    local: LocalCluster, tmp_path: Path
) -> None:
    words = ["submit", "jax", "--name=twice", f"--working-dir={tmp_path}", "--workers=2"]
    local.arena(*words, "--retry=2", TWICE)
    one = local.start("logs", "-f", "twice", "-i", "1")
    every = local.start("logs", "-f", "twice", "--all")
    for follower in (one, every):
        read_until(follower, "begin")

    (tmp_path / "go").touch()

    output, errors = one.communicate(timeout=60)
    assert (one.returncode, output) == (0, "boom\nbegin\nboom\n"), errors
    assert errors.count("-- twice-worker-1: attempt 2 --\n") == 1
    output, errors = every.communicate(timeout=60)
    lines = [f"twice-worker-1 | {text}\n" for text in ("boom", "begin", "boom")]
    assert (every.returncode, output) == (0, "".join(lines)), errors
    assert errors.count("-- twice-worker-1: attempt 2 --\n") == 1
    assert "the job twice failed: it failed 2 times" in errors.splitlines()[-1]
    local.arena("delete", "twice")


LINES = """\
trap 'echo end of part $part; exit 1' TERM
part=$(ls parts | wc -l); touch parts/$HOSTNAME-$part
while :; do echo "part $part"; sleep 0.1; done
"""


def read_until(follower: subprocess.Popen[str], text: str) -> str:
    """The next line with this text."""
    assert follower.stdout is not None
    return next(line for line in follower.stdout if text in line)


def test_following_a_job_continues_after_a_suspension_and_with_added_replicas(
    local: LocalCluster, tmp_path: Path
) -> None:
    (tmp_path / "parts").mkdir()
    words = ["submit", "jax", "--name=long", f"--working-dir={tmp_path}", "--workers=1"]
    local.arena(*words, LINES)
    one, every = local.start("logs", "-f", "long"), local.start("logs", "-f", "long", "--all")
    for follower in (one, every):
        read_until(follower, "part 0")

    local.arena("suspend", "long")
    for follower in (one, every):
        read_until(follower, "end of part 0")
    late = local.start("logs", "-f", "long")
    local.arena("resume", "long")
    for follower in (one, every, late):
        assert "end of" not in read_until(follower, "part 1")

    local.arena("scale", "long", "--workers=2")
    assert read_until(every, "part 2") == "long-worker-1 | part 2\n"

    local.arena("delete", "long")
    for follower in (one, every, late):
        _, errors = follower.communicate(timeout=60)
        assert follower.returncode == 3, errors
        assert errors.count("the job long was deleted") == 1
        assert "not found" not in errors
        assert "was removed" not in errors
