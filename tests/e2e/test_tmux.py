"""The guides' commands, typed into a terminal, from an empty home to a trained job."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.local_cluster import ARENA, EXAMPLES, LocalCluster
from tests.e2e.tmux import Screen
from tests.examples.training import PYTHON, mpirun, need
from tests.muster.words import short
from tests.prerequisites import missing_prerequisite
from tests.test_readme import first_job
from tests.waiting import until

pytestmark = pytest.mark.slow

SUBMIT = """arena submit mpi \\
    --name=mpi-dist \\
    --gpus=2 \\
    --workers=WORKERS \\
    --gang=true \\
    --image=uber/horovod:0.13.11-tf1.10.0-torch0.4.0-py3.5 \\
    --env=GIT_SYNC_BRANCH=cnn_tf_v1.9_compatible \\
    --sync-mode=git \\
    --sync-source=SOURCE \\
    --tensorboard \\
    "mpirun python code/benchmarks/scripts/tf_cnn_benchmarks/tf_cnn_benchmarks.py --model \
resnet101 --batch_size 64 --variable_update horovod --train_dir=/training_logs \
--summary_verbosity=3 --save_summaries_steps=10"
"""
PROGRAM = """
import sys, time
from mpi4py import MPI
world = MPI.COMM_WORLD
print("rank", world.Get_rank(), "of", world.Get_size(), *sys.argv[1:3], flush=True)
time.sleep(120)  # pace: the job is still running when it is looked at
"""
HEADER = "  NAME {2,}STATUS {2,}AGE {2,}IS_CHIEF {2,}GPU\\(Requested\\) {2,}NODE"


def person(home: Path, **more: str) -> LocalCluster:
    """A user with an empty home, at a terminal."""
    local = LocalCluster(home / ".muster")
    local.env |= {
        "HOME": str(home), "PATH": f"{ARENA.parent}:{local.env['PATH']}", "LANG": "C.UTF-8", **more,
    }  # fmt: skip
    del local.env["MUSTER_HOME"]
    return local


@pytest.fixture
def nobody(tmp_path: Path) -> Iterator[LocalCluster]:
    local = person(tmp_path)
    yield local
    local.arena("down", check=False)


def test_the_readme_commands_lead_from_an_empty_home_to_a_finished_job(
    nobody: LocalCluster,
) -> None:
    lines = first_job()

    with Screen(nobody.env, EXAMPLES.parent) as screen:
        shown = {line: screen.run(line) for line in lines}

    text = "\n".join(shown.values())
    assert "using a local cluster" in shown[lines[0]]
    assert "INFO[0000] The Job hello has been submitted successfully" in shown[lines[0]]
    assert "trained: loss" in shown["arena logs -f hello"]
    assert re.search(r"^Status: +(RUNNING|SUCCEEDED)$", shown["arena get hello"], re.MULTILINE)
    assert re.search(r"^hello +(RUNNING|SUCCEEDED) +TFJOB ", shown["arena list"], re.MULTILINE)
    assert "The training job hello has been deleted successfully" in shown["arena delete hello"]
    assert "local cluster is down" in shown["arena down"]
    assert "Traceback" not in text


@pytest.fixture(scope="module")
def eight_gpus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Four nodes with two GPUs each, whose pods run the Python that trains."""
    local = person(tmp_path_factory.mktemp("home"))
    local.up("--nodes", "4", "--gpus-per-node", "2", "--python", PYTHON)
    yield local
    local.down()


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> str:
    """`benchmarks.git`, with the branch and the program that the guide names."""
    if shutil.which("git") is None:
        missing_prerequisite("git", "there is no git on this machine")
    folder = tmp_path_factory.mktemp("git")
    source = folder / "work" / "scripts" / "tf_cnn_benchmarks"
    source.mkdir(parents=True)
    (source / "tf_cnn_benchmarks.py").write_text(PROGRAM)
    me = ["-c", "user.name=t", "-c", "user.email=t@example.com"]
    for words in (
        ["init", "--quiet", "--initial-branch=cnn_tf_v1.9_compatible"],
        ["add", "."],
        [*me, "commit", "--quiet", "--message=benchmarks"],
        ["clone", "--quiet", "--bare", ".", str(folder / "benchmarks.git")],
    ):
        subprocess.run(["git", *words], cwd=folder / "work", check=True)
    return f"file://{folder / 'benchmarks.git'}"


