"""The Containerfile: any base image, an ordinary user, and the documented packages of its test."""

from __future__ import annotations

from tests.realnode.node import PACKAGES
from tests.repository import ROOT

LINES = (ROOT / "deploy" / "Containerfile").read_text().splitlines()


def test_every_stage_starts_from_the_replaceable_base() -> None:
    bases = [line.split()[1] for line in LINES if line.startswith("FROM ")]

    assert bases == ["${BASE}", "${BASE}"]


def test_the_user_is_a_number_other_than_root() -> None:
    (user,) = (line.split()[1] for line in LINES if line.startswith("USER "))

    assert all(part.isdecimal() and int(part) > 0 for part in user.split(":"))


def test_the_guide_names_every_package_that_a_real_node_needs() -> None:
    guide = (ROOT / "CONTRIBUTING.md").read_text()
    (install,) = (line for line in guide.splitlines() if "apt-get install" in line)

    assert set(PACKAGES.values()) <= set(install.split())
