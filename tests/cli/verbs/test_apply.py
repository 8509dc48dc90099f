"""`arena apply` and `arena create` on the local API server and on a real one: the same words."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muster.api import crds
from muster.api.kinds import CONFIG_MAPS, CRDS, NAMESPACES
from muster.api.meta import Key
from muster.cli import main
from muster.errors import NotFound
from muster.kube.auth import kube_config
from muster.kube.blocking_client import BlockingClient
from muster.kube.request import Request
from tests.cli.seeds import EXAMPLES, SEED
from tests.controlplane.control_plane import ControlPlane
from tests.local_server import LocalServer

Raw = dict[str, Any]

LAUGHS = "a0: &a0 [x]\n" + "".join(
    f"a{i + 1}: &a{i + 1} [*a{i}, *a{i}, *a{i}, *a{i}, *a{i}, *a{i}]\n" for i in range(12)
)


@dataclass(frozen=True)
class Place:
    """A cluster, a namespace of our own in it, and the command line pointed there."""

    kubeconfig: Path
    namespace: str
    capture: pytest.CaptureFixture[str]
    patch: pytest.MonkeyPatch

    def arena(
        self, verb: str, *words: str, stdin: str | Iterable[Raw] = ""
    ) -> tuple[int, list[str], str]:
        text = stdin if isinstance(stdin, str) else yaml.safe_dump_all(stdin)
        self.patch.setattr("sys.stdin", io.StringIO(text))
        flags = ["--kubeconfig", str(self.kubeconfig), "-n", self.namespace]
        code = main.run("arena", [verb, *flags, *words])
        out = self.capture.readouterr()
        err = out.err.partition("\n")[2] if out.err.startswith("cluster: ") else out.err
        return code, out.out.splitlines(), err

    def apply(self, *items: Raw, flags: tuple[str, ...] = ()) -> tuple[int, list[str], str]:
        return self.arena("apply", "-f", "-", *flags, stdin=items)

    def client(self) -> BlockingClient:
        return BlockingClient(kube_config.load(self.kubeconfig))

    def data(self, name: str) -> dict[str, str] | None:
        """What a ConfigMap holds; None if it is not there."""
        try:
            with self.client() as client:
                found = client.get(CONFIG_MAPS.read_as(dict), Key(self.namespace, name))
        except NotFound:
            return None
        return dict(found.get("data") or {})


@pytest.fixture(scope="module")
def local_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    with LocalServer(tmp_path_factory.mktemp("local")) as server:
        yield server


@pytest.fixture
def real(
    control_plane: ControlPlane,
    fresh_namespace: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Place:
    return Place(control_plane.kubeconfig, fresh_namespace, capsys, monkeypatch)


@pytest.fixture(params=["local", pytest.param("kubernetes", marks=pytest.mark.kube)])
def place(
    request: pytest.FixtureRequest,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Place:
    if request.param == "kubernetes":
        found: Place = request.getfixturevalue("real")
        return found
    server: LocalServer = request.getfixturevalue("local_server")
    with BlockingClient(kube_config.load(server.kubeconfig)) as client:
        created = client.create(NAMESPACES.read_as(dict), {"metadata": {"generateName": "test-"}})
    return Place(server.kubeconfig, created["metadata"]["name"], capsys, monkeypatch)


def config_map(name: str, **data: str) -> Raw:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def pod(name: str) -> Raw:
    spec = {"containers": [{"name": "c", "image": "i"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def deployment(name: str, replicas: int = 1) -> Raw:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod(name)["spec"]},
        },
    }


# apply


def test_apply_reports_created_then_unchanged_then_configured(place: Place) -> None:
    assert place.apply(config_map("x", a="1")) == (0, ["configmap/x created"], "")
    assert place.apply(config_map("x", a="1")) == (0, ["configmap/x unchanged"], "")
    assert place.apply(config_map("x", a="2")) == (0, ["configmap/x configured"], "")
    assert place.data("x") == {"a": "2"}


def test_defaults_of_the_server_do_not_count_as_changes(place: Place) -> None:
    assert place.apply(deployment("web"))[1] == ["deployment.apps/web created"]
    assert place.apply(deployment("web"))[1] == ["deployment.apps/web unchanged"]
    assert place.apply(deployment("web", 3))[1] == ["deployment.apps/web configured"]


def test_kinds_of_every_group_and_cluster_scoped_kinds_are_found(place: Place) -> None:
    name = f"{place.namespace}-second"
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}

    code, lines, _ = place.apply(space, pod("p"), deployment("d"))

    assert (code, lines) == (
        0,
        [f"namespace/{name} created", "pod/p created", "deployment.apps/d created"],
    )


def test_a_crd_and_an_object_of_its_kind_may_come_together(place: Place) -> None:
    group = f"{place.namespace}.example.com"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "versions": [version],
        },
    }
    widget = {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {}}
    try:
        code, lines, err = place.apply(crd, widget)
    finally:
        with place.client() as client:
            client.delete(CRDS, Key("", f"widgets.{group}"))

    assert (code, err) == (0, "")
    assert lines == [
        f"customresourcedefinition.apiextensions.k8s.io/widgets.{group} created",
        f"widget.{group}/w created",
    ]


def test_every_object_is_tried_and_the_exit_code_tells(place: Place) -> None:
    wrong = {"apiVersion": "nowhere.example.com/v1", "kind": "Thing", "metadata": {"name": "t"}}

    code, lines, err = place.apply(config_map("a"), wrong, config_map("b"))

    assert code == 3
    assert lines == ["configmap/a created", "configmap/b created"]
    assert "error: the cluster has no Thing in nowhere.example.com/v1" in err


def test_errors_of_different_kinds_are_all_printed(place: Place) -> None:
    missing = {"apiVersion": "nowhere.example.com/v1", "kind": "Thing", "metadata": {"name": "t"}}
    invalid = {**pod("p"), "spec": {"containers": []}}

    code, lines, err = place.apply(missing, invalid, config_map("c"))

    assert (code, lines) == (1, ["configmap/c created"])
    assert "no Thing in nowhere.example.com/v1" in err
    assert "spec.containers" in err
    assert err.rstrip().endswith("error: 2 of 3 objects failed")


def test_unknown_fields_are_refused(place: Place) -> None:
    wrong = deployment("web")
    wrong["spec"]["replcas"] = 3

    code, lines, err = place.apply(wrong)

    assert (code, lines) == (1, [])
    assert "replcas" in err


@pytest.mark.parametrize("how", ["client", "server"])
def test_a_dry_run_changes_nothing(place: Place, how: str) -> None:
    place.apply(config_map("old", a="1"))

    code, lines, _ = place.apply(
        config_map("old", a="2"), config_map("new"), flags=(f"--dry-run={how}",)
    )

    expected = {
        "client": ["configmap/old applied (dry run)", "configmap/new applied (dry run)"],
        "server": [
            "configmap/old configured (server dry run)",
            "configmap/new created (server dry run)",
        ],
    }
    assert (code, lines) == (0, expected[how])
    assert place.data("old") == {"a": "1"}
    assert place.data("new") is None


def test_the_objects_are_printed_on_request(place: Place) -> None:
    code, lines, _ = place.apply(config_map("x", a="1"), pod("p"), flags=("-o", "json"))

    whole = json.loads("\n".join(lines))
    assert code == 0
    assert [item["metadata"]["namespace"] for item in whole["items"]] == [place.namespace] * 2
    assert place.apply(config_map("x", a="1"), flags=("-o", "name"))[1] == ["configmap/x"]


def test_the_templates_output_can_be_piped_in(place: Place) -> None:
    template = {
        "apiVersion": "v1",
        "kind": "Template",
        "parameters": [{"name": "N", "required": True}],
        "objects": [config_map("${N}-one", v="${N}"), config_map("${N}-two")],
    }
    place.patch.setattr("sys.stdin", io.StringIO(yaml.safe_dump(template)))
    assert main.run("arena", ["process", "-f", "-", "-p", "N=hello"]) == 0
    processed = place.capture.readouterr().out

    code, lines, _ = place.arena("apply", "-f", "-", stdin=processed)

    assert (code, lines) == (0, ["configmap/hello-one created", "configmap/hello-two created"])
    assert place.data("hello-one") == {"v": "hello"}


@pytest.mark.parametrize("place", ["local"], indirect=True)  # elsewhere CRDs of ours would stay
def test_the_seeds_lines_create_the_job(place: Place) -> None:
    """`oc process -f openshift/… | oc apply -f -`, after teaching the cluster the job kinds."""
    assert place.arena("apply", "-f", "-", stdin=crds.load_all())[0] == 0
    place.patch.chdir(EXAMPLES)
    assert main.run("arena", SEED.split()) == 0
    processed = place.capture.readouterr().out

    code, lines, err = place.arena("apply", "-f", "-", stdin=processed)

    assert (code, lines, err) == (
        0,
        [
            "persistentvolumeclaim/models created",
            "configmap/training-distributed-user1-program created",
            "tfjob.kubeflow.org/training-distributed-user1 created",
        ],
        "",
    )


# Owners: only a real server keeps book of who set which field


def test_a_field_removed_from_the_manifest_is_removed_from_the_object(real: Place) -> None:
    real.apply(config_map("x", a="1", b="2"))

    real.apply(config_map("x", b="2"))

    assert real.data("x") == {"b": "2"}


def test_a_conflict_names_the_owner_and_the_flag_that_resolves_it(real: Place) -> None:
    body = json.dumps(deployment("web", 1)).encode()
    path = f"/apis/apps/v1/namespaces/{real.namespace}/deployments"
    with real.client() as client:
        client.send(Request("POST", path, (("fieldManager", "autoscaler"),), body))

    code, lines, err = real.apply(deployment("web", 5), config_map("other"))

    assert (code, lines) == (1, ["configmap/other created"])
    assert "deployment.apps/web: autoscaler manages .spec.replicas" in err
    assert "--force-conflicts" in err
    assert real.apply(deployment("web", 5), flags=("--force-conflicts",))[:2] == (
        0,
        ["deployment.apps/web configured"],
    )


# create


def test_create_rejects_an_existing_object_and_apply_takes_it_over(place: Place) -> None:
    assert place.arena("create", "-f", "-", stdin=[config_map("x", a="1")])[:2] == (
        0,
        ["configmap/x created"],
    )

    code, lines, err = place.arena("create", "-f", "-", stdin=[config_map("x", a="2")])

    assert (code, lines) == (1, [])
    assert 'configmaps "x" already exists' in err
    assert "arena apply -f" in err
    assert place.apply(config_map("x", a="2"))[:2] == (0, ["configmap/x configured"])
    assert place.data("x") == {"a": "2"}


def test_create_accepts_generate_name_and_apply_does_not(place: Place) -> None:
    item = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "gen-"}}

    code, (line,), _ = place.arena("create", "-f", "-", stdin=[item])

    assert code == 0
    assert line.startswith("configmap/gen-")
    assert line.endswith(" created")
    assert place.apply(item)[0] == 2


def test_a_server_dry_run_of_create_stores_nothing(place: Place) -> None:
    line = place.arena("create", "--dry-run=server", "-f", "-", stdin=[config_map("x")])

    assert line[:2] == (0, ["configmap/x created (server dry run)"])
    assert place.data("x") is None


# Before anything is sent


@pytest.fixture
def refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], str]:
    """Apply a text where no cluster could be reached: only errors before that are seen."""
    nowhere = tmp_path / "kubeconfig"
    nowhere.write_text("not even YAML: [")

    def apply(text: str, *flags: str) -> str:
        monkeypatch.setattr("sys.stdin", io.StringIO(text))
        code = main.run("arena", ["apply", "--kubeconfig", str(nowhere), "-f", "-", *flags])
        out = capsys.readouterr()
        assert (code, out.out) == (2, "")
        return out.err

    return apply


def test_an_upper_case_name_is_refused_with_the_lower_case_one(
    refused: Callable[[str], str],
) -> None:
    job = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": "training-distributed-userN"},
    }

    for beside in ("fine", "training-distributed-userN-program"):
        err = refused(yaml.safe_dump_all([config_map(beside), job]))

        assert "TFJob: the name 'training-distributed-userN' is not possible" in err
        assert "Use training-distributed-usern (" in err


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no objects to apply"),
        ("---\n---\n", "no objects to apply"),
        ("just text", "not a Kubernetes object"),
        ("kind: Pod", "apiVersion is missing"),
        ("apiVersion: v1", "kind is missing"),
        ("{apiVersion: v1, kind: Pod}", "metadata.name is missing"),
        ("{apiVersion: v1, kind: Pod, metadata: {name: 12}}", "12 is not text"),
        ("{apiVersion: v1, kind: Pod, metadata: {name: a_b}}", "Use a-b"),
        ("{apiVersion: v1, kind: Pod, metadata: {name: a/../b}}", "'a/../b' is not possible"),
        ("{apiVersion: v1, kind: Service, metadata: {name: 1a}}", "'1a' is not possible"),
        ("{apiVersion: v1, kind: Pod, metadata: {generateName: x-}}", "apply needs metadata.name"),
        ("{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: 3}}", "metadata.namespace"),
        ("a: 1\na: 2\n", "line 2: the key a is written twice"),
        ('{"a": 1, "a": 2}', "the key 'a' is written twice"),
        ("a: [", "standard input"),
        ("a: &x [*x]", "contains itself"),
        (LAUGHS, "far too large"),
        ("{apiVersion: v1, kind: List, items: [3]}", "not a Kubernetes object"),
        ("[" * 5000, "standard input"),
        ("!!python/object/apply:os.system [id]", "standard input"),
    ],
)
def test_an_object_that_cannot_be_sent_is_rejected_in_one_sentence(
    refused: Callable[[str], str], text: str, says: str
) -> None:
    err = refused(text)

    assert err.startswith("error: ")
    assert says in err
    assert len(err.splitlines()) <= 3


SCRAPS = (
    "apiVersion: v1|kind: |Pod|List|items:|metadata:|name|: |- |  |{|}|[|]|\"|'|&a|*a|<<: |!!|---"
)
scraps = st.sampled_from([*SCRAPS.split("|"), "null", "1", "|", "\n", "\x00", "#"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.lists(scraps | st.text(max_size=3), max_size=30).map("".join))
def test_no_text_causes_a_traceback(
    text: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "any.yaml"
    path.write_text(text, encoding="utf-8")
    for verb in ("apply", "create", "process"):
        line = [verb, "-f", str(path)]
        code = main.run("arena", line if verb == "process" else [*line, "--dry-run"])
        out = capsys.readouterr()
        assert code in (0, 2), out.err
        assert code == 0 or out.err.startswith("error: ")


def test_an_object_of_another_namespace_is_refused(
    refused: Callable[..., str],
) -> None:
    text = "{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: theirs}}"

    assert "pod/a is for the namespace theirs, -n says mine" in refused(text, "-n", "mine")


# Where manifests come from


def test_folders_files_and_lists_are_read_in_order(place: Place, tmp_path: Path) -> None:
    folder = tmp_path / "manifests"
    (folder / "deeper").mkdir(parents=True)
    whole = {"apiVersion": "v1", "kind": "List", "items": [config_map("b"), config_map("c")]}
    typed = {"apiVersion": "v1", "kind": "ConfigMapList", "items": [{"metadata": {"name": "d"}}]}
    (folder / "1.yaml").write_text(yaml.safe_dump_all([config_map("a"), None, whole]))
    (folder / "2.json").write_text(json.dumps(typed, indent="\t"))
    (folder / "README.md").write_text("not a manifest")
    (folder / "deeper" / "3.yml").write_text(yaml.safe_dump(config_map("e")))

    _, flat, _ = place.arena("apply", "-f", str(folder), "-o", "name")
    _, deep, _ = place.arena("apply", "-R", "-f", str(folder), "-o", "name")

    assert flat == [f"configmap/{name}" for name in "abcd"]
    assert deep == [f"configmap/{name}" for name in "abcde"]


def test_an_address_is_not_fetched(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run("arena", ["apply", "-f", "https://example.invalid/x.yaml"]) == 2
    assert "curl -sSL https://example.invalid/x.yaml | arena apply -f -" in capsys.readouterr().err


def test_yaml_is_read_as_kubernetes_reads_it(place: Place) -> None:
    text = """
apiVersion: v1
kind: ConfigMap
metadata:
  name: x
  annotations: &shared {day: 2024-01-02, when: 2024-01-02T03:04:05Z}
data: {<<: *shared, day: "2025", 8080: port, yes: word}
"""
    assert place.arena("apply", "-f", "-", stdin=text)[0] == 0

    assert place.data("x") == {
        "day": "2025",
        "when": "2024-01-02T03:04:05Z",
        "8080": "port",
        "true": "word",
    }


def test_without_a_cluster_the_local_one_would_be_started_but_not_in_ci(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CI", "1")
    monkeypatch.setattr("sys.stdin", io.StringIO(yaml.safe_dump(config_map("x"))))

    assert main.run("arena", ["apply", "-f", "-"]) == 5
    assert "In CI the local cluster is not started" in capsys.readouterr().err