def instances(screen: Screen, wanted: str, count: int) -> list[list[str]]:
    """The rows under Instances; waits until there are `count` and all are in that state."""

    def look() -> list[list[str]] | None:
        shown = screen.run("clear; arena get mpi-dist")
        table = shown[shown.index("Instances:") :].splitlines()
        assert re.fullmatch(HEADER, table[1])
        rows = [line.split() for line in table[3:] if line.startswith("  mpi-dist")]
        return rows if len(rows) == count and {row[1] for row in rows} == {wanted} else None

    try:
        return until(look, timeout=90, every=0.5, what=f"{count} instances {wanted}")
    except AssertionError as error:
        raise AssertionError(f"{error}\n{screen.text()}") from None


def test_a_gang_of_five_workers_waits_and_a_gang_of_four_runs(
    eight_gpus: LocalCluster, repository: str
) -> None:
    need("mpirun", "mpi4py")
    mpirun()
    with Screen(eight_gpus.env, EXAMPLES.parent) as screen:
        submit = SUBMIT.replace("SOURCE", repository).replace("\\\n", " ").strip()
        screen.run(submit.replace("WORKERS", "5"))
        rows = instances(screen, "Pending", 5)
        assert [(row[0], *row[3:]) for row in rows] == [
            (f"mpi-dist-worker-{i}", "false", "2", "N/A") for i in range(5)
        ]

        def shows_the_reason() -> bool:
            shown = screen.run("clear; arena get mpi-dist")
            return short(2) in shown and "1st of 1 in line" in shown

        until(shows_the_reason, what="the reason and the place in line", every=0.3)
        screen.run("arena delete mpi-dist")

        shown = screen.run(submit.replace("WORKERS", "4"))
        assert "mpijob.kubeflow.org/mpi-dist created" in shown
        rows = instances(screen, "Running", 5)
        assert re.fullmatch(r"mpi-dist-launcher-[a-z0-9]{5}", rows[0][0])
        assert rows[0][3:5] == ["true", "0"]
        assert [(row[0], *row[3:5]) for row in rows[1:]] == [
            (f"mpi-dist-worker-{i}", "false", "2") for i in range(4)
        ]
        assert all(row[5].startswith("muster-") for row in rows)
        assert "\x1b[32mRunning" in screen.text(colour=True)

        screen.type("arena logs -f mpi-dist")
        ranks = [f"rank {number} of 8 --model resnet101" for number in range(8)]
        until(lambda: all(rank in screen.text() for rank in ranks), timeout=60, what="eight ranks")
        screen.interrupt()
        screen.run("arena delete mpi-dist")


def test_the_workshop_commands_run_with_oc_as_an_alias(eight_gpus: LocalCluster) -> None:
    process = (
        "oc process -f openshift/tf-job_distributed-template.yaml"
        " --param JOB_NAME=training-distributed-{user} --param IMAGE_NAME=training-{user}"
        " --param BUCKET={user} --param WORKERS=2 | oc apply -f -"
    )
    chief = "training-distributed-user1-chief-0"
    with Screen(eight_gpus.env, EXAMPLES) as screen:
        screen.run("alias oc=arena")

        refused = screen.run(process.format(user="userN"), code=2)
        assert "Use training-distributed-usern" in refused

        shown = screen.run(process.format(user="user1"))
        assert "tfjob.kubeflow.org/training-distributed-user1 created" in shown

        def pods() -> list[str] | None:
            rows = screen.run("clear; oc get pods | grep user1").splitlines()
            return rows if len(rows) == 4 else None

        rows = until(pods, what="four pods", every=0.3)
        assert [row.split()[0] for row in rows] == [
            f"training-distributed-user1-{name}"
            for name in ("chief-0", "ps-0", "worker-0", "worker-1")
        ]
        log = screen.run(f"oc logs -f {chief}")
        assert "trained: loss" in log
        screen.run("arena wait training-distributed-user1")
        screen.run("arena delete training-distributed-user1")
