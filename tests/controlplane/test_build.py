"""The control plane's binaries are built once, whole, and from what is pinned."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.controlplane.build import BINARIES
from tests.controlplane.pin_versions import EVERY_PIN, MODULES, Pin, staging_replacements
from tests.repository import ROOT


class Machine:
    """A home of its own, and a `go` that notes each call and writes an executable."""

    def __init__(self, home: Path) -> None:
        self.calls = home / "calls"
        self._tools = home / "tools"
        self._tools.mkdir(parents=True)
        self._environment = {"HOME": str(home), "PATH": str(self._tools)}

    def install_go(self, *, breaks_on: str = "nothing") -> None:
        script = self._tools / "go"
        script.write_text(
            f"#!/bin/sh\nPATH={shlex.quote(os.environ['PATH'])}\n"
            'while [ "$1" != -o ]; do shift; done\n'
            f'echo "$(basename "$2")" >> {shlex.quote(str(self.calls))}\n'
            f'[ "$(basename "$2")" = {breaks_on} ] && {{ echo no room >&2; exit 1; }}\n'
            'mkdir -p "$(dirname "$2")" && echo built > "$2" && chmod +x "$2"\n'
        )
        script.chmod(0o755)

    def build(self, **environment: str) -> subprocess.CompletedProcess[str]:
        return self._run("-m", "tests.controlplane.build", **environment)

    def pytest(self, test: Path, **environment: str) -> str:
        plugins = ("-p", "tests.controlplane.fixture", "-p", "tests.controlplane.helm")
        options = ("-q", "-rsfE", "-o", "markers=kube", f"--rootdir={test.parent}", *plugins)
        words = ("-m", "pytest", *options, str(test))
        return self._run(*words, PYTHONPATH=str(ROOT), **environment).stdout

    def _run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=ROOT,
            env={**self._environment, **environment},
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "home")


def test_a_missing_go_is_reported_in_one_sentence(machine: Machine) -> None:
    result = machine.build()

    assert result.returncode == 1
    assert result.stderr.startswith("Go is not installed")
    assert len(result.stderr.splitlines()) == 1


def test_every_binary_is_built_into_the_cache_folder(machine: Machine, tmp_path: Path) -> None:
    machine.install_go()

    result = machine.build(XDG_CACHE_HOME=str(tmp_path / "cache"))

    folder = Path(result.stdout.strip())
    assert folder.is_relative_to(tmp_path / "cache" / "muster" / "controlplane")
    assert set(BINARIES) == {file.name for file in folder.iterdir()}
    for name in BINARIES:
        assert re.search(rf"^built {name}: \d+ s", result.stderr, re.MULTILINE)


def test_a_second_build_builds_nothing_and_needs_no_go(machine: Machine) -> None:
    machine.install_go()
    first = machine.build()

    second = machine.build(PATH="")

    assert (second.returncode, second.stdout) == (0, first.stdout)
    assert machine.calls.read_text().split() == list(BINARIES)


def test_two_builds_at_once_do_the_work_once(machine: Machine) -> None:
    machine.install_go()
    with ThreadPoolExecutor() as pool:
        first, second = pool.submit(machine.build), pool.submit(machine.build)

    assert first.result().returncode == second.result().returncode == 0
    assert machine.calls.read_text().split() == list(BINARIES)


def test_a_failed_build_leaves_no_partial_cache(machine: Machine) -> None:
    machine.install_go(breaks_on="kubectl")
    failed = machine.build()
    assert failed.returncode == 1
    assert failed.stderr.splitlines()[-1].endswith("no room")
    machine.install_go()

    again = machine.build()

    assert again.returncode == 0
    assert set(BINARIES) == {file.name for file in Path(again.stdout.strip()).iterdir()}


@pytest.mark.parametrize(
    ("required", "outcome"), [("netns", "1 skipped"), ("netns, go", "1 error")]
)
def test_without_go_tests_skip_unless_go_is_required(
    machine: Machine, tmp_path: Path, required: str, outcome: str
) -> None:
    test = tmp_path / "test_one.py"
    test.write_text(
        "import pytest\n@pytest.mark.kube\n"
        "def test_one(control_plane): raise AssertionError('never reached')\n"
    )

    report = machine.pytest(test, MUSTER_REQUIRE=required)

    assert report.splitlines()[-1].startswith(f"{outcome} in ")
    assert "Go is not installed" in report


@pytest.mark.parametrize(
    "body",
    ["control_plane): pass", "helm): pass", "request): request.getfixturevalue('control_plane')"],
)
def test_only_a_test_that_is_marked_kube_may_build_programs(
    machine: Machine, tmp_path: Path, body: str
) -> None:
    machine.install_go()
    test = tmp_path / "test_one.py"
    test.write_text(f"def test_one({body}\n")

    report = machine.pytest(test)

    assert re.match("1 (error|failed) in ", report.splitlines()[-1]), report
    assert "test_one.py::test_one uses programs that are built with Go, so mark it kube" in report
    assert not machine.calls.exists()


@pytest.mark.parametrize("pin", EVERY_PIN, ids=lambda pin: pin.wrapper)
def test_the_committed_modules_hold_the_pinned_versions(pin: Pin) -> None:
    text = (MODULES / pin.wrapper / "go.mod").read_text()

    assert f"{pin.module} {pin.version}" in text
    programs = {folder.name for folder in (MODULES / pin.wrapper).glob("*/")}
    assert all(
        package in text or Path(package).name in programs for package in pin.packages.values()
    )


def test_staging_modules_are_replaced_by_their_published_twins() -> None:
    go_mod = {
        "Replace": [
            {"Old": {"Path": "k8s.io/b"}, "New": {"Path": "./staging/src/k8s.io/b"}},
            {"Old": {"Path": "k8s.io/a"}, "New": {"Path": "./staging/src/k8s.io/a"}},
            {"Old": {"Path": "example.org/c"}, "New": {"Path": "example.org/d"}},
        ]
    }

    replacements = staging_replacements(json.dumps(go_mod), "v1.36.3")

    assert replacements == ["k8s.io/a => k8s.io/a v0.36.3", "k8s.io/b => k8s.io/b v0.36.3"]
