"""`muster install` and `uninstall` on a real control plane."""

from __future__ import annotations

import copy
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from kubekit.objects.kinds import CRDS, DEPLOYMENTS, PODS, ROLE_BINDINGS
from kubekit.objects.meta import Raw
from muster.cli import main
from muster.contract.crds import load_all
from muster.contract.job_kinds import TFJOBS
from tests.controlplane.control_plane import ControlPlane
from tests.controlplane.process_flags import kubeconfig
from tests.repository import ROOT
from tests.waiting import until

CHART = ROOT / "deploy" / "chart"
IMAGE = ("--image", "registry.example.com/muster:1")
Run = Callable[..., tuple[int, str, str]]
TEMPLATE: Raw = {"spec": {"containers": [{"name": "tensorflow", "image": "i"}]}}
JOB: Raw = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "TFJob",
    "metadata": {"name": "j", "namespace": "default"},
    "spec": {"tfReplicaSpecs": {"Worker": {"template": TEMPLATE}}},
}


@pytest.fixture(scope="module")
def cluster(control_plane_binaries: Path) -> Iterator[ControlPlane]:
    """A cluster on whose nodes Deployments become ready."""
    with ControlPlane(control_plane_binaries) as plane:
        plane.start_controller_manager()
        plane.start_scheduler()
        plane.start_kwok()
        plane.add_node("n0")
        yield plane


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest) -> Iterator[Run]:
    """Runs commands; an installation that a failed test leaves is removed."""
    needs_cluster = "cluster" in request.fixturenames
    plane: ControlPlane | None = request.getfixturevalue("cluster") if needs_cluster else None

    def muster(verb: str, *words: str) -> tuple[int, str, str]:
        flags = ("--kubeconfig", str(plane.kubeconfig)) if plane else ()
        code = main.run("muster", [verb, *flags, *words])
        out = capsys.readouterr()
        return code, out.out, out.err

    yield muster
    for namespace in _installed(plane) if plane else ():
        muster("uninstall", "--yes", "-n", namespace)


def _installed(plane: ControlPlane) -> set[str]:
    labels = "labelSelector=app.kubernetes.io%2Fpart-of%3Dmuster"
    _, found = plane.request("GET", f"{DEPLOYMENTS.path()}?{labels}")
    return {row["metadata"]["namespace"] for row in found["items"]}


@pytest.mark.kube
@pytest.mark.slow
def test_an_installation_from_beginning_to_end(cluster: ControlPlane, run: Run) -> None:
    code, _, err = run("install", *IMAGE)
    assert (code, "cannot ask without a terminal" in err) == (2, True)

    code, out, err = run("install", *IMAGE, "--yes")
    assert code == 0, err
    assert "deployment.apps/muster-operator created" in out
    assert re.findall(r"/(podgroups\S+) created", out) == ["podgroups.scheduling.volcano.sh"]
    assert "muster-scheduler: 2 of 2 ready" in err
    assert "cluster: muster-test (from --kubeconfig)" in err

    code, out, err = run("install", *IMAGE, "--yes")
    assert code == 0, err
    lines = out.splitlines()[:-1]
    assert {line.rpartition(" ")[2] for line in lines} == {"unchanged"}, out

    status, _ = cluster.request("POST", TFJOBS.path("default"), JOB)
    assert status == 201
    wrong = {**JOB, "metadata": {"name": "0day"}}
    status, answer = cluster.request("POST", TFJOBS.path("default"), wrong)
    assert (status, "'0day-worker-0', derived from it, is not" in answer["message"]) == (422, True)
    code, out, err = run("uninstall", "--yes")
    assert code == 0, err
    assert "deployment/muster-operator in the namespace muster deleted" in out
    assert "validatingadmissionpolicy/muster-jobs deleted" in out
    assert "validatingadmissionpolicybinding/muster-jobs deleted" in out
    assert "1 job left on the cluster" in err
    assert "clusterrole/muster-edit and clusterrole/muster-view stay" in err
    assert cluster.request("GET", TFJOBS.path("default", "j"))[0] == 200
    cluster.kubectl("create", "rolebinding", "carol", "--clusterrole=edit", "--user=carol")
    for verb in ("list", "delete"):
        asked = cluster.kubectl("auth", "can-i", verb, "tfjobs.kubeflow.org", "--as=carol")
        assert asked.stdout == "yes\n", verb
    assert run("uninstall", "--yes")[1] == "Muster is not installed\n"

    code, out, err = run("uninstall", "--yes", "--crds")
    assert code == 0, err
    assert "customresourcedefinition/tfjobs.kubeflow.org deleted" in out
    assert "clusterrole/muster-edit deleted" in out


