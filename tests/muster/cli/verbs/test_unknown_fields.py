"""Unknown fields of jobs in files, on the local API server and on a real one: the same words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kubekit.objects.meta import Key, Raw
from muster.contract.job_kinds import TFJOBS
from tests.muster.cli.place import Place

WORKER = "spec.tfReplicaSpecs.Worker"
WARNINGS = [
    f"warning: unknown field {WORKER}.replica (did you mean replicas?)",
    f"warning: unknown field {WORKER}.template.spec.containers[0].comand (did you mean command?)",
]


def job(name: str = "typos", **worker: Any) -> Raw:
    container = {"name": "tensorflow", "image": "i", "comand": ["python"]}
    body = {"replica": 2, "template": {"spec": {"containers": [container]}}, **worker}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": name},
        "spec": {"tfReplicaSpecs": {"Worker": body}},
    }


def write(folder: Path, body: object) -> str:
    path = folder / "job.yaml"
    path.write_text(json.dumps(body))
    return str(path)


@pytest.mark.parametrize("verb", ["apply", "create", "submit"])
def test_typos_are_stored_with_one_warning_each(place: Place, tmp_path: Path, verb: str) -> None:
    code, out, err = place.arena(verb, "-f", write(tmp_path, job()))

    assert code == 0, err
    assert "tfjob.kubeflow.org/typos created" in out
    assert [line for line in err.splitlines() if "warning" in line] == WARNINGS
    stored = place.client.get(TFJOBS, Key(place.namespace, "typos"))
    assert stored["spec"]["tfReplicaSpecs"]["Worker"]["replica"] == 2


def test_an_unknown_value_is_warned_of_with_the_nearest_one(place: Place, tmp_path: Path) -> None:
    typo = job("value", restartPolicy="OnFailur")
    _, _, err = place.arena("apply", "-f", write(tmp_path, typo))

    text = f"warning: {WORKER}.restartPolicy: 'OnFailur' is unknown; did you mean OnFailure?"
    assert [line for line in err.splitlines() if "warning" in line] == [*WARNINGS, text]


def test_a_dry_run_warns_on_stderr_and_prints_the_objects_only_on_stdout(
    place: Place, tmp_path: Path
) -> None:
    file = write(tmp_path, job())
    code, out, err = place.arena("submit", "-f", file, "--dry-run=client", "-o", "json")

    assert code == 0
    assert json.loads(out)["kind"] == "List"
    assert err.splitlines()[-2:] == WARNINGS


def test_a_misspelt_role_is_stored_with_a_warning_that_names_the_role(
    place: Place, tmp_path: Path
) -> None:
    body = job()
    roles = body["spec"]["tfReplicaSpecs"]
    roles["Wroker"] = roles.pop("Worker")

    code, _, err = place.arena("apply", "-f", write(tmp_path, body))

    assert code == 0
    assert "warning: unknown field spec.tfReplicaSpecs.Wroker (did you mean Worker?)" in err


def test_a_job_of_another_version_gets_the_version_that_exists(
    place: Place, tmp_path: Path
) -> None:
    file = write(tmp_path, {**job(), "apiVersion": "kubeflow.org/v2"})

    for verb in ("apply", "submit"):
        code, _, err = place.arena(verb, "-f", file)

        assert code == 3
        assert "the cluster has no TFJob in kubeflow.org/v2" in err
        assert "Did you mean kubeflow.org/v1?" in err


def test_of_several_jobs_a_warning_names_its_job(place: Place, tmp_path: Path) -> None:
    jobs = {"apiVersion": "v1", "kind": "List", "items": [job("a"), job("b")]}
    _, _, err = place.arena("apply", "-f", write(tmp_path, jobs))

    assert WARNINGS[0].replace("warning: ", "warning: tfjob.kubeflow.org/b: ") in err


def test_a_field_of_the_wrong_type_is_refused_with_what_to_write_instead(
    place: Place, tmp_path: Path
) -> None:
    for verb in ("apply", "create", "submit"):
        file = write(tmp_path, job(replicas="2"))
        code, _, err = place.arena(verb, "-f", file)

        assert code == 2
        assert f"error: {file}: {WORKER}.replicas: is text, not a whole number" in err
        assert "write 2 without quotes" in err


def test_a_typo_that_makes_the_manifest_invalid_is_warned_of_before_the_error(
    place: Place, tmp_path: Path
) -> None:
    body = job()
    worker = body["spec"]["tfReplicaSpecs"]["Worker"]
    worker["templat"] = worker.pop("template")
    code, _, err = place.arena("submit", "-f", write(tmp_path, body))

    assert code == 2
    assert err.index(f"unknown field {WORKER}.templat (did you mean template?)") < err.index(
        f"{WORKER}.template.spec.containers: is empty"
    )
