"""The files of `arena apply`: how they are read, and objects rejected before any is sent."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings, strategies as st

from muster.cli import main
from tests.builders import config_map
from tests.muster.cli.applier import Applier

LAUGHS = "a0: &a0 [x]\n" + "".join(
    f"a{i + 1}: &a{i + 1} [*a{i}, *a{i}, *a{i}, *a{i}, *a{i}, *a{i}]\n" for i in range(12)
)


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
        (
            "{kind: tf, name: a, command: x}",
            "the short form of a job, which `arena submit -f FILE`",
        ),
        ("apiVersion: v1", "kind is missing"),
        ("{apiVersion: v1, kind: Pod}", "metadata.name is missing"),
        ("{apiVersion: v1, kind: Pod, metadata: {name: 12}}", "12 is not text"),
        ("{apiVersion: v1, kind: Pod, metadata: {name: a_b}}", "Use a-b"),
        ("{apiVersion: v1, kind: Pod, metadata: {name: a/../b}}", "'a/../b' is not possible"),
        ("{apiVersion: v1, kind: Service, metadata: {name: 1a}}", "'1a' is not possible"),
        ("{apiVersion: v1, kind: Pod, metadata: {generateName: x-}}", "apply needs metadata.name"),
        ("{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: 3}}", "metadata.namespace"),
        ("a: 1\na: 2\n", "line 2: the key a is written twice"),
        ('{"a": 1, "a": 2}', "standard input: cannot be read: the key 'a' is written twice"),
        ("a: [", "standard input"),
        ("a: &x [*x]", "contains itself"),
        (LAUGHS, "it has more than 1,000,000 values"),
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


def test_folders_files_and_lists_are_read_in_order(applier: Applier, tmp_path: Path) -> None:
    folder = tmp_path / "manifests"
    (folder / "deeper").mkdir(parents=True)
    whole = {"apiVersion": "v1", "kind": "List", "items": [config_map("b"), config_map("c")]}
    typed = {"apiVersion": "v1", "kind": "ConfigMapList", "items": [{"metadata": {"name": "d"}}]}
    (folder / "1.yaml").write_text(yaml.safe_dump_all([config_map("a"), None, whole]))
    (folder / "2.json").write_text(json.dumps(typed, indent="\t"))
    (folder / "README.md").write_text("not a manifest")
    (folder / "deeper" / "3.yml").write_text(yaml.safe_dump(config_map("e")))

    _, flat, _ = applier.arena("apply", "-f", str(folder), "-o", "name")
    _, deep, _ = applier.arena("apply", "-R", "-f", str(folder), "-o", "name")

    assert flat == [f"configmap/{name}" for name in "abcd"]
    assert deep == [f"configmap/{name}" for name in "abcde"]


def test_an_address_is_not_fetched(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run("arena", ["apply", "-f", "https://example.invalid/x.yaml"]) == 2
    assert "curl -sSL https://example.invalid/x.yaml | arena apply -f -" in capsys.readouterr().err


def test_yaml_is_read_as_kubernetes_reads_it(applier: Applier) -> None:
    text = """
apiVersion: v1
kind: ConfigMap
metadata:
  name: x
  annotations: &shared {day: 2024-01-02, when: 2024-01-02T03:04:05Z}
data: {<<: *shared, day: "2025", 8080: port, yes: word}
"""
    assert applier.arena("apply", "-f", "-", stdin=text)[0] == 0

    assert applier.data("x") == {
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
