"""Limits of CPU and memory, as the user of `arena` meets them: enforced as root, announced as not
enforced for a user to whom the machine delegates no control group."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.footprint import Footprint
from tests.e2e.local_cluster import LocalCluster
from tests.muster.words import tells
from tests.ordinary_user import NOBODY, run_as_nobody
from tests.prerequisites import missing_prerequisite
from tests.waiting import until

pytestmark = pytest.mark.slow
# So little that one time slice is too much: on a busy machine, too, the kernel must throttle.
LIMITS = ("--worker-cpu=20m", "--worker-memory=100Mi")
Arena = Callable[..., "subprocess.CompletedProcess[str]"]


def limits_in(status: str) -> list[str]:
    """What the output of `arena status` says of limits."""
    return re.findall("^limits: +(.+)$", status, re.MULTILINE)


@pytest.fixture
def local(tmp_path: Path) -> Iterator[LocalCluster]:
    cluster = LocalCluster(tmp_path / "home")
    before = Footprint.now()
    cluster.up()
    yield cluster
    cluster.down()
    assert Footprint.now().beyond(before, cluster.home) == []


def test_limits_of_cpu_and_memory_are_enforced(local: LocalCluster, tmp_path: Path) -> None:
    status = local.arena("status").stdout
    if "not enforced" in status:
        missing_prerequisite("cgroups", "this machine does not let us limit CPU and memory")
    folders = [Path(line) for line in (local.home / "data/cgroups").read_text().splitlines()]
    signal = tmp_path / "signal"
    # Two busy processes; the second one wants too much memory once the signal exists.
    script = (
        f"import os\nos.fork()\nwhile not os.path.exists({str(signal)!r}): pass\n"
        "x = bytearray(300 << 20)"
    )
    command = f"python -c '{script.replace(chr(39), chr(34))}'"
    flags = ("--name=hungry", "--workers=1", *LIMITS, f"--data-dir={tmp_path}")
    submitted = local.arena("submit", "tf", *flags, command)

    def throttled() -> bool:
        for stat in (stat for folder in folders for stat in folder.glob("*/cpu.stat")):
            counters = dict(line.split() for line in stat.read_text().splitlines())
            if int(counters["nr_throttled"]) > 2:
                return True
        return False

    until(throttled, timeout=120, what="two busy processes are throttled")
    signal.touch()
    job = local.wait_job("hungry", "FAILED", timeout=120)

    assert "not enforced" not in submitted.stderr + local.arena("get", "hungry").stdout
    assert [line for line in status.splitlines() if "url:" in line or "nodes:" in line] == [
        line for line in status.splitlines() if line.startswith(("url:", "nodes:"))
    ]
    assert limits_in(status) == ["enforced"]
    assert tells(job["reason"], "OOMKilled", "137", "100Mi")
    assert "limitsNotEnforced" not in job


@pytest.fixture
def ordinary_user() -> Iterator[Arena]:
    """`arena` of a user without control groups."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    with tempfile.TemporaryDirectory() as home:
        os.chown(home, NOBODY, NOBODY)

        def arena(*words: str) -> subprocess.CompletedProcess[str]:
            cluster = f"{home}/cluster"
            arguments = ("-m", "muster", *words)
            result = run_as_nobody(home, *arguments, cwd=home, timeout=300, MUSTER_HOME=cluster)
            result.check_returncode()
            return result

        arena("up", "--detach")
        try:
            yield arena
        finally:
            arena("down")


def test_submit_get_and_status_say_that_limits_are_not_enforced(ordinary_user: Arena) -> None:
    limited = ("submit", "tf", "--name=limited", "--workers=1", "--worker-memory=256Mi")
    submitted = ordinary_user(*limited, "python -c pass")
    free = ordinary_user("submit", "tf", "--name=free", "--workers=1", "python -c pass")
    shown = ordinary_user("get", "limited").stdout
    data = ordinary_user("get", "limited", "-o", "json").stdout
    status = ordinary_user("status").stdout

    lines = submitted.stderr.splitlines()
    assert sum(line.startswith("memory limits are not enforced: ") for line in lines) == 1
    assert "Limits:      memory limits are not enforced: " in shown
    assert '"limitsNotEnforced": {\n        "memory": ' in data
    (limits,) = limits_in(status)
    assert limits.startswith("cpu, memory and pids limits are not enforced: ")
    doctor = ordinary_user("doctor").stdout
    assert f"warning  this machine     {limits}" in doctor
    assert "nothing is wrong" not in doctor
    assert "not enforced" not in free.stderr + ordinary_user("get", "free").stdout
