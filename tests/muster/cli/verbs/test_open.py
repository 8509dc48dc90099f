"""`arena open` and `arena logviewer`."""

from __future__ import annotations

import pytest

from kubekit.client.auth import kube_config
from kubekit.objects.kinds import SERVICES
from muster.client import target
from muster.client.home import Home
from muster.web.access.keys import Keys, Tokens
from tests.muster.cli.place import Place


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses that were opened in a browser."""
    urls: list[str] = []

    def browse(url: str) -> bool:
        urls.append(url)
        return True

    monkeypatch.setattr("webbrowser.open", browse)
    return urls


def test_tensorboard_is_opened_or_the_error_says_how_to_get_one(
    place: Place, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
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
    monkeypatch.setattr(target.Target, "find", lambda _: local)

    url = "http://127.0.0.1:30555"
    code, out, err = place.arena("open", "a")
    assert (code, out, opened) == (1, f"{url}\n", [])
    assert "the TensorBoard of a does not answer yet: it has no pod yet" in err

    place.tensorboard("a")
    assert place.arena("open", "a")[:2] == (0, f"{url}\n")
    assert opened == [url]
    assert place.arena("open", "a", "--print")[1] == f"{url}\n"
    assert opened == [url]


def test_a_cluster_without_a_dashboard_is_an_error_with_the_next_step(place: Place) -> None:
    place.job("a")

    for words in (["open"], ["logviewer", "a"]):
        code, out, err = place.arena(*words)
        assert (code, out) == (1, "")
        assert "does not serve a dashboard\n`muster dashboard` serves one for this cluster." in err
    assert place.arena("logviewer", "nope")[0] == 3


def test_the_dashboard_is_opened_with_a_fresh_token(
    place: Place, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place.job("a")
    local = target.Cluster(kube_config.load(place.kubeconfig), "local", "a test", local=True)
    monkeypatch.setattr(target.Target, "find", lambda _: local)
    home = Home.of_user()
    with home.held():
        home.write_status()
        assert "started without its dashboard" in place.arena("open")[2]

        tokens = Tokens(Keys.renew(home.dashboard_keys))
        home.write_status(dashboard="http://127.0.0.1:7080")
        for words, path in (
            (["open"], "/"),
            (["logviewer", "a"], f"/jobs/{place.namespace}/TFJob/a"),
        ):
            code, out, _ = place.arena(*words)
            address, _, token = out.strip().partition("?token=")
            assert (code, address) == (0, f"http://127.0.0.1:7080{path}")
            assert tokens.redeem(token)
    assert len(opened) == 1
