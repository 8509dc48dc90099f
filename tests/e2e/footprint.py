"""The traces of a cluster on the machine, to compare before `up` and after `down`.

Network links, mounts, named network namespaces, control groups, firewall rules, the forwarding
switch, and the entries of the directories where a program might leave a file. A process belongs to
the cluster if its command line mentions the cluster's home.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path

from localkube.node.network.bridge import BridgeNetwork
from tests.localkube.node import leftovers

DIRECTORIES = (
    "/",
    "/etc",
    "/run",
    "/run/netns",
    "/var/lib",
    "/var/run",
    "/var/tmp",
    "/usr/local/bin",
)
# Other clusters may run on the machine. Each marks its links and control groups with its own name.
CLUSTERS = re.compile("mu(ster-?)?[0-9a-f]{8}")
FORWARDING = "muster-forwarding-"
OTHERS = ("muster-cluster-", "muster-cp-", "muster-bench-", "muster-demo-", "muster-trial-")
# Whoever runs the tests works in the same home: only files that a job or a cluster may leave count.
# Keras makes `~/.keras` in the home of whoever trains, as it does outside a cluster.
IN_HOME = re.compile("muster|arena|kube|ssh|mpi|jax", re.IGNORECASE)
# A cluster in a home without these makes them, empty, and removes them when it ends, and tests that
# run in parallel have clusters too. test_teardown.py of the node tests the removal.
MADE_BY_CLUSTERS = (".kube", ".muster")
SWITCHES = ("/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/ipv4/conf/all/forwarding")


@dataclass(frozen=True)
class Footprint:
    """The state of the machine, as lines."""

    facts: frozenset[str]

    @classmethod
    def now(cls) -> Footprint:
        return cls(frozenset([*_links(), *_mounts(), *_groups(), *_rules(), *_files()]))

    def beyond(self, before: Footprint, home: Path) -> list[str]:
        """The lines that were not there before, and all that still belongs to the cluster."""
        new = self.facts - before.facts
        return sorted(f for f in new if not _is_of_another_test_run(f, home)) + _remains(home)


def _remains(home: Path) -> list[str]:
    left = leftovers.of(home / "data")
    remains = [f"process {pid}: {line}" for pid, line in left.processes.items()]
    remains += [f"cgroup {folder}" for folder in _cgroups() if _mark(home) in folder]
    return remains + [f"link {name}" for name in left.links] + [f"mount {m}" for m in left.mounts]


def _links() -> list[str]:
    """The machine's own links. `_remains` lists the links of a cluster, which carry its name."""
    names = (name for _, name in socket.if_nameindex())
    return [f"link {name}" for name in names if not CLUSTERS.match(name)]


def _mounts() -> list[str]:
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [f"mount {line.split(' ', 5)[4]}" for line in lines]


def _is_of_another_test_run(fact: str, home: Path) -> bool:
    """Whether a directory belongs to tests that run in parallel to the one with this home."""
    run = re.search("/.*/pytest-[0-9]+/(popen-gw[0-9]+/)?", fact)
    return run is not None and not str(home).startswith(run[0])


def _mark(home: Path) -> str:
    """The part of the names of links and control groups that marks a cluster."""
    return BridgeNetwork(home / "data").bridge[-8:]


def _groups() -> list[str]:
    return [f"cgroup {folder}" for folder in _cgroups() if not CLUSTERS.search(folder)]


def _cgroups() -> list[str]:
    return [folder for folder, _, _ in os.walk("/sys/fs/cgroup") if "muster" in folder]


def _rules() -> list[str]:
    switches = [f"{path} = {Path(path).read_text().strip()}" for path in SWITCHES]
    if shutil.which("nft") is None:
        return switches
    rules = subprocess.run(["nft", "list", "ruleset"], capture_output=True, text=True, check=False)
    return switches + [f"nft {line}" for line in rules.stdout.splitlines()]


def _files() -> list[str]:
    listed = [
        f"file {Path(folder) / name}"
        for folder in DIRECTORIES
        if Path(folder).is_dir()
        for name in os.listdir(folder)
        if _is_own(Path(folder) / name) and not _is_of_another_network(name)
    ]
    own = [
        f"file {path}" for path in Path("/tmp").glob("muster*") if not path.name.startswith(OTHERS)
    ]
    home = [
        f"file {path}"
        for path in Path.home().iterdir()
        if IN_HOME.search(path.name) and not _is_made_by_a_cluster(path)
    ]
    return listed + own + home


def _is_made_by_a_cluster(path: Path) -> bool:
    try:
        return path.name in MADE_BY_CLUSTERS and not any(path.iterdir())
    except FileNotFoundError:  # its cluster has ended since the directory was listed
        return True


def _is_own(path: Path) -> bool:
    """Whether this user can have left the file: root and other users may run clusters too."""
    try:
        return os.geteuid() in (0, path.lstat().st_uid)
    except FileNotFoundError:  # removed since the directory was listed
        return False


def _is_of_another_network(name: str) -> bool:
    """Whether a file records the forwarding switches of another network namespace."""
    own = f"{FORWARDING}{os.stat('/proc/self/ns/net').st_ino}"
    return name.startswith(FORWARDING) and name != own
