"""Which cluster is used: the order is fixed, and a broken choice is an error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kubekit.client.auth.endpoint import Endpoint
from kubekit.errors import ConfigError, UsageError
from muster.cli import main
from muster.client import target
from muster.client.home import Home
from muster.client.target import Cluster, Target


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
    kubeconfig(Home.of_user().kubeconfig)
    with Home.of_user().held():
        Home.of_user().write_status(url="https://example.invalid:6443")
        yield


def source(where: Target = Target()) -> str:  # noqa: B008 - frozen
    cluster = where.find()
    return cluster.source if cluster else ""


def test_nothing_configured_is_no_cluster() -> None:
    assert Target().find() is None


def test_the_order_is_flag_environment_choice_user_file_local(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with running_local_cluster():
        check_the_order(monkeypatch, tmp_path)


def check_the_order(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert source() == "the local cluster"

    user = kubeconfig(tmp_path / "home" / ".kube" / "config", "mine")
    assert source() == "~/.kube/config"

    Home.of_user().choose("local")
    assert source() == "arena up or arena use"

    monkeypatch.setenv("KUBECONFIG", str(user))
    assert source() == "$KUBECONFIG"

    assert source(Target(kubeconfig=kubeconfig(tmp_path / "other", "other"))) == "--kubeconfig"


def test_a_stored_context_is_used(tmp_path: Path) -> None:
    kubeconfig(tmp_path / "home" / ".kube" / "config", "mine")

    Home.of_user().choose("kube:mine")

    cluster = Target().find()
    assert cluster is not None
    assert (cluster.name, cluster.local) == ("mine", False)


def test_a_stored_local_choice_never_falls_through_to_another_cluster(tmp_path: Path) -> None:
    kubeconfig(tmp_path / "home" / ".kube" / "config", "mine")
    kubeconfig(Home.of_user().kubeconfig)
    Home.of_user().choose("local")

    assert Target().find() is None


def test_a_local_cluster_that_is_down_is_no_cluster() -> None:
    kubeconfig(Home.of_user().kubeconfig)

    assert Target().find() is None


def test_an_unreadable_kubeconfig_variable_is_an_error_not_a_local_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kubeconfig(Home.of_user().kubeconfig)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "missing"))

    with pytest.raises(ConfigError, match="missing"):
        Target().find()


def test_the_namespace_is_the_flag_then_the_context(tmp_path: Path) -> None:
    where = Target(kubeconfig=kubeconfig(tmp_path / "k"))
    cluster = where.find()

    assert cluster is not None
    assert where.namespace_in(cluster) == "team"
    assert Target(namespace="flag").namespace_in(cluster) == "flag"


@pytest.mark.parametrize("choice", ["", "local", "kube:one"])
def test_an_explicit_context_takes_precedence_over_the_stored_choice(
    tmp_path: Path, choice: str
) -> None:
    kubeconfig(tmp_path / "home" / ".kube" / "config", "two", "https://two.invalid:6443")
    Home.of_user().choose(choice)

    with running_local_cluster():
        cluster = Target(context="two").find()
        with pytest.raises(ConfigError, match=r"'three'.*two"):
            Target(context="three").find()

    assert cluster is not None
    assert (cluster.name, cluster.source) == ("two", "--context")


def test_an_explicit_context_takes_precedence_in_a_pod(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubeconfig(tmp_path / "home" / ".kube" / "config", "two")
    monkeypatch.setattr(target, "in_cluster", lambda: Endpoint("https://pod.invalid"))

    assert source(Target(context="two")) == "--context"


@pytest.mark.parametrize("before", ["", "kube", "kube:mine"])
def test_the_former_choice_is_restored(before: str) -> None:
    home = Home.of_user()
    home.choose(before)

    home.choose_local()
    home.choose_local()
    assert home.choice() == "local"

    home.choose_former()
    assert home.choice() == before


def test_a_choice_made_while_the_local_cluster_is_up_stays() -> None:
    home = Home.of_user()
    home.choose_local()
    home.choose("kube")

    home.choose_former()

    assert home.choice() == "kube"


def test_a_choice_that_cannot_be_used_is_not_stored(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run("arena", ["use", "kube"]) == 2

    err = capsys.readouterr().err
    assert "arena use kube: " in err
    assert "No such file" in err
    assert Home.of_user().choice() == ""


def test_a_stored_choice_that_no_longer_works_is_named_with_the_fix(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    user = kubeconfig(tmp_path / "home" / ".kube" / "config")
    assert main.run("arena", ["use", "kube"]) == 0
    user.unlink()
    capsys.readouterr()

    assert main.run("arena", ["list"]) == 2

    err = capsys.readouterr().err
    assert "arena use kube: " in err
    assert "`arena use local`" in err
    assert main.run("arena", ["use", "local"]) == 0


@pytest.mark.parametrize("words", [("open", "x"), ("get", "x"), ("logs", "x"), ("explain", "x")])
def test_a_verb_that_only_reads_starts_no_cluster(words: tuple[str, ...]) -> None:
    assert main.run("arena", words) == 5
    assert Home.of_user().running() is None


def test_a_cluster_is_shown_with_the_place_where_it_was_configured() -> None:
    endpoint = Endpoint.with_token("https://127.0.0.1:1", "t")
    cluster = Cluster(endpoint, "mine", "~/.kube/config", local=False)

    assert str(cluster) == "cluster: mine (from ~/.kube/config)"


def test_a_home_means_its_own_local_cluster_and_no_other(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    other = Home(tmp_path / "other")
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path / "k")))

    assert Target(home=other).find() is None
    other.make()
    kubeconfig(other.kubeconfig)
    with other.held():
        other.write_status(url="https://example.invalid:6443")
        cluster = Target(home=other).find()

    assert cluster is not None
    assert (cluster.local, cluster.home) == (True, other)


def two_contexts(path: Path) -> Path:
    """A kubeconfig with the contexts one, which is the current one, and two."""
    one = kubeconfig(path, "one", "https://one.invalid:6443")
    text = one.read_text().replace("contexts: [", "contexts: [{name: two, context: {cluster: c}}, ")
    one.write_text(text)
    return one


def test_a_choice_is_a_context_of_the_files_that_kubectl_reads(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(two_contexts(tmp_path / "k")))
    kubeconfig(Path.home() / ".kube" / "config", context="three")

    cluster = Target(choice="kube:two").find()

    assert cluster is not None
    assert cluster.name == "two"
    assert Target(choice="local").find() is None
    with pytest.raises(ConfigError, match=r"there is no context 'three' \(known: one, two\)"):
        Target(choice="kube:three").find()
    with pytest.raises(UsageError, match="'moon' is not a choice"):
        Target(choice="moon").find()


def test_a_chosen_context_of_the_environments_file_is_used_with_and_without_the_variable(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kubeconfig(Path.home() / ".kube" / "config", context="mine")
    two_contexts(tmp_path / "k")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", "k")

    assert main.run("arena", ["use", "kube:two"]) == 0

    assert capsys.readouterr().err == "cluster: two (from arena use)\n"
    monkeypatch.chdir("/")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "k"))
    assert Target().find().name == "two"  # type: ignore[union-attr]
    assert Target(context="one").find().name == "one"  # type: ignore[union-attr]
    monkeypatch.delenv("KUBECONFIG")
    assert Target().find().name == "two"  # type: ignore[union-attr]
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path / "other", "other")))
    assert source() == "$KUBECONFIG"


def test_several_files_are_stored_with_the_choice(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    files = (kubeconfig(tmp_path / "a", "a"), two_contexts(tmp_path / "b"), tmp_path / "absent")
    monkeypatch.setenv("KUBECONFIG", ":".join(map(str, files)))

    assert main.run("arena", ["use", "kube:two"]) == 0

    home = Home.of_user()
    assert (home.choice(), home.choice_files()) == ("kube:two", files)
    home.choose_local()
    home.choose_former()
    assert (home.choice(), home.choice_files()) == ("kube:two", files)


def test_a_choice_that_the_environment_overrides_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path / "k")))

    assert main.run("arena", ["use", "local"]) == 0

    err = capsys.readouterr().err
    assert "cluster: ctx (from $KUBECONFIG)" in err
    assert "`unset KUBECONFIG`" in err
