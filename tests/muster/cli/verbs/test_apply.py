"""`arena apply` on the local API server and on a real one: the same words."""

from __future__ import annotations

import io
import json

import pytest
import yaml

from kubekit.client.request import Request
from kubekit.objects.kinds import CRDS
from kubekit.objects.meta import Key
from muster.cli import main
from muster.contract import crds
from tests.builders import config_map, pod
from tests.muster.cli.applier import Applier, deployment
from tests.muster.cli.seeds import EXAMPLES, SEED


def test_apply_reports_created_then_unchanged_then_configured(applier: Applier) -> None:
    assert applier.apply(config_map("x", a="1")) == (0, ["configmap/x created"], "")
    assert applier.apply(config_map("x", a="1")) == (0, ["configmap/x unchanged"], "")
    assert applier.apply(config_map("x", a="2")) == (0, ["configmap/x configured"], "")
    assert applier.data("x") == {"a": "2"}


def test_defaults_of_the_server_do_not_count_as_changes(applier: Applier) -> None:
    assert applier.apply(deployment("web"))[1] == ["deployment.apps/web created"]
    assert applier.apply(deployment("web"))[1] == ["deployment.apps/web unchanged"]
    assert applier.apply(deployment("web", 3))[1] == ["deployment.apps/web configured"]


def test_kinds_of_every_group_and_cluster_scoped_kinds_are_found(applier: Applier) -> None:
    name = f"{applier.namespace}-second"
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}

    code, lines, _ = applier.apply(space, pod("p"), deployment("d"))

    assert (code, lines) == (
        0,
        [f"namespace/{name} created", "pod/p created", "deployment.apps/d created"],
    )


def test_a_crd_and_an_object_of_its_kind_may_come_together(applier: Applier) -> None:
    group = f"{applier.namespace}.example.com"
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
        code, lines, err = applier.apply(crd, widget)
    finally:
        with applier.client() as client:
            client.delete(CRDS, Key("", f"widgets.{group}"))

    assert (code, err) == (0, "")
    assert lines == [
        f"customresourcedefinition.apiextensions.k8s.io/widgets.{group} created",
        f"widget.{group}/w created",
    ]


def test_every_object_is_tried_and_the_exit_code_shows_failures(applier: Applier) -> None:
    wrong = {"apiVersion": "nowhere.example.com/v1", "kind": "Thing", "metadata": {"name": "t"}}

    code, lines, err = applier.apply(config_map("a"), wrong, config_map("b"))

    assert code == 3
    assert lines == ["configmap/a created", "configmap/b created"]
    assert "error: the cluster has no Thing in nowhere.example.com/v1" in err


@pytest.mark.parametrize(("version", "kind"), [("v1", "Pod"), ("kubeflow.org/v1", "TFJob")])
def test_a_mistyped_kind_names_the_nearest_one(applier: Applier, version: str, kind: str) -> None:
    wrong = {"apiVersion": version, "kind": f"{kind}b", "metadata": {"name": "t"}}

    code, _, err = applier.apply(wrong)

    assert code == 3
    assert f"error: the cluster has no {kind}b in {version}" in err
    assert f"Did you mean {kind}?" in err


def test_errors_of_different_kinds_are_all_printed(applier: Applier) -> None:
    missing = {"apiVersion": "nowhere.example.com/v1", "kind": "Thing", "metadata": {"name": "t"}}
    invalid = {**pod("p"), "spec": {"containers": []}}

    code, lines, err = applier.apply(missing, invalid, config_map("c"))

    assert (code, lines) == (1, ["configmap/c created"])
    assert "no Thing in nowhere.example.com/v1" in err
    assert "spec.containers" in err
    assert err.rstrip().endswith("error: 2 of 3 objects failed")


def test_unknown_fields_are_refused(applier: Applier) -> None:
    wrong = deployment("web")
    wrong["spec"]["replcas"] = 3

    code, lines, err = applier.apply(wrong)

    assert (code, lines) == (1, [])
    assert "replcas" in err


