"""The form for a job: fields from the table of flags, errors at the field that a sentence names."""

from __future__ import annotations

import pytest

from kubekit.errors import MusterError, UsageError
from kubekit.request_errors import NotFound
from muster.jobs.build import job_manifest
from muster.jobs.build.flags import BY_TYPE, GROUPS, Site, flags_of
from muster.web.views.submit_form import Defaults, FieldError, SubmitForm, field_of, job_form

LOCAL = Defaults(directory="/home/me/project")


def names(form: SubmitForm) -> list[str]:
    rows = [*form.fields, *(row for group in form.groups for row in group.fields)]
    return [row.name for row in rows]


@pytest.mark.parametrize("type_", BY_TYPE)
def test_every_flag_is_a_field_once(type_: str) -> None:
    form = job_form(type_, {}, {}, LOCAL)

    expected = {"command", "namespace", *(flag.field for flag in flags_of(BY_TYPE[type_]))}
    assert sorted(names(form)) == sorted(expected)
    main = {flag.field for flag in flags_of(BY_TYPE[type_])} & set(GROUPS["Main flags"])
    first = ["name", "namespace", "working_dir", "command"]
    assert [row.name for row in form.fields][:4] == first
    assert {row.name for row in form.fields} == {*first, *main}
    assert not form.open


def test_another_cluster_has_no_field_for_a_directory_of_this_machine() -> None:
    hidden = ("working_dir", "python")
    form = job_form("tfjob", {}, {}, Defaults("team", hidden=hidden))

    assert not set(hidden) & set(names(form))
    assert form.fields[1].placeholder == "team"


def test_the_first_error_is_focused_and_its_group_is_open() -> None:
    errors = {"retry": FieldError("--retry is wrong"), "": FieldError("not allowed")}
    form = job_form("mpijob", {"retry": "x"}, errors, LOCAL)

    assert form.open
    assert [group.heading for group in form.groups if group.open] == [
        "Retries, timeouts and cleanup"
    ]
    assert [row.name for row in form.wrong if row.focus] == ["retry"]
    assert form.error == FieldError("not allowed")
    assert not any(row.focus for row in form.fields)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "No Name"),
        ("workers", 0),
        ("gpus", -1),
        ("cpu", "two"),
        ("memory", "200"),
        ("worker_memory_limit", "x"),
        ("image", "two words"),
        ("env", ("novalue",)),
        ("env_from", ("nothing",)),
        ("label", ("a b=c",)),
        ("selector", ("a",)),
        ("toleration", ("x",)),
        ("device", ("gpu=1",)),
        ("data", ("claim",)),
        ("data_dir", ("relative",)),
        ("logdir", "relative"),
        ("share_memory", "x"),
        ("sync_mode", "ftp"),
        ("clean_task_policy", "Some"),
        ("success_policy", "Some"),
        ("restart", "pod"),
        ("running_timeout", "soon"),
        ("ttl_after_finished", "soon"),
        ("starting_timeout", "soon"),
        ("role_sequence", "X"),
        ("image_pull_policy", "Sometimes"),
        ("image_pull_secret", ("A B",)),
        ("ps_affinity_policy", "x"),
        ("topology", "a b"),
        ("worker_port", 70000),
        ("shell", " "),
        ("working_dir", "relative"),
        ("model_dir", "nowhere"),
        ("command", (" ",)),
    ],
)
def test_the_sentence_of_the_command_leads_to_its_field(field: str, value: object) -> None:
    kind = BY_TYPE["tfjob"]
    given = {
        "name": "x",
        "image": "python:3.12",
        "command": ("true",),
        "ps": 1,
        "workers": 2,
        "tensorboard": True,
        field: value,
    }
    with pytest.raises(UsageError) as caught:
        job_manifest.bundle(kind(**given), Site())  # type: ignore[arg-type]

    assert field_of(caught.value, kind) == field


@pytest.mark.parametrize(
    ("error", "field"),
    [
        (NotFound('namespaces "x" not found'), "namespace"),
        (UsageError("tfjob/x is for the namespace a, -n says b"), "namespace"),
        (MusterError("a job named x exists already", hint="Choose another --name"), "name"),
        (MusterError("the disk is full"), ""),
        (UsageError("--unknown 'x' is invalid"), ""),
    ],
)
def test_errors_of_the_server_lead_to_a_field_or_to_none(error: MusterError, field: str) -> None:
    assert field_of(error, BY_TYPE["tfjob"]) == field
