"""`arena submit -f`: values are literal text, in the file and after `--set`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings, strategies as st

from kubekit.errors import UsageError
from muster.client.submit import job_file, job_file as verbatim
from tests.muster.cli.submit_dry_run import DryRun, Machine

ODD = (
    "1.10", "0.1", "1e-3", "010", "0x1F", "0o17", "0b11", "1_000", "12:30:45", "yes", "No", "on",
    "True", "2026-01-02", "2026-01-02T03:04:05Z", "01234567", "+1", ".5", "1.", ".inf",
    "a=b", "1e400", "123456789012345678901234567890",
)  # fmt: skip
"""Plain words that YAML reads as other types."""


@pytest.fixture
def machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Machine:
    return Machine(tmp_path, capsys, monkeypatch)


def submitted(machine: Machine, text: str, *changes: str) -> DryRun:
    file = machine.home / "job.yaml"
    file.write_text(text)
    return machine.dry("-f", str(file), *(word for c in changes for word in ("--set", c)))


SHORT = "kind: tf\nname: j\nimage: i\nworkers: 2\ncommand: x\nenv: {A: b}\n"


@pytest.mark.parametrize("word", ODD)
def test_values_in_a_file_are_literal_text(machine: Machine, word: str) -> None:
    built = submitted(machine, SHORT + f"annotation:\n  k: {word}\n")

    assert built.at("job/metadata/annotations/k") == word


@pytest.mark.parametrize(
    "word", [*ODD, "null", "~", "=", "<<", "a # b", "a: b: c", "- x", "&a", "*a", "", "#"]
)
def test_values_after_set_are_literal_text(machine: Machine, word: str) -> None:
    built = submitted(machine, SHORT, f"env.LR={word}")

    assert built.at("main:Worker/env/LR/value") == word


def test_the_fields_of_code_and_images_are_text(machine: Machine) -> None:
    built = submitted(
        machine,
        "kind: tf\nname: j\nimage: 3.10\nworkers: 2\ncommand: x\nsync-mode: git\n"
        "sync-source: https://host/p.git\nsync-branch: 1.10\nsync-revision: 01234567\n",
    )

    assert built.at("main:Worker/image") == "3.10"
    assert built.at("init:Worker/env/GIT_SYNC_BRANCH/value") == "1.10"
    assert built.at("init:Worker/env/GIT_SYNC_REV/value") == "01234567"


def test_a_command_after_set_keeps_all_of_its_words(machine: Machine) -> None:
    built = submitted(machine, SHORT, "command=echo a # b")

    assert built.at("main:Worker/command")[-1] == "echo a # b"


def test_parameters_are_substituted_in_keys_too(machine: Machine) -> None:
    built = submitted(machine, SHORT + "label: {on: off, 1.10: yes}\n")

    labels = built.at("job/metadata/labels")
    assert (labels["on"], labels["1.10"]) == ("off", "yes")


@pytest.mark.parametrize("word", ["true", "yes", "on", "True", '"true"'])
def test_a_switch_in_a_file_may_be_any_yaml_word_for_true_or_false(
    machine: Machine, word: str
) -> None:
    for built in (submitted(machine, SHORT + f"gang: {word}\n"),
                  submitted(machine, SHORT, f"gang={word}")):  # fmt: skip
        assert built.at("job/metadata/annotations/muster.dev~gang") == "true"


def test_lists_mappings_and_quotes_after_set_are_yaml(machine: Machine) -> None:
    built = submitted(machine, SHORT, "env={A: 1.10, B: yes}", "command=['a b', 010]", 'image="i"')

    assert built.at("main:Worker/env/A/value") == "1.10"
    assert built.at("main:Worker/env/B/value") == "yes"
    assert built.at("main:Worker/command")[-1] == "exec a b 010"
    assert built.at("main:Worker/image") == "i"


def test_yaml_references_work(machine: Machine) -> None:
    built = submitted(
        machine, "kind: tf\nname: j\nimage: i\ncommand: x\nlabel: &a {k: 1.0}\n"
        "annotation: {<<: *a, l: 2.0}\n",
    )  # fmt: skip

    assert built.at("job/metadata/annotations/k") == "1.0"
    assert built.at("job/metadata/annotations/l") == "2.0"


def test_the_short_form_may_be_json(machine: Machine) -> None:
    text = '{"kind": "tf", "name": "j", "image": "i", "command": "x", "gang": true, "workers": 2,\n'
    built = submitted(machine, text + '\t"env": {"A": 1.10, "B": true, "C": 1E3}}')

    assert [built.at(f"main:Worker/env/{name}/value") for name in "ABC"] == ["1.10", "true", "1E3"]
    assert built.at("Worker/replicas") == 2


def test_an_error_in_a_mapping_names_its_key(machine: Machine) -> None:
    (machine.home / "lr.yaml").write_text(SHORT.replace("{A: b}", "{LR: [0.1]}"))
    code, _, err = machine.run("submit", "-f", str(machine.home / "lr.yaml"), "--dry-run")

    assert code == 2
    assert "lr.yaml: env.LR is ['0.1']" in err


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("3", 3), ("-1", -1), ("true", True), ("false", False), ("null", None), ("0.5", 0.5),
        ("1.10", "1.10"), ("010", "010"), ("0x1F", "0x1F"), ("1_000", "1_000"), ("yes", "yes"),
        ("12:30:45", "12:30:45"), ("a # b", "a # b"), ("NaN", "NaN"), ("1e3", "1e3"), ("", ""),
        ("[1, a]", [1, "a"]), ("{a: true}", {"a": True}), ('"3"', "3"), ("'1.10'", "1.10"),
    ],
)  # fmt: skip
def test_set_values_of_a_manifest_are_typed_unless_that_changes_them(
    word: str, expected: object
) -> None:
    document: dict[str, Any] = {"spec": {}}
    job_file.set_field(document, f"spec.x={word}", typed=True)

    assert document["spec"]["x"] == expected
    assert type(document["spec"]["x"]) is type(expected)


def test_set_takes_a_new_variable_that_resembles_another_one() -> None:
    document: dict[str, Any] = {"kind": "tf", "env": {"EPOCHS": "3"}}

    job_file.set_field(document, "env.EPOCH=5", typed=False)

    assert document["env"] == {"EPOCHS": "3", "EPOCH": "5"}


def test_set_takes_a_field_of_the_kind_although_the_file_has_it_misspelt() -> None:
    document: dict[str, Any] = {
        "kind": "MPIJob",
        "spec": {"mpiReplicaSpecs": {"Worker": {"replica": 2}}},
    }
    job_file.set_field(document, "spec.mpiReplicaSpecs.Worker.replicas=3", typed=True)
    assert document["spec"]["mpiReplicaSpecs"]["Worker"] == {"replica": 2, "replicas": 3}

    with pytest.raises(UsageError, match="did you mean replicas"):
        job_file.set_field(document, "spec.mpiReplicaSpecs.Worker.replicass=3", typed=True)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.text(min_size=1), st.text() | st.integers() | st.booleans()))
def test_yaml_written_by_a_program_reads_back_unchanged(entries: dict[str, object]) -> None:
    expected = {
        key: str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in entries.items()
    }

    assert verbatim.read_verbatim(json.dumps({"env": entries}))["env"] == expected
    assert verbatim.read_verbatim(yaml.safe_dump({"env": entries}))["env"] == expected