@pytest.mark.parametrize("mode", ["client", "server"])
def test_a_dry_run_changes_nothing(applier: Applier, mode: str) -> None:
    applier.apply(config_map("old", a="1"))

    code, lines, _ = applier.apply(
        config_map("old", a="2"), config_map("new"), flags=(f"--dry-run={mode}",)
    )

    expected = {
        "client": ["configmap/old applied (dry run)", "configmap/new applied (dry run)"],
        "server": [
            "configmap/old configured (server dry run)",
            "configmap/new created (server dry run)",
        ],
    }
    assert (code, lines) == (0, expected[mode])
    assert applier.data("old") == {"a": "1"}
    assert applier.data("new") is None


def test_the_objects_are_printed_with_the_output_flag(applier: Applier) -> None:
    code, lines, _ = applier.apply(config_map("x", a="1"), pod("p"), flags=("-o", "json"))

    whole = json.loads("\n".join(lines))
    assert code == 0
    assert [item["metadata"]["namespace"] for item in whole["items"]] == [applier.namespace] * 2
    assert applier.apply(config_map("x", a="1"), flags=("-o", "name"))[1] == ["configmap/x"]


def test_the_templates_output_can_be_piped_in(applier: Applier) -> None:
    template = {
        "apiVersion": "v1",
        "kind": "Template",
        "parameters": [{"name": "N", "required": True}],
        "objects": [config_map("${N}-one", v="${N}"), config_map("${N}-two")],
    }
    applier.patch.setattr("sys.stdin", io.StringIO(yaml.safe_dump(template)))
    assert main.run("arena", ["process", "-f", "-", "-p", "N=hello"]) == 0
    processed = applier.capture.readouterr().out

    code, lines, _ = applier.arena("apply", "-f", "-", stdin=processed)

    assert (code, lines) == (0, ["configmap/hello-one created", "configmap/hello-two created"])
    assert applier.data("hello-one") == {"v": "hello"}


@pytest.mark.parametrize("applier", ["local"], indirect=True)  # elsewhere CRDs of ours would stay
def test_the_seeds_commands_create_the_job(applier: Applier) -> None:
    """`oc process -f openshift/… | oc apply -f -`, after teaching the cluster the job kinds."""
    assert applier.arena("apply", "-f", "-", stdin=crds.load_all())[0] == 0
    applier.patch.chdir(EXAMPLES)
    assert main.run("arena", SEED.split()) == 0
    processed = applier.capture.readouterr().out

    code, lines, err = applier.arena("apply", "-f", "-", stdin=processed)

    assert (code, lines, err) == (
        0,
        [
            "persistentvolumeclaim/models created",
            "configmap/training-distributed-user1-program created",
            "tfjob.kubeflow.org/training-distributed-user1 created",
        ],
        "",
    )


@pytest.mark.kube
def test_a_field_removed_from_the_manifest_is_removed_from_the_object(
    real_applier: Applier,
) -> None:
    real_applier.apply(config_map("x", a="1", b="2"))

    real_applier.apply(config_map("x", b="2"))

    assert real_applier.data("x") == {"b": "2"}


@pytest.mark.kube
def test_a_conflict_names_the_owner_and_the_flag_that_resolves_it(real_applier: Applier) -> None:
    body = json.dumps(deployment("web", 1)).encode()
    path = f"/apis/apps/v1/namespaces/{real_applier.namespace}/deployments"
    with real_applier.client() as client:
        client.send(Request("POST", path, (("fieldManager", "autoscaler"),), body))

    code, lines, err = real_applier.apply(deployment("web", 5), config_map("other"))

    assert (code, lines) == (1, ["configmap/other created"])
    assert "deployment.apps/web: autoscaler manages .spec.replicas" in err
    assert "--force-conflicts" in err
    assert real_applier.apply(deployment("web", 5), flags=("--force-conflicts",))[:2] == (
        0,
        ["deployment.apps/web configured"],
    )
