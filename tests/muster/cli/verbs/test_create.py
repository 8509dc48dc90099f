"""`arena create` on the local API server and on a real one: the same words."""

from __future__ import annotations

from tests.builders import config_map
from tests.muster.cli.applier import Applier


def test_create_rejects_an_existing_object_and_apply_takes_it_over(applier: Applier) -> None:
    assert applier.arena("create", "-f", "-", stdin=[config_map("x", a="1")])[:2] == (
        0,
        ["configmap/x created"],
    )

    code, lines, err = applier.arena("create", "-f", "-", stdin=[config_map("x", a="2")])

    assert (code, lines) == (1, [])
    assert 'configmaps "x" already exists' in err
    assert "arena apply -f" in err
    assert applier.apply(config_map("x", a="2"))[:2] == (0, ["configmap/x configured"])
    assert applier.data("x") == {"a": "2"}


def test_create_accepts_generate_name_and_apply_does_not(applier: Applier) -> None:
    item = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "gen-"}}

    code, (line,), _ = applier.arena("create", "-f", "-", stdin=[item])

    assert code == 0
    assert line.startswith("configmap/gen-")
    assert line.endswith(" created")
    assert applier.apply(item)[0] == 2


def test_a_server_dry_run_of_create_stores_nothing(applier: Applier) -> None:
    line = applier.arena("create", "--dry-run=server", "-f", "-", stdin=[config_map("x")])

    assert line[:2] == (0, ["configmap/x created (server dry run)"])
    assert applier.data("x") is None
