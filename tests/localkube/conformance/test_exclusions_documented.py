"""The documentation lists everything that is not compared."""

from __future__ import annotations

import re

from tests.localkube.conformance.cases import ALL
from tests.localkube.conformance.normalization import EXCLUSIONS
from tests.repository import ROOT

DOCUMENT = ROOT / "docs/localkube/apiserver.md"


def listed(heading: str) -> list[str]:
    section = DOCUMENT.read_text().split(f"## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"^\| `([a-z-]+)` \|", section, re.MULTILINE)


def test_every_exclusion_is_documented_and_every_documented_one_exists() -> None:
    always = [e.name for e in EXCLUSIONS if e.always]
    sometimes = [e.name for e in EXCLUSIONS if not e.always]

    assert listed("Not compared in any case") == always
    assert sorted(listed("Not compared in the cases that name it")) == sorted(sometimes)


def test_every_exclusion_is_used_by_a_case() -> None:
    named = {name for case in ALL for name in case.differs}

    assert {e.name for e in EXCLUSIONS if not e.always} == named


def test_no_two_cases_have_the_same_name() -> None:
    names = [case.name for case in ALL]

    assert sorted(names) == sorted(set(names))
