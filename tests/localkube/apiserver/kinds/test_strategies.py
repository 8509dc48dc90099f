"""The rules of a kind are in its Strategy, and nowhere else."""

from __future__ import annotations

import re
from pathlib import Path

import localkube.apiserver
from localkube.apiserver.resource_registry import BUILTIN

ROOT = Path(localkube.apiserver.__file__).parent
GENERIC = ("*.py", "admission/*.py", "http/*.py", "patch/*.py", "schema/*.py", "views/*.py")
FOLLOWS_QUOTAS = "admission/quota.py"


def test_generic_code_does_not_ask_for_the_kind() -> None:
    question = re.compile(r"""\bcollection (==|!=|in|not in) [("'{_A-Z]""")
    asking = [
        f"{path.relative_to(ROOT)}:{number} {line.strip()}"
        for pattern in GENERIC
        for path in sorted(ROOT.glob(pattern))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if question.search(line)
    ]

    assert [line for line in asking if not line.startswith(FOLLOWS_QUOTAS)] == []


def test_a_collection_has_one_strategy_for_all_that_is_stored_in_it() -> None:
    """Quotas know an object only by its collection."""
    by_collection = {resource.collection: resource.strategy for resource in BUILTIN}

    for resource in BUILTIN:
        stored = by_collection[resource.collection]
        assert stored.quota.charge is resource.strategy.quota.charge
        assert stored.quota.counted_as == resource.strategy.quota.counted_as
        assert stored.table.columns == resource.strategy.table.columns