@pytest.mark.kube
@pytest.mark.slow
def test_a_crd_of_another_system_gets_our_versions_only_when_asked(
    cluster: ControlPlane, run: Run
) -> None:
    name = "mpijobs.kubeflow.org"
    theirs = {
        "metadata": {"name": name},
        "spec": {
            "group": "kubeflow.org",
            "names": {"kind": "MPIJob", "listKind": "MPIJobList", "plural": "mpijobs"},
            "scope": "Namespaced",
            "versions": [
                {
                    "name": "v2beta1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                }
            ],
        },
    }
    cluster.kubectl("wait", "--for=delete", f"crd/{name}", "--timeout=30s")
    status, answer = cluster.request("POST", CRDS.path(), theirs)
    assert status == 201, answer

    def versions() -> list[str]:
        _, crd = cluster.request("GET", CRDS.path(name=name))
        return [version["name"] for version in crd["spec"]["versions"]]

    words = (*IMAGE, "--yes", "--no-wait", "--scheduler-only")
    code, out, err = run("install", *words)
    assert code == 0, err
    assert versions() == ["v2beta1"]
    assert "does not serve v1" in err

    code, out, err = run("install", *words, "--take-crds")
    assert code == 0, err
    assert f"customresourcedefinition.apiextensions.k8s.io/{name} configured" in out
    assert set(versions()) > {"v1", "v2beta1"}
    assert run("uninstall", "--yes")[0] == 0


@pytest.mark.kube
@pytest.mark.slow
def test_an_installation_keeps_its_values_and_shows_what_changes(
    cluster: ControlPlane, run: Run, tmp_path: Path
) -> None:
    code, _, err = run("install", "--yes")
    assert (code, "error: no image is given" in err) == (2, True)
    file = tmp_path / "values.yaml"
    file.write_text(
        "{scheduler: {settings: {holdSeconds: 60}}, nodeSelector: {kubernetes.io/os: linux}}"
    )
    names = ("--scheduler-name", "muster", "--scheduler-name", "volcano")
    words = ("-f", str(file), *names, "--gang-by-default=false", "--no-wait", "--yes")
    assert run("install", *IMAGE, *words)[0] == 0
    cluster.kubectl("scale", "-n", "muster", "deployment/muster-scheduler", "--replicas=3")
    before = written(cluster)

    code, out, err = run("install", "--no-wait", "--yes")
    assert code == 0, err
    assert "the installation in the namespace muster keeps its values\n" in err
    lines = out.splitlines()[:-1]
    assert {line.rpartition(" ")[2] for line in lines} == {"unchanged"}, out
    assert written(cluster) == before

    newer = ("--image", "registry.example.com/muster:2", "--no-dashboard", "--no-wait")
    code, out, err = run("install", *newer)
    assert (code, out) == (2, "")
    assert "cannot ask without a terminal" in err
    assert (
        "the installation in the namespace muster keeps its values, but for\n"
        "  image: registry.example.com/muster:1 -> registry.example.com/muster:2\n"
        "  dashboard.enabled: true -> false\n"
        "  deployment/muster-dashboard in the namespace muster is deleted\n"
    ) in err
    assert written(cluster) == before

    code, out, err = run("install", *newer, "--yes")
    assert code == 0, err
    assert "deployment/muster-dashboard in the namespace muster deleted" in out
    after = written(cluster)
    gone = {name for name in before if name.endswith("muster-dashboard")}
    assert gone == {
        "clusterrole/muster-dashboard",
        "deployment/muster-dashboard",
        "networkpolicy/muster-dashboard",
        "poddisruptionbudget/muster-dashboard",
        "role/muster-dashboard",
        "service/muster-dashboard",
        "serviceaccount/muster-dashboard",
    }
    assert set(before) - set(after) == {*gone, "clusterrole/muster-dashboard-edit"}
    assert [name for name in after if after[name] != before[name]] == [
        "deployment/muster-operator",
        "deployment/muster-scheduler",
    ]
    assert run("install", "--yes", "--no-wait", "--dashboard")[0] == 0
    assert set(written(cluster)) == set(before)


def written(cluster: ControlPlane) -> dict[str, Raw]:
    """What an installation wrote, by kind and name, without what the cluster adds."""
    kinds = (
        "deployments,services,configmaps,poddisruptionbudgets,networkpolicies,serviceaccounts,"
        "roles,rolebindings,clusterroles,clusterrolebindings,validatingadmissionpolicies"
    )
    label = ("-l", "app.kubernetes.io/part-of=muster")
    found = cluster.kubectl("get", kinds, "-A", *label, "-o", "json")
    rows = sorted(json.loads(found.stdout)["items"], key=lambda row: str(row["metadata"]["name"]))
    fields = ("spec", "data", "rules", "subjects")
    return {
        f"{row['kind'].lower()}/{row['metadata']['name']}": {
            name: row[name] for name in fields if name in row
        }
        for row in rows
    }


@pytest.mark.kube
@pytest.mark.slow
def test_a_component_is_added_and_removed_by_a_flag(cluster: ControlPlane, run: Run) -> None:
    words = ("--yes", "--no-wait")
    assert run("install", *IMAGE, *words, "--scheduler-only", "--scheduler-name", "muster")[0] == 0

    code, out, err = run("install", *words, "--operator")
    assert code == 0, err
    assert "operator.enabled: false -> true" in err
    assert out.endswith("installed in the namespace muster: operator and scheduler\n")

    code, out, err = run("install", *words, "--operator-only")
    assert code == 0, err
    assert "scheduler.enabled: true -> false" in err
    assert "clusterrole/muster-scheduler deleted" in out
    assert "deployment/muster-operator" not in out
    _, operator = cluster.request("GET", DEPLOYMENTS.path("muster", "muster-operator"))
    arguments = operator["spec"]["template"]["spec"]["containers"][0]["args"]
    assert not any(word.startswith("--pod-scheduler-name") for word in arguments)

    code, out, err = run("install", *words, "--scheduler-name", "muster")
    assert code == 0, err
    assert out.endswith("installed in the namespace muster: operator and scheduler\n")


@pytest.mark.kube
@pytest.mark.slow
def test_a_component_with_another_image_is_not_chosen_by_chance(
    cluster: ControlPlane, run: Run
) -> None:
    assert run("install", *IMAGE, "--yes", "--no-wait")[0] == 0
    cluster.kubectl("set", "image", "-n", "muster", "deployment/muster-operator", "operator=x:2")

    code, out, err = run("install", "--yes", "--no-wait")

    assert (code, out) == (2, "")
    assert "the components run different images" in err
    assert run("install", *IMAGE, "--yes", "--no-wait")[0] == 0


@pytest.mark.kube
@pytest.mark.slow
def test_beside_another_operator(cluster: ControlPlane, run: Run) -> None:
    cluster.kubectl("create", "deployment", "training-operator", "--image=x", "-n", "default")

    code, _, err = run("install", *IMAGE, "--yes", "--operator")
    assert (code, "two operators would act on the same jobs" in err) == (2, True)
    code, out, err = run("install", *IMAGE, "--yes", "--no-wait")
    assert code == 0, err

    assert "deployment.apps/muster-scheduler created" in out
    assert "muster-operator" not in out
    cluster.kubectl("delete", "deployment", "training-operator", "-n", "default")
    assert run("uninstall", "--yes")[0] == 0


@pytest.mark.kube
@pytest.mark.slow
def test_pods_that_do_not_start_are_named(cluster: ControlPlane, run: Run, tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text("nodeSelector: {disk: none}")

    code, _, err = run("install", *IMAGE, "--yes", "-f", str(values), "--timeout", "2s")

    assert code == 1
    assert "error: muster-operator is not ready: muster-operator-" in err
    assert run("uninstall", "--yes")[0] == 0


def test_the_dry_run_prints_yaml_and_needs_no_cluster(run: Run) -> None:
    code, out, err = run("install", *IMAGE, "--dry-run", "--scheduler-only")

    assert (code, err) == (0, "")
    kinds = [item["kind"] for item in yaml.safe_load_all(out)]
    assert (kinds.count("Deployment"), kinds[0]) == (1, "Namespace")


def test_without_an_image_the_next_step_is_named(run: Run) -> None:
    code, _, err = run("install", "--dry-run")

    assert code == 2
    assert "deploy/Containerfile" in err


def test_scheduler_names_without_the_operators_own_are_refused(run: Run) -> None:
    code, out, err = run("install", *IMAGE, "--dry-run", "--scheduler-name", "volcano")

    assert (code, out) == (2, "")
    assert "the operator gives pods to the scheduler muster" in err
    assert "Add --scheduler-name muster" in err


@pytest.mark.parametrize("words", [(), ("--dry-run",)], ids=["install", "dry run"])
@pytest.mark.parametrize(
    ("wrong", "sentence", "step"),
    [
        (
            ("--namespace", "Team A"),
            "error: --namespace: 'Team A' is not the name of a namespace",
            "for example team-a",
        ),
        (("--namespace", "-"), "'-' is not the name of a namespace", "lower-case letters"),
        (("--image", "a b"), "error: --image: 'a b' is not the name of an image", "podman pull"),
        (("--image", ""), "error: no image is given", "deploy/Containerfile"),
        (("--scheduler-name", ""), "--scheduler-name: '' is not the name of a", "schedulerName"),
        (("--watch-namespace", ""), "error: --watch-namespace is empty", "leave the flag out"),
        (("--watch-namespace", "a/b"), "'a/b' is not the name of a namespace", "a-b"),
    ],
)
def test_a_wrong_value_is_refused_before_the_cluster_is_asked(
    run: Run, words: tuple[str, ...], wrong: tuple[str, ...], sentence: str, step: str
) -> None:
    nowhere = ("--kubeconfig", "/nowhere") if not words else ()

    code, out, err = run("install", *IMAGE, *words, *nowhere, *wrong)

    first, second = err.splitlines()
    assert (code, out) == (2, "")
    assert sentence in first
    assert step in second


def test_a_wrong_namespace_is_refused_by_uninstall_too(run: Run) -> None:
    code, _, err = run("uninstall", "--kubeconfig", "/nowhere", "--namespace", "Team A")

    assert code == 2
    assert "--namespace: 'Team A' is not the name of a namespace" in err


@pytest.mark.kube
@pytest.mark.slow
def test_an_operator_for_one_namespace_works_with_rights_there_alone(
    cluster: ControlPlane, run: Run
) -> None:
    cluster.kubectl("create", "namespace", "team")
    only = ("--operator-only", "--watch-namespace", "team", "-n", "team")
    code, out, err = run("install", *IMAGE, "--yes", "--no-wait", *only)
    assert code == 0, err
    assert "clusterrole" not in out
    token = cluster.kubectl("create", "token", "muster-operator", "-n", "team").stdout.strip()
    config = cluster.folder / "operator.kubeconfig"
    authority = cluster.authority.certificate
    config.write_text(json.dumps(kubeconfig(cluster.url, authority, token=token)))
    _, deployment = cluster.request("GET", DEPLOYMENTS.path("team", "muster-operator"))
    arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    free = [word for word in arguments if not word.startswith("--metrics-")]
    words = [sys.executable, "-m", "muster", *free, f"--kubeconfig={config}"]

    with (cluster.folder / "operator.log").open("w") as log:
        process = subprocess.Popen(words, stdout=log, stderr=log)
    try:
        job = copy.deepcopy(JOB)
        job["metadata"]["namespace"] = "team"
        job["spec"] = {"tfReplicaSpecs": {"Worker": {"replicas": 2, "template": TEMPLATE}}}
        status, answer = cluster.request("POST", TFJOBS.path("team"), job)
        assert status == 201, answer

        def pods() -> bool:
            labels = "training.kubeflow.org%2Fjob-name%3Dj"
            _, found = cluster.request("GET", f"{PODS.path('team')}?labelSelector={labels}")
            return len(found["items"]) == 2

        until(pods, timeout=240, what="the pods of the job")
    finally:
        process.terminate()
        process.wait(120)
    log_text = (cluster.folder / "operator.log").read_text()
    # Priority classes belong to no namespace: the operator does without them, and says so.
    refused = [line for line in log_text.splitlines() if "may not" in line]
    assert refused
    assert all("priorityclasses" in line for line in refused), log_text
    code, out, err = run("uninstall", "--yes", "-n", "team")
    assert code == 0, err
    assert "lease/muster-operator in the namespace team deleted" in out


@pytest.mark.kube
@pytest.mark.slow
def test_two_teams_with_an_operator_each(cluster: ControlPlane, run: Run) -> None:
    for name in ("red", "blue"):
        cluster.kubectl("create", "namespace", name)
        only = ("--operator-only", "--watch-namespace", name, "-n", name)
        assert run("install", *IMAGE, "--yes", "--no-wait", *only)[0] == 0

    code, out, _ = run("uninstall", "--dry-run", "-n", "red")
    assert (code, "blue" in out) == (0, False)
    assert "deployment/muster-operator in the namespace red would be deleted" in out
    code, out, _ = run("uninstall", "--yes")
    assert out == (
        "Muster is not installed in the namespace muster, but in blue, red: use --namespace\n"
    )
    assert run("uninstall", "--yes", "-n", "red")[0] == 0

    assert cluster.request("GET", DEPLOYMENTS.path("blue", "muster-operator"))[0] == 200
    assert cluster.request("GET", ROLE_BINDINGS.path("blue", "muster-operator"))[0] == 200
    assert cluster.request("GET", ROLE_BINDINGS.path("red", "muster-operator"))[0] == 404
    assert run("uninstall", "--yes", "-n", "blue")[0] == 0


@pytest.mark.kube
@pytest.mark.slow
def test_operators_for_all_namespaces_and_for_one_are_refused_beside_each_other(
    cluster: ControlPlane, run: Run
) -> None:
    cluster.kubectl("create", "namespace", "green")
    words = (*IMAGE, "--yes", "--no-wait")
    only = ("--operator-only", "--watch-namespace", "green", "-n", "green")
    assert run("install", *words)[0] == 0

    code, out, err = run("install", *words, *only)

    assert (code, out) == (2, "")
    assert "there is muster-operator in the namespace muster, which serves all namespaces" in err
    assert cluster.request("GET", DEPLOYMENTS.path("green", "muster-operator"))[0] == 404
    assert run("uninstall", "--yes")[0] == 0
    assert run("install", *words, *only)[0] == 0
    code, out, err = run("install", *words)
    assert (code, out) == (2, "")
    assert "`muster uninstall --namespace green`" in err
    assert run("uninstall", "--yes", "-n", "green")[0] == 0


def as_user(cluster: ControlPlane, name: str) -> tuple[str, str]:
    """The flag with the kubeconfig of an ordinary user."""
    file = cluster.folder / f"{name}.kubeconfig"
    client = cluster.authority.client(name, "researchers")
    file.write_text(json.dumps(kubeconfig(cluster.url, cluster.authority.certificate, client)))
    return ("--kubeconfig", str(file))


@pytest.mark.kube
@pytest.mark.slow
def test_a_user_without_rights_gets_one_sentence_and_changes_nothing(
    cluster: ControlPlane, run: Run
) -> None:
    words = (*IMAGE, "--yes", "--no-wait", *as_user(cluster, "dave"))

    code, out, err = run("install", *words)

    assert (code, out) == (4, "")
    cluster_line, sentence, step = err.splitlines()
    assert cluster_line.startswith("cluster: ")
    assert sentence.startswith("error: you lack the rights to install Muster: to create and change")
    assert "administrator" in step
    assert "--dry-run" in step
    code, _, err = run("install", *words, "--debug")
    assert code == 4, err
    assert "resources: [clusterroles, clusterrolebindings], verbs: [create, patch]}" in err


@pytest.mark.kube
@pytest.mark.slow
def test_a_user_who_may_grant_nothing_gets_one_sentence(cluster: ControlPlane, run: Run) -> None:
    """Who creates a role must have every right in it."""
    rule = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["create", "get", "list", "patch"]}
    path = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    cluster.request("POST", path, {"metadata": {"name": "writer"}, "rules": [rule]})
    cluster.kubectl("create", "clusterrolebinding", "erin", "--clusterrole=writer", "--user=erin")
    words = (*IMAGE, "--yes", "--no-wait", *as_user(cluster, "erin"))

    code, out, err = run("install", *words)

    assert (code, out) == (4, "")
    _, sentence, step = err.splitlines()
    assert sentence.startswith("error: you lack the rights that you would grant to Muster, in ")
    assert "administrator" in step
    assert "\nerin may not " in run("install", *words, "--debug")[2]


@pytest.mark.kube
@pytest.mark.slow
def test_the_administrator_of_a_namespace_learns_every_rule_that_is_missing_and_then_installs(
    cluster: ControlPlane, run: Run
) -> None:
    assert cluster.kubectl("create", "namespace", "lab").returncode == 0
    crds = yaml.safe_dump_all(load_all())
    (cluster.folder / "crds.yaml").write_text(crds)
    cluster.kubectl("apply", "--server-side", "-f", str(cluster.folder / "crds.yaml"))
    cluster.kubectl(
        "create", "rolebinding", "nina", "-n", "lab", "--clusterrole=admin", "--user=nina"
    )
    nina = ("-n", "lab", *as_user(cluster, "nina"))
    words = (*IMAGE, "--yes", "--no-wait", "--operator-only", "--watch-namespace", "lab", *nina)

    code, out, err = run("install", *words)

    assert (code, out) == (4, "")
    assert "Traceback" not in err
    rules = re.findall(r"add the rule (\{.*\}) in the namespace lab$", err, re.MULTILINE)
    assert rules
    role = {"metadata": {"name": "gangs"}, "rules": [yaml.safe_load(rule) for rule in rules]}
    path = "/apis/rbac.authorization.k8s.io/v1/namespaces/lab/roles"
    status, answer = cluster.request("POST", path, role)
    assert status == 201, answer
    cluster.kubectl("create", "rolebinding", "gangs", "-n", "lab", "--role=gangs", "--user=nina")
    until(lambda: run("install", *words)[0] == 0, what="the rules are enough")
    code, out, err = run("install", "--yes", "--no-wait", "--replicas=1", *nina)
    assert code == 0, err
    assert "operator.replicas: 2 -> 1" in err
    assert out.endswith("installed in the namespace lab: operator\n")
    _, out, err = run("doctor", *nina)
    assert "Traceback" not in err
    assert "ok       api server" in out
    code, out, err = run("uninstall", "--yes", *nina)
    assert code == 0, err
    assert "deployment/muster-operator in the namespace lab deleted" in out


@pytest.mark.kube
@pytest.mark.slow
def test_helm_installs_after_an_uninstallation_and_the_other_way_round(
    cluster: ControlPlane, run: Run, helm: Path
) -> None:
    """The roles by which users work with their jobs stay each time, and keep neither out."""

    def chart(*words: str) -> None:
        config = ("--kubeconfig", str(cluster.kubeconfig), "--namespace", "muster")
        command = [str(helm), *words, *config]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr

    def rights() -> list[Raw]:
        path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/muster-edit"
        status, role = cluster.request("GET", path)
        assert status == 200
        return list(role["rules"])

    assert run("install", *IMAGE, "--yes", "--no-wait")[0] == 0
    assert run("uninstall", "--yes")[0] == 0
    wanted = rights()

    chart("install", "train", str(CHART), "--set", "image=i:1", "--create-namespace")
    assert rights() == wanted
    code, _, err = run("install", *IMAGE, "--yes", "--no-wait")
    assert (code, "was installed with Helm" in err) == (2, True)
    chart("upgrade", "train", str(CHART), "--reuse-values", "--set", "image=i:2")
    chart("rollback", "train", "1")
    assert rights() == wanted
    chart("uninstall", "train")
    assert rights() == wanted

    assert run("install", *IMAGE, "--yes", "--no-wait")[0] == 0
    assert run("uninstall", "--yes")[0] == 0


@pytest.mark.kube
@pytest.mark.slow
def test_a_user_without_a_role_who_submits_a_job_gets_the_command_that_allows_it(
    cluster: ControlPlane, run: Run, tmp_path: Path
) -> None:
    assert run("install", *IMAGE, "--yes", "--no-wait")[0] == 0
    (tmp_path / "job.yaml").write_text(json.dumps(JOB))
    manifest = (*as_user(cluster, "frank"), "-f", str(tmp_path / "job.yaml"))
    for verb in ("create", "apply"):
        code, _, err = run(verb, *manifest)
        assert (code, "--clusterrole=edit --user=frank" in err) == (4, True), err
    words = ("tf", *as_user(cluster, "frank"), "--name=f", "--image=i", "true")

    code, _, err = run("submit", *words)

    assert code == 4, err
    _, sentence, step = err.splitlines()
    assert sentence == (
        "error: frank may not submit jobs in the namespace default (get configmaps): "
        "the role edit, which includes muster-edit, allows it"
    )
    command = step.removeprefix("An administrator runs: ")
    assert cluster.kubectl(*shlex.split(command)[1:]).returncode == 0
    asked = ("auth", "can-i", "create", "tfjobs.kubeflow.org", "--as=frank")
    until(lambda: cluster.kubectl(*asked).stdout == "yes\n", what="the role edit includes jobs")
    for group in ("scheduling.volcano.sh", "scheduling.x-k8s.io", "scheduling.incubator.k8s.io"):
        asked = ("auth", "can-i", "create", f"podgroups.{group}", "--as=frank")
        assert cluster.kubectl(*asked).stdout == "yes\n", group
    assert run("submit", *words)[0] == 0
    cluster.request("DELETE", TFJOBS.path("default", "f"))
    assert run("uninstall", "--yes")[0] == 0


@pytest.mark.kube
@pytest.mark.slow
def test_a_second_installation_is_refused_and_the_first_keeps_its_rights(
    cluster: ControlPlane, run: Run
) -> None:
    assert run("install", *IMAGE, "--yes", "--no-wait", "-n", "first")[0] == 0

    code, _, err = run("install", *IMAGE, "--yes", "--no-wait", "-n", "second")

    assert code == 2
    assert "muster-operator is installed in the namespace first" in err
    assert cluster.request("GET", "/api/v1/namespaces/second")[0] == 404
    account = "--as=system:serviceaccount:first:muster-operator"
    assert cluster.kubectl("auth", "can-i", "create", "pods", account).stdout == "yes\n"
    assert run("uninstall", "--yes", "-n", "first")[0] == 0
