"""Each kind of job says in its own variables which replica is rank 0."""

from __future__ import annotations

import json

import pytest

from muster.sdk.functions.standalone.program import Refusal, check_python, rank


def tf_config(role: str, index: int, *roles: str) -> dict[str, str]:
    cluster = {name: ["host:1"] for name in roles}
    return {
        "TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": role, "index": index}}),
    }


@pytest.mark.parametrize(
    ("kind", "env", "is_rank_0"),
    [
        ("JAXJob", {"PROCESS_ID": "0"}, True),
        ("JAXJob", {"PROCESS_ID": "1"}, False),
        ("PyTorchJob", {"RANK": "0"}, True),
        ("PyTorchJob", {"RANK": "3"}, False),
        ("MPIJob", {"OMPI_COMM_WORLD_RANK": "0"}, True),
        ("MPIJob", {"OMPI_COMM_WORLD_RANK": "1"}, False),
        ("MPIJob", {"PMI_RANK": "1"}, False),
        ("TFJob", {}, True),
        ("TFJob", tf_config("chief", 0, "chief", "worker"), True),
        ("TFJob", tf_config("worker", 0, "chief", "worker"), False),
        ("TFJob", tf_config("worker", 0, "ps", "worker"), True),
        ("TFJob", tf_config("worker", 1, "ps", "worker"), False),
        ("TFJob", tf_config("ps", 0, "ps", "worker"), False),
        ("TFJob", tf_config("evaluator", 0, "chief", "evaluator"), False),
    ],
)
def test_rank_0_of_each_kind(kind: str, env: dict[str, str], is_rank_0: bool) -> None:
    assert (rank(kind, env) == 0) is is_rank_0


def test_another_minor_version_of_python_is_refused() -> None:
    check_python([3, 12], (3, 12, 9))

    with pytest.raises(Refusal, match=r"sent by Python 3\.12, and the replica has Python 3\.13"):
        check_python([3, 12], (3, 13, 0))
