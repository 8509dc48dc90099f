"""Which cluster a verb talks to: the order is fixed, and a broken choice is never passed over."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from muster.cli.cluster import Where, choose, home, keep_choice
from muster.errors import ConfigError
from muster.local.home import Home


def kubeconfig(path: Path, context: str = "ctx", url: str = "https://example.invalid:6443") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"""
apiVersion: v1
kind: Config
current-context: {context}
clusters: [{{name: c, cluster: {{server: "{url}"}}}}]
users: [{{name: u, user: {{token: t}}}}]
contexts: [{{name: {context}, context: {{cluster: c, user: u, namespace: team}}}}]
""")
    return path


@pytest.fixture(autouse=True)
def empty_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MUSTER_HOME", str(tmp_path / "muster"))


@contextmanager
def running_local_cluster() -> Iterator[None]:
    """This process plays the daemon."""
    kubeconfig(home() / "kubeconfig")
    with Home(home()).held():
        Home(home()).announce(url="https://example.invalid:6443")
        yield


def source(where: Where = Where()) -> str:  # noqa: B008 - frozen
    found = choose(where)
    return found.source if found else ""


def test_nothing_configured_is_no_cluster() -> None:
    assert choose(Where()) is None


def test_the_order_is_flag_environment_choice_user_file_local(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with running_local_cluster():
        check_the_order(monkeypatch, tmp_path)


def check_the_order(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert source() == "the local cluster"

    user = kubeconfig(tmp_path / "home" / ".kube" / "config", "mine")
    assert source() == "~/.kube/config"

    keep_choice("local")
    assert source() == "arena use"

    monkeypatch.setenv("KUBECONFIG", str(user))
    assert source() == "$KUBECONFIG"

    assert source(Where(kubeconfig=kubeconfig(tmp_path / "other", "other"))) == "--kubeconfig"


def test_a_kept_context_is_the_one_used(tmp_path: Path) -> None:
    kubeconfig(tmp_path / "home" / ".kube" / "config", "mine")

    keep_choice("kube:mine")

    found = choose(Where())
    assert found is not None
    assert (found.name, found.local) == ("mine", False)


def test_a_kept_local_choice_never_falls_through_to_another_cluster(tmp_path: Path) -> None:
    kubeconfig(tmp_path / "home" / ".kube" / "config", "mine")
    kubeconfig(home() / "kubeconfig")
    keep_choice("local")

    assert choose(Where()) is None


def test_a_local_cluster_that_is_down_is_no_cluster() -> None:
    kubeconfig(home() / "kubeconfig")

    assert choose(Where()) is None


def test_an_unreadable_kubeconfig_variable_is_an_error_not_a_local_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kubeconfig(home() / "kubeconfig")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "missing"))

    with pytest.raises(ConfigError, match="missing"):
        choose(Where())


def test_the_namespace_is_the_flag_then_the_context(tmp_path: Path) -> None:
    where = Where(kubeconfig=kubeconfig(tmp_path / "k"))
    cluster = choose(where)

    assert cluster is not None
    assert where.namespace_in(cluster) == "team"
    assert Where(namespace="flag").namespace_in(cluster) == "flag"


def test_keeping_a_choice_returns_the_former_one() -> None:
    assert keep_choice("local") == ""
    assert keep_choice("kube") == "local"
    assert keep_choice("") == "kube"
    assert keep_choice("local") == ""
