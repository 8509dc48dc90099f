"""Where control groups can be made, on machines that are folders."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from localkube.node.runtime.cgroup_search import LEAF, Machine, find_place
from localkube.node.runtime.cgroups import Hierarchy, Place

PID = 4711
ALL = "cpu memory pids"


def no_systemd(_: str) -> str:
    return "no control group is delegated to this user"


class Fake:
    """A machine with control groups in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.proc = folder / "proc"
        self.root = folder / "cgroup"
        self.proc.mkdir()
        self.root.mkdir()
        (self.proc / "mountinfo").write_text("")

    def mount(self, kind: str, place: Path, options: str) -> None:
        with (self.proc / "mountinfo").open("a") as file:
            file.write(f"30 20 0:1 / {place} rw - {kind} none {options}\n")

    def enter(self, text: str) -> None:
        (self.proc / "cgroup").write_text(text)

    def group(self, path: str, *, has: str = "", distributes: str = "", pids: str = "") -> Path:
        """A group of version 2."""
        place = self.root / path
        place.mkdir(parents=True, exist_ok=True)
        (place / "cgroup.controllers").write_text(has)
        (place / "cgroup.subtree_control").write_text(distributes)
        (place / "cgroup.procs").write_text(pids)
        return place

    def find(self, enter_scope: Callable[[str], str] = no_systemd) -> Place:
        return find_place(self.folder, Machine(self.proc, PID, enter_scope))


@pytest.fixture
def machine(tmp_path: Path) -> Fake:
    return Fake(tmp_path)


def only(place: Place) -> Hierarchy:
    (hierarchy,) = place.hierarchies
    return hierarchy


def test_version_1_is_used_for_the_controllers_that_it_has(machine: Fake) -> None:
    cpu, memory, pids = (machine.root / name for name in ("cpu", "memory", "pids"))
    for folder in (cpu / "ours", memory / "theirs", pids):
        folder.mkdir(parents=True)
    machine.mount("cgroup", cpu, "rw,cpu,cpuacct")
    machine.mount("cgroup", memory, "rw,memory")
    machine.mount("cgroup2", machine.group("unified"), "rw")
    machine.mount("cgroup", pids, "rw,pids")
    machine.enter("5:pids:/\n4:memory:/theirs\n3:cpu,cpuacct:/ours\n0::/\n")

    place = machine.find()

    assert [(h.folder.parent, h.controllers, h.version_2) for h in place.hierarchies] == [
        (cpu / "ours", ("cpu",), False),
        (memory / "theirs", ("memory",), False),
        (pids, ("pids",), False),
    ]
    assert place.reasons == {}


def test_version_2_is_used_in_the_nearest_group_that_distributes_all(machine: Fake) -> None:
    machine.group("", has=ALL, distributes=ALL)
    above = machine.group("app.slice", has=ALL, distributes=ALL)
    machine.group("app.slice/x.slice", has=ALL, distributes="memory")
    machine.group("app.slice/x.slice/session.scope", has="memory", pids=f"1\n{PID}\n")
    machine.mount("cgroup2", machine.root, "rw")
    machine.enter("0::/app.slice/x.slice/session.scope\n")

    hierarchy = only(machine.find())

    assert (hierarchy.folder.parent, hierarchy.controllers) == (above, ("cpu", "memory", "pids"))
    assert hierarchy.version_2


def test_a_machine_that_does_not_delegate_says_so_for_each_resource(machine: Fake) -> None:
    machine.group("", has=ALL, pids=f"1\n{PID}\n")
    machine.mount("cgroup2", machine.root, "rw")
    machine.enter("0::/\n")

    place = machine.find()

    assert place.hierarchies == ()
    reason = "no control group is delegated to this user"
    assert place.reasons == {"cpu": reason, "memory": reason, "pids": reason}


@pytest.mark.parametrize(
    ("kind", "options", "reason"),
    [
        ("cgroup", "rw,memory", "only root may use the control groups of this machine, "),
        ("cgroup2", "rw", "no control group is delegated to this user "),
    ],
)
def test_a_user_without_control_groups_is_told_the_next_step(
    machine: Fake, monkeypatch: pytest.MonkeyPatch, kind: str, options: str, reason: str
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    machine.mount(kind, machine.root / "nowhere", options)
    machine.enter("0::/\n")

    for text in machine.find().reasons.values():
        assert text.startswith(reason)
        assert text.endswith("(see Limits in docs/localkube/node.md)")


def test_a_controller_that_is_not_delegated_is_missing_alone(machine: Fake) -> None:
    """systemd before version 252 does not delegate cpu to users."""
    own = machine.group("x.scope", has="memory pids", pids=f"{PID}\n")
    machine.group("", has=ALL)
    machine.mount("cgroup2", machine.root, "rw")
    machine.enter("0::/x.scope\n")

    place = machine.find()

    reason = "systemd does not delegate cpu (see Limits in docs/localkube/node.md)"
    assert place.reasons == {"cpu": reason}
    assert place.leaf == own / LEAF


def enter_own_scope(machine: Fake, path: str) -> Callable[[str], str]:
    """What systemd does: a new group with this process alone in it."""

    def enter(_: str) -> str:
        machine.group(path, has=ALL, pids=f"{PID}\n")
        machine.enter(f"0::/{path}\n")
        return ""

    return enter


def test_a_process_alone_in_its_group_moves_to_a_leaf(machine: Fake) -> None:
    own = machine.group("x.scope", has=ALL, pids=f"{PID}\n")
    machine.group("", has=ALL)
    machine.mount("cgroup2", machine.root, "rw")
    machine.enter("0::/x.scope\n")
    (own / LEAF).mkdir()

    place = machine.find()

    assert (own / LEAF / "cgroup.procs").read_text() == str(PID)
    assert (own / "cgroup.subtree_control").read_text() == "+cpu +memory +pids"
    assert place.leaf == own / LEAF


def test_systemd_is_asked_for_a_scope_in_a_login_session(machine: Fake) -> None:
    machine.group("", has=ALL)
    machine.group("session.scope", has=ALL, pids=f"1\n{PID}\n")
    machine.mount("cgroup2", machine.root, "rw")
    machine.enter("0::/session.scope\n")

    place = machine.find(enter_own_scope(machine, "muster.scope"))

    assert place.leaf == machine.root / "muster.scope" / LEAF


def test_a_second_search_of_the_same_process_finds_the_same_place(machine: Fake) -> None:
    machine.group("", has=ALL)
    scope = machine.group("x.scope", has=ALL, distributes=ALL)
    machine.group(f"x.scope/{LEAF}", has=ALL, pids=f"{PID}\n")
    machine.mount("cgroup2", machine.root, "rw")
    machine.enter(f"0::/x.scope/{LEAF}\n")

    place = machine.find()

    assert only(place).folder.parent == scope
    assert place.leaf is None


def test_a_group_of_another_user_is_not_used(
    machine: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.group("", has=ALL, distributes=ALL)
    machine.group("x.scope", has=ALL, pids=f"{PID}\n")
    machine.mount("cgroup2", machine.root, "rw")
    machine.enter("0::/x.scope\n")
    monkeypatch.setattr("os.access", lambda *_: False)

    assert machine.find().hierarchies == ()
