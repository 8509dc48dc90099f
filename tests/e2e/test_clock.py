"""The clock of the machine is set while a pod uses the API: its token is renewed at once.

Only the daemon's clock moves, by a library between it and the kernel. It leaves the monotonic clock
alone, as setting the clock does. (libfaketime makes Python's `sleep` fail.)
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.local_cluster import LocalCluster
from tests.prerequisites import missing_prerequisite
from tests.waiting import until

pytestmark = pytest.mark.slow

LIBRARY = """
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long ahead(void) {
    const char *path = getenv("CLOCK_AHEAD");
    FILE *file = path ? fopen(path, "re") : NULL;
    long seconds = 0;
    if (file) {
        if (fscanf(file, "%ld", &seconds) != 1) seconds = 0;
        fclose(file);
    }
    return seconds;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = syscall(SYS_clock_gettime, clock, now);
    if (clock == CLOCK_REALTIME) now->tv_sec += ahead();
    return result;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}
"""

PROGRAM = """
import os, ssl, sys, time, urllib.error, urllib.request
folder = "/var/run/secrets/kubernetes.io/serviceaccount/"
host, port = (os.environ["KUBERNETES_SERVICE_" + name] for name in ("HOST", "PORT"))
tls = ssl.create_default_context(cafile=folder + "ca.crt")
last = ""
while True:
    token = {"Authorization": "Bearer " + open(folder + "token").read()}
    request = urllib.request.Request(f"https://{host}:{port}/api", headers=token)
    try:
        code = urllib.request.urlopen(request, context=tls).status
    except urllib.error.HTTPError as error:
        code = error.code
    if code != last:
        print(code, flush=True)
    last = code
    time.sleep(0.1)  # pace: ten requests in a second
"""


@pytest.fixture
def clock(tmp_path: Path) -> Path:
    """The file with the seconds that the daemon's clock is ahead."""
    file = tmp_path / "clock"
    file.write_text("0")
    return file


@pytest.fixture
def cluster(tmp_path: Path, clock: Path) -> Iterator[LocalCluster]:
    cluster = LocalCluster(tmp_path / "home")
    moved = {"LD_PRELOAD": str(_library(tmp_path)), "CLOCK_AHEAD": str(clock)}
    cluster.env |= moved
    cluster.up()
    for name in moved:
        del cluster.env[name]  # commands have the machine's clock
    yield cluster
    cluster.down()


def _library(folder: Path) -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        missing_prerequisite("cc", "there is no C compiler")
    library = folder / "clock.so"
    command = [compiler, "-shared", "-fPIC", "-o", str(library), "-xc", "-"]
    subprocess.run(command, input=LIBRARY, text=True, check=True)
    return library


def test_tokens_survive_a_clock_that_is_set_forward_and_back(
    cluster: LocalCluster, clock: Path, tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    cluster.submit("api", "--workers=1", f"--data-dir={tmp_path}", command=f"python {program}")
    codes: list[str] = []

    def answers(*expected: str) -> None:
        def seen() -> bool:
            codes[:] = cluster.arena("logs", "api", check=False).stdout.split()
            return codes == list(expected)

        until(seen, what=f"the answers {expected}", every=0.3)

    answers("200")
    clock.write_text("7200")
    answers("200", "401", "200")
    clock.write_text("0")
    answers("200", "401", "200", "401", "200")

    assert cluster.job("api")["status"] == "RUNNING"
