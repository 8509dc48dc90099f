"""What a node leaves on the machine: mounts, links, firewall tables, cgroups, processes."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.realnode.node_namespaces import CGROUP, CGROUPS

PROGRAMS = re.compile(rb"/(kubelet|containerd[^/\0]*|kube-proxy|coredns)\0")


@dataclass(frozen=True)
class NodeFootprint:
    """Names of everything of a node that can be seen from outside of it."""

    names: frozenset[str]

    @classmethod
    def now(cls) -> NodeFootprint:
        return cls(frozenset([*_mounts(), *_network(), *_cgroups(), *_programs()]))

    def beyond(self, before: NodeFootprint) -> list[str]:
        """What is there now and was not there before."""
        return sorted(self.names - before.names)


def _mounts() -> list[str]:
    rows = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return [f"mount {row[4]}" for row in rows if "muster-" in row[4] or "netns" in row[4]]


def _network() -> list[str]:
    links = [f"link {link.name}" for link in Path("/sys/class/net").iterdir()]
    tables = subprocess.run(["nft", "list", "tables"], capture_output=True, text=True, check=True)
    own = [line for line in tables.stdout.splitlines() if "kube" in line or "filter" in line]
    return [link for link in links if link == "link pods"] + own


def _cgroups() -> list[str]:
    return [f"cgroup {path}" for path in CGROUPS.glob(f"*/{CGROUP}")]


def _programs() -> list[str]:
    found = []
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            program = PROGRAMS.search(line.read_bytes())
        except OSError:  # it has ended
            continue
        if program:
            found.append(f"process {line.parent.name} {program[1].decode()}")
    return found
