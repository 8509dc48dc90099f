"""The examples in docstrings of the Python API run as they are written."""

from __future__ import annotations

import doctest

import pytest

import muster
from muster.sdk import calls, job, local_cluster
from muster.sdk.cluster_choice import default_cluster
from muster.sdk.functions import run

MODULES = (calls, job, local_cluster, run)
EXAMPLES = [
    example
    for module in MODULES
    for example in doctest.DocTestFinder().find(module)
    if example.examples
]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_the_example_shows_what_happens(
    example: doctest.DocTest, cluster: muster.LocalCluster
) -> None:
    example.globs = {"muster": muster}

    try:
        with default_cluster(cluster.home):
            ran = doctest.DocTestRunner().run(example)
    finally:
        for left in cluster.list_jobs():
            left.delete()

    assert ran.failed == 0


def test_every_call_and_every_verb_of_a_job_has_an_example() -> None:
    shown = {example.name.rpartition(".")[2] for example in EXAMPLES}
    verbs = {name for name, value in vars(muster.Job).items() if callable(value)}
    verbs = {name for name in verbs if not name.startswith("_")} - {"of_summary"}
    calls_ = {name for name in muster.__all__ if name.islower() and name != "__version__"}

    assert not verbs - shown
    assert calls_ - shown == {"aio"}
