"""The faults of the campaign. Some hit at once; others last for seconds, while further ones hit.

Kills and deletions are those of `chaos.py`. A fault that lasts has a thread of its own.
"""

from __future__ import annotations

import contextlib
import resource
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from threading import Event

import psutil

from kubekit.errors import MusterError
from tests.e2e.campaign.disk_space import DiskSpace
from tests.e2e.campaign.hostile import Hostile
from tests.e2e.campaign.job_slots import JobSlots
from tests.e2e.campaign.wall_clock import WallClock
from tests.e2e.chaos import FAILURES, Chaos
from tests.e2e.local_cluster import LocalCluster, over
from tests.ordinary_user import NOBODY, python_for_everyone

FLOOD = Path(__file__).parent.parent / "flood.py"
LASTING = ["full disk"] * 2 + ["descriptors"] * 2 + ["half-headers", "large-headers", "malformed"]
OTHERS = [*["hostile"] * 5, *["clock"] * 2]
FLOODS = {"half-headers": 1200, "large-headers": 3, "malformed": 500}
HOUR = 3600
START_PATIENCE = 120


@dataclass
class Faults:
    """Causes faults in random order. `finds` are things that must not happen."""

    local: LocalCluster
    flags: tuple[str, ...]
    random: Random
    clock: WallClock
    disk: DiskSpace
    slots: JobSlots
    hostile: Hostile
    log: Callable[[str], None]
    counts: Counter[str] = field(default_factory=Counter)
    finds: list[str] = field(default_factory=list)
    failed_starts: int = 0
    """Starts of the daemon that failed and were repeated."""
    most_memory: int = 0
    _lasting: dict[str, Future[None]] = field(default_factory=dict)
    _over: Event = field(default_factory=Event)

    def __post_init__(self) -> None:
        self.chaos = Chaos(self.local, self.start, self.random, self.slots.may_hit)
        self.slots.chaos = self.chaos

    def cause(self, seconds: float, every: float) -> None:
        """Cause faults for so many seconds, each kind at least once, and end them all."""
        end = time.monotonic() + seconds
        names = [*FAILURES, *LASTING, *OTHERS]
        with ThreadPoolExecutor() as threads:
            try:
                while time.monotonic() < end or set(self.counts) < set(names):
                    for name in self.random.sample(names, len(names)):
                        self._cause(name, threads)
                        time.sleep(self.random.uniform(0.2, 1.8) * every)  # pace: faults
                        self._watch_daemon()
                        self.disk.shrink()
            finally:
                self._over.set()
        for name, future in self._lasting.items():
            self._report(name, future)
        self._watch_daemon()

    def _cause(self, name: str, threads: ThreadPoolExecutor) -> None:
        if name in LASTING:
            if self._is_active(name):
                return
            if name in self._lasting:
                self._report(name, self._lasting[name])
            seconds = self.random.uniform(3, 20)
            self._note(name, f"for {seconds:.0f} s")
            methods = {
                "full disk": lambda s: self.disk.keep_full(s, self._over),
                "descriptors": self._limit_descriptors,
            }
            method = methods.get(name, lambda s: self._flood(name, s))
            self._lasting[name] = threads.submit(method, seconds)
        elif name == "clock":
            self.clock.move_to(
                self.random.choice([0, 2 * HOUR, -HOUR, self.random.randint(-60, 60)])
            )
            self._note(name, f"at {self.clock.offset:+} s")
        elif name == "hostile":
            self._note(name, self.hostile.send())
        else:
            self._kill(name)

    def _is_active(self, name: str) -> bool:
        return name in self._lasting and not self._lasting[name].done()

    def _kill(self, name: str) -> None:
        try:
            with self.slots.lock:
                pods = self.chaos.running()
                if pods:
                    self.chaos.hit(name, pods)
                    self._note(name, "")
        except (MusterError, OSError) as error:
            self.log(f"{name}: not possible now: {error}")

    def start(self) -> None:
        """`arena up` until it works: a full disk may prevent it for a while."""
        end = time.monotonic() + START_PATIENCE
        while True:
            result = self.local.arena("up", "--detach", *self.flags, check=False)
            self.check_output("up", result)
            if result.returncode == 0:
                return
            self.failed_starts += 1
            self.log(f"up failed: {result.stderr.strip()}")
            if "is full" not in result.stderr:
                self._find(f"the daemon does not start, and the disk is not the reason: {result}")
            if time.monotonic() > end:
                self._find("the daemon does not start")
                return
            if not self._is_active("full disk"):
                self.disk.enlarge()  # Pods have filled it: the user frees space, as `up` says.
            time.sleep(1)  # pace: attempts

    def _watch_daemon(self) -> None:
        """The daemon must live: only this campaign ends it."""
        pid = self.local.daemon
        if over(pid):
            self._find(f"the daemon (pid {pid}) ended by itself\n{self.local.log_tail(60)}")
            self.start()
            return
        with contextlib.suppress(psutil.Error):
            self.most_memory = max(self.most_memory, psutil.Process(pid).memory_info().rss)

    def check_output(self, command: str, result: subprocess.CompletedProcess[str]) -> None:
        output = result.stdout + result.stderr
        if "Traceback" in output or "bug in Muster" in output:
            self._find(f"arena {command}: {output}")

    def _limit_descriptors(self, seconds: float) -> None:
        """No further descriptor for the daemon, but for a few."""
        pid = self.local.daemon
        with contextlib.suppress(ProcessLookupError, psutil.Error):
            soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
            spare = self.random.choice([0, 2, 10])
            few = psutil.Process(pid).num_fds() + spare
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (min(few, hard), hard))
            self._over.wait(seconds)
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))

    def _flood(self, kind: str, seconds: float) -> None:
        """Connections of another user, without a token."""
        port = (self.local.home / "data" / "port").read_text()
        with subprocess.Popen(
            [python_for_everyone(), "-c", FLOOD.read_text(), port, kind, str(FLOODS[kind])],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            user=NOBODY,
            group=NOBODY,
            extra_groups=[],
            cwd="/",
        ) as process:
            self._over.wait(seconds)
            process.kill()

    def _report(self, name: str, future: Future[None]) -> None:
        error = future.exception()
        if error is not None:
            self._find(f"{name}: {error!r}")

    def _note(self, name: str, text: str) -> None:
        self.counts[name] += 1
        self.log(f"{name} {text}")

    def _find(self, text: str) -> None:
        self.finds.append(text)
        self.log(f"FIND {text}")
