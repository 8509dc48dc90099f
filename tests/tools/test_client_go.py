"""client-go: informers, dynamic and metadata clients, leader election, discovery, exec."""

from __future__ import annotations

import re

import pytest

from tests.controlplane.pin_versions import MODULES
from tests.tools.conftest import Program

pytestmark = [pytest.mark.kube, pytest.mark.slow]

MAIN = (MODULES / "programs" / "client" / "main.go").read_text()
CHECKS = re.findall(r'^\t\{"(.+)", \w+\},$', MAIN, re.MULTILINE)


@pytest.fixture(scope="module")
def lines(api_client: Program, kubectl: Program) -> list[str]:
    """What the program prints: one line for each check."""
    kubectl.output("create", "namespace", "from-go")
    return api_client(str(api_client.kubeconfig), "from-go", timeout=200).stdout.splitlines()


def test_the_program_makes_all_checks(lines: list[str]) -> None:
    assert len(CHECKS) == len(lines) > 10


@pytest.mark.parametrize("check", CHECKS)
def test_client_go_works(lines: list[str], check: str) -> None:
    assert f"ok {check}" in lines, next(line for line in lines if check in line)
