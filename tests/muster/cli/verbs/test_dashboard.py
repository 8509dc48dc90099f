"""`muster dashboard --in-cluster`: its settings."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from muster.cli.verbs import dashboard
from muster.client.target import Target

if TYPE_CHECKING:
    from pathlib import Path


def test_users_of_a_cluster_are_not_sent_to_a_command_of_another_machine(tmp_path: Path) -> None:
    entry = {"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}
    context = {"name": "c", "context": {"cluster": "c", "user": ""}}
    config = {"clusters": [entry], "contexts": [context], "current-context": "c"}
    (tmp_path / "config").write_text(json.dumps(config))
    given = {"read_only": False, "hosts": (), "reader_image": ""}

    _, policy = dashboard._pod(Target(kubeconfig=tmp_path / "config"), given)

    assert "arena open" not in policy.login_hint
    assert "bearer token of the cluster" in policy.login_hint
