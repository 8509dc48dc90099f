"""`arena models` lists what ConfigMaps publish, newest first, as text that cannot do harm."""

from __future__ import annotations

import json

import msgspec
import pytest

from muster.contract.exported_models import Maker, Model, Tensor, Version, manifest
from tests.muster.cli.fake_cluster import NOW, Raw, Scene


@pytest.fixture
def scene(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(capsys, monkeypatch, {"configmaps": []})


def publish(scene: Scene, name: str, *versions: Version, kind: str = "TFJob") -> Raw:
    model = Model(name, Maker("kubeflow.org/v1", kind, name, "u"), "/models", versions)
    body = manifest(model, "default", f"model-{kind.lower()}-{name}")
    scene.objects["configmaps"].append(body)
    return body


def version(name: str, seconds: int, size: int = 908) -> Version:
    created = NOW.fromtimestamp(NOW.timestamp() - seconds, NOW.tzinfo)
    weights = Tensor("w", "float64", (20, 4))
    return Version(name, name, "npz", created, size, file_count=1, tensors=(weights,))


def test_models_are_listed_newest_first(scene: Scene) -> None:
    publish(scene, "older", version("1", 7200))
    publish(scene, "newer", version("2", 60, 5 << 20), version("1", 120))
    scene.objects["configmaps"].append({"metadata": {"name": "other", "namespace": "default"}})

    assert scene.arena("models")[1] == (
        "NAME   VERSION  FORMAT  SIZE     JOB          AGE\n"
        "newer  2        npz     5.0 MiB  tfjob/newer  1m\n"
        "older  1        npz     908 B    tfjob/older  2h\n"
    )
    assert len(scene.arena("models", "list", "--all-versions")[1].splitlines()) == 4
    assert scene.arena("models", "-o", "name")[1] == "newer\nolder\n"
    rows = json.loads(scene.arena("models", "-o", "json")[1])
    assert [row["name"] for row in rows] == ["newer", "older"]
    assert rows[0]["versions"][0]["tensors"] == [
        {"name": "w", "dtype": "float64", "shape": [20, 4]}
    ]


def test_versions_that_are_not_listed_are_named(scene: Scene) -> None:
    cut = msgspec.structs.replace(version("1", 60), truncated=True)
    full = Model("full", Maker(name="full"), "/m", (version("9", 60),), omitted=7)
    long = Model("long", Maker(name="long"), "/m", (cut,), truncated=True)
    for model in (full, long):
        scene.objects["configmaps"].append(manifest(model, "default", f"model-{model.name}"))
    older = "full: 7 older versions are not listed"
    entries = "long: /m has more than 10,000 entries, and versions beyond these are not listed"

    _, out, err = scene.arena("models")
    assert "> 908 B" in out
    assert entries in err
    assert older not in err

    _, _, err = scene.arena("models", "--all-versions")
    assert entries in err
    assert older in err


def test_text_from_files_does_not_reach_the_terminal_as_it_is(scene: Scene) -> None:
    body = publish(scene, "x", version("1", 1))
    model = msgspec.json.decode(body["data"]["model.json"])
    model["name"] = "x\x1b[31m"
    body["data"]["model.json"] = json.dumps(model)
    broken = publish(scene, "y", version("1", 1))
    broken["data"]["model.json"] = "{"

    code, out, _ = scene.arena("models")
    assert code == 0
    assert "\x1b" not in out
    assert len(out.splitlines()) == 2


@pytest.mark.parametrize("verb", ["try", "download"])
def test_an_unknown_model_or_version_is_named(scene: Scene, verb: str) -> None:
    publish(scene, "mnist", version("3", 1))

    code, _, err = scene.arena("models", verb, "mnits")
    assert (code, err) == (3, "error: there is no model mnits\nDid you mean mnist?\n")
    code, _, err = scene.arena("models", verb, "mnist", "--version", "9")
    assert (code, err.splitlines()[1]) == (3, "Its versions are 3.")


def test_two_models_of_one_name_are_told_apart_by_their_config_map(scene: Scene) -> None:
    publish(scene, "m", version("1", 1))
    publish(scene, "m", version("1", 1), kind="JAXJob")

    code, _, err = scene.arena("models", "try", "m")
    assert code == 2
    assert "Name one of: model-jaxjob-m, model-tfjob-m" in err


def test_arenas_model_registry_is_explained(scene: Scene) -> None:
    code, _, err = scene.arena("model", "list")

    assert code == 2
    assert "`arena models`" in err
