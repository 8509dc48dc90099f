"""Kubeconfig files: the endpoints they give, and the errors of invalid files."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from kubekit.client.auth import kube_config
from kubekit.client.auth.endpoint import in_cluster
from kubekit.errors import ConfigError
from tests.controlplane.certificates import Authority

if TYPE_CHECKING:
    from pathlib import Path

PAIR = Authority().client("me")


def document(**changes: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "c", "cluster": {"server": "https://c:6443", **changes.get("cluster", {})}}
        ],
        "users": [{"name": "u", "user": changes.get("user", {"token": "secret"})}],
        "contexts": [
            {"name": "prod", "context": {"cluster": "c", "user": "u", **changes.get("context", {})}}
        ],
        "current-context": "prod",
    }


def written(folder: Path, content: Any, name: str = "config") -> Path:
    path = folder / name
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def test_a_context_gives_server_token_and_namespace(tmp_path: Path) -> None:
    endpoint = kube_config.load(written(tmp_path, document(context={"namespace": "team"})))
    assert (endpoint.url, endpoint.namespace, endpoint.name) == ("https://c:6443", "team", "prod")
    assert endpoint.credentials.get().authorization == "Bearer secret"
    assert endpoint.verify
    assert endpoint.ca is None


def test_json_is_read_as_well_as_yaml(tmp_path: Path) -> None:
    assert kube_config.load(written(tmp_path, json.dumps(document()))).url == "https://c:6443"
    with pytest.raises(ConfigError, match="current-context: is not set"):
        kube_config.load(written(tmp_path, "{clusters: [], contexts: []}\n"))


def test_certificates_come_inline_or_from_files_beside_the_kubeconfig(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes(PAIR.certificate)
    (tmp_path / "key.pem").write_bytes(PAIR.key)
    user = {
        "client-certificate-data": base64.b64encode(PAIR.certificate).decode(),
        "client-key": "key.pem",
    }
    cluster = {
        "certificate-authority": "ca.pem",
        "tls-server-name": "inner",
        "proxy-url": "http://p:1",
    }
    endpoint = kube_config.load(written(tmp_path, document(user=user, cluster=cluster)))
    assert endpoint.ca == PAIR.certificate
    credential = endpoint.credentials.get()
    assert (credential.certificate, credential.key) == (PAIR.certificate, PAIR.key)
    assert (endpoint.server_name, endpoint.proxy) == ("inner", "http://p:1")


def test_verification_can_be_switched_off(tmp_path: Path) -> None:
    cluster = {"insecure-skip-tls-verify": True}
    assert not kube_config.load(written(tmp_path, document(cluster=cluster))).verify


def test_basic_authentication_is_supported(tmp_path: Path) -> None:
    user = {"username": "me", "password": "pw"}
    endpoint = kube_config.load(written(tmp_path, document(user=user)))
    assert endpoint.credentials.get().authorization == "Basic bWU6cHc="


def test_several_files_merge_and_the_first_to_name_a_thing_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = document(cluster={"server": "https://first"})
    del first["current-context"]
    second = document(cluster={"server": "https://second"})
    second["contexts"].append({"name": "other", "context": {"cluster": "c", "user": "u"}})
    second["current-context"] = "other"
    paths = [written(tmp_path, first, "1"), tmp_path / "absent", written(tmp_path, second, "2")]
    monkeypatch.setenv("KUBECONFIG", ":".join(map(str, paths)))
    endpoint = kube_config.load()
    assert (endpoint.name, endpoint.url) == ("other", "https://first")


def test_the_default_kubeconfig_is_in_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".kube").mkdir()
    written(tmp_path / ".kube", document())
    assert kube_config.load().name == "prod"


def test_an_unknown_context_suggests_known_ones(tmp_path: Path) -> None:
    path = written(tmp_path, document())
    with pytest.raises(ConfigError) as wrong:
        kube_config.load(path, "prd")
    assert str(wrong.value) == (
        f"{path}: there is no context 'prd' (known: prod); did you mean 'prod'?"
    )


USER = "users[u].user"


@pytest.mark.parametrize(
    ("content", "where"),
    [
        ("clusters: [", "is not a kubeconfig"),
        ("- a\n", "the top level must be a mapping"),
        ({"clusters": {"a": 1}}, "clusters: must be a list"),
        ({"clusters": [{"cluster": {}}]}, "clusters[0].name: is missing"),
        (document(cluster={"server": ""}), "clusters[c].cluster.server: is missing"),
        (document(cluster={"server": "c:6443"}), "clusters[c].cluster.server: 'c:6443' is not an"),
        (document(cluster={"server": 5}), "clusters[c].cluster.server: must be a string"),
        (
            document(cluster={"certificate-authority-data": "%%%"}),
            "clusters[c].cluster.certificate-authority-data: is not base64",
        ),
        (
            document(cluster={"certificate-authority-data": "YWJj"}),
            "clusters[c].cluster.certificate-authority-data: is not PEM",
        ),
        (
            document(cluster={"certificate-authority": "nowhere.pem"}),
            "clusters[c].cluster.certificate-authority:",
        ),
        (
            document(cluster={"insecure-skip-tls-verify": "yes"}),
            "clusters[c].cluster.insecure-skip-tls-verify: must be true or false",
        ),
        (document(context={"cluster": "z"}), "contexts[prod].context.cluster: there is no cluster"),
        (document(context={"user": "z"}), "contexts[prod].context.user: there is no user 'z'"),
        (document(user={"auth-provider": {}}), f"{USER}.auth-provider: is no longer supported"),
        (document(user={"exec": {}}), f"{USER}.exec.command: is missing"),
        (document(user={"exec": {"command": "x"}}), f"{USER}.exec.apiVersion: None is not"),
        (
            document(user={"client-certificate-data": base64.b64encode(PAIR.certificate).decode()}),
            f"{USER}.client-key: is missing",
        ),
    ],
)
def test_errors_name_the_file_and_the_key(tmp_path: Path, content: Any, where: str) -> None:
    path = written(tmp_path, content)
    with pytest.raises(ConfigError) as wrong:
        kube_config.load(path)
    assert str(wrong.value).startswith(f"{path}: ")
    assert where in str(wrong.value)
    assert "\n" not in str(wrong.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "absent"
    with pytest.raises(ConfigError, match=f"{path}: No such file"):
        kube_config.load(path)


def test_in_a_pod_the_service_account_is_used(tmp_path: Path) -> None:
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    assert in_cluster(environ, tmp_path) is None, "no token, no pod"
    (tmp_path / "token").write_text("t1\n")
    (tmp_path / "ca.crt").write_bytes(PAIR.certificate)
    (tmp_path / "namespace").write_text("team")
    assert in_cluster({}, tmp_path) is None
    endpoint = in_cluster(environ, tmp_path)
    assert endpoint is not None
    assert (endpoint.url, endpoint.namespace) == ("https://[fd00::1]:443", "team")
    assert endpoint.credentials.get().authorization == "Bearer t1"
