"""`arena open` and `arena logviewer`."""

from __future__ import annotations

import pytest

from muster.api.kinds import SERVICES
from muster.client import target
from muster.kube.auth import kube_config
from tests.cli.place import Place


def test_tensorboard_is_opened_or_the_error_says_how_to_get_one(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    def browse(url: str) -> bool:
        opened.append(url)
        return True

    monkeypatch.setattr("webbrowser.open", browse)
    place.job("a")
    code, _, err = place.arena("open", "a")
    assert code == 3
    assert "the job a has no TensorBoard" in err

    spec = {
        "type": "NodePort",
        "ports": [{"port": 6006, "nodePort": 30555}],
        "selector": {"a": "b"},
    }
    service = {"metadata": {"name": "a-tensorboard"}, "spec": spec}
    place.client.create(SERVICES.read_as(dict), service, namespace=place.namespace)
    local = target.Cluster(kube_config.load(place.kubeconfig), "local", "a test", local=True)
    monkeypatch.setattr(target, "find_cluster", lambda _: local)

    url = "http://127.0.0.1:30555"
    code, out, err = place.arena("open", "a")
    assert (code, out, opened) == (1, f"{url}\n", [])
    assert "the TensorBoard of a is not running: it has no pod yet" in err

    place.tensorboard("a")
    assert place.arena("open", "a")[:2] == (0, f"{url}\n")
    assert opened == [url]
    assert place.arena("open", "a", "--print")[1] == f"{url}\n"
    assert opened == [url]


def test_a_missing_dashboard_is_an_error(place: Place) -> None:
    place.job("a")

    for words in (["open"], ["logviewer", "a"]):
        code, out, err = place.arena(*words)
        assert (code, out) == (3, "")
        assert "error: this version has no dashboard\n" in err
