"""MPI: workers first, then a launcher that can reach them."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from muster.api.kinds import (
    CONFIG_MAPS,
    COSCHEDULING_POD_GROUPS,
    KUBE_BATCH_POD_GROUPS,
    POD_DISRUPTION_BUDGETS,
    SECRETS,
    SERVICE_ACCOUNTS,
    VOLCANO_POD_GROUPS,
    Kind,
)
from muster.api.meta import Raw
from muster.errors import InvalidJob
from muster.jobs import names, parse
from muster.operator.act import ssh_keys
from muster.operator.actions import Create
from muster.operator.frameworks import mpi_files
from muster.operator.frameworks.mpi import BINDINGS, ROLES
from muster.operator.settings import Settings
from tests.operator.builders import Model, env, manifest, replica, template

LAUNCHER = names.launcher("j", "job-uid", 0)
SECOND = names.launcher("j", "job-uid", 1)
WORKERS = ("j-worker-0", "j-worker-1")


def job(**spec: Any) -> Raw:
    roles = {"Launcher": replica(1, name="mpi"), "Worker": replica(2, name="mpi")}
    roles["Launcher"]["template"]["spec"]["containers"][0]["command"] = ["mpirun", "x"]
    return manifest("MPIJob", roles, **spec)


def single(**spec: Any) -> Raw:
    """One template for launcher and workers, as arena writes it."""
    raw = manifest("MPIJob", {"Launcher": {}})
    body = template("mpi")
    body["spec"]["containers"][0] |= {
        "command": ["sh", "-c", "mpirun python x.py"],
        "args": ["a"],
        "resources": {"limits": {"nvidia.com/gpu": 2}},
    }
    raw["spec"] = {"template": body, **({"replicas": 2} | spec)}
    return raw


def test_the_launcher_waits_until_all_workers_are_ready() -> None:
    model = Model(job())
    model.settle()
    assert sorted(model.pods) == list(WORKERS)

    model.run("j-worker-0")
    model.settle()
    assert sorted(model.pods) == list(WORKERS)

    unready = [{"type": "Ready", "status": "False"}]
    model.run("j-worker-1", conditions=unready)
    model.settle()
    assert sorted(model.pods) == list(WORKERS)

    model.run("j-worker-1", conditions=[{"type": "Ready", "status": "True"}])
    model.settle()
    assert sorted(model.pods) == [LAUNCHER, *WORKERS]
    assert model.conditions() == ["Created"]

    model.run()
    model.settle()
    assert model.conditions() == ["Created", "Running"]

    model.exit(LAUNCHER, 0, "mpi")
    model.settle()
    assert model.conditions() == ["Created", "Running(False)", "Succeeded"]


def test_the_gang_is_the_workers() -> None:
    model = Model(job())
    model.settle()

    spec = model.objects[(VOLCANO_POD_GROUPS.resource, "j")]["spec"]

    assert spec["minMember"] == 2
    assert spec["minTaskMember"] == {"worker": 2}


@pytest.mark.parametrize(
    ("dialect", "resource"),
    [
        ("volcano", VOLCANO_POD_GROUPS),
        ("kube-batch", KUBE_BATCH_POD_GROUPS),
        ("pdb", POD_DISRUPTION_BUDGETS),
    ],
)
def test_the_launchers_room_is_asked_for_with_the_gang(dialect: str, resource: Kind[Any]) -> None:
    raw = job()
    container = raw["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]
    container["resources"] = {"limits": {"cpu": "1500m", "memory": "1Gi"}}
    model = Model(raw, Settings(dialect=dialect))
    model.settle()

    def late() -> Any:
        meta = model.objects[(resource.resource, "j")]["metadata"]
        return json.loads(meta["annotations"]["muster.dev/late"])

    assert late() == {"launcher": {"cpu": "1500m", "memory": str(2**30)}}

    container["resources"] = {"requests": {"cpu": 2}}
    model.edit(mpiReplicaSpecs=raw["spec"]["mpiReplicaSpecs"])
    model.settle()
    assert late() == {"launcher": {"cpu": "2000m"}}


def test_where_the_launcher_is_not_of_the_group_no_room_is_asked_for() -> None:
    model = Model(job(), Settings(dialect="coscheduling"))
    model.settle()

    group = model.objects[(COSCHEDULING_POD_GROUPS.resource, "j")]
    assert "muster.dev/late" not in group["metadata"].get("annotations", {})


def test_by_ssh_names_end_in_the_clusters_domain() -> None:
    model = Model(job(sshAuthMountPath="/root/.ssh"), Settings(domain="k8s.example"))
    model.settle()

    data = model.objects[(CONFIG_MAPS.resource, "j-config")]["data"]
    assert data["hostfile"].splitlines()[0] == "j-worker-0.j.ns.svc.k8s.example slots=1"
    searches = model.manifests["j-worker-0"]["spec"]["dnsConfig"]["searches"]
    assert searches == ["j.ns.svc.k8s.example"]


def test_the_config_volume_holds_what_mpirun_needs() -> None:
    model = Model(job(slotsPerWorker=4))
    model.settle()
    model.run(*WORKERS)
    model.settle()

    data = model.objects[(CONFIG_MAPS.resource, "j-config")]["data"]
    assert data["hostfile"] == "j-worker-0 slots=4\nj-worker-1 slots=4\n"
    assert data["discover_hosts.sh"] == "#!/bin/sh\necho j-worker-0:4\necho j-worker-1:4\n"
    assert (
        'exec /opt/kube/kubectl exec "$pod" --container mpi -- /bin/sh -c "$*"'
        in (data["kubexec.sh"])
    )
    variables = env(model.manifests[LAUNCHER], "mpi")
    assert variables["OMPI_MCA_plm_rsh_agent"] == "/etc/mpi/kubexec.sh"
    assert variables["PRTE_MCA_plm_ssh_agent"] == "/etc/mpi/kubexec.sh"
    assert variables["OMPI_MCA_orte_default_hostfile"] == "/etc/mpi/hostfile"
    assert variables["PRTE_MCA_prte_default_hostfile"] == "/etc/mpi/hostfile"
    assert variables["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] == "1"
    assert variables["NVIDIA_VISIBLE_DEVICES"] == ""
    mounted = {v["name"]: v for v in model.manifests[LAUNCHER]["spec"]["volumes"]}
    items = {i["path"]: i["mode"] for i in mounted["mpi-job-config"]["configMap"]["items"]}
    assert items == {
        "kubexec.sh": 0o555,
        "hostfile": 0o444,
        "discover_hosts.sh": 0o555,
        "kubexec.py": 0o444,
    }


def test_hosts_that_come_and_go_are_discovered() -> None:
    model = Model(job())
    model.settle()
    model.run(*WORKERS)
    model.settle()
    model.pod("j-worker-0", phase="Pending")
    model.settle()

    data = model.objects[(CONFIG_MAPS.resource, "j-config")]["data"]
    assert data["discover_hosts.sh"] == "#!/bin/sh\necho j-worker-1:1\n"


def test_the_launcher_may_run_commands_in_its_own_workers_only() -> None:
    model = Model(job())
    model.settle()

    rules = model.objects[(ROLES.resource, "j-launcher")]["rules"]
    execs = next(rule for rule in rules if rule["resources"] == ["pods/exec"])
    assert execs["resourceNames"] == list(WORKERS)
    assert (SERVICE_ACCOUNTS.resource, "j-launcher") in model.objects
    subject = model.objects[(BINDINGS.resource, "j-launcher")]["subjects"][0]
    assert subject["name"] == "j-launcher"

    model.edit(
        mpiReplicaSpecs={"Launcher": replica(1, name="mpi"), "Worker": replica(0, name="mpi")}
    )
    model.settle()
    assert model.objects[(ROLES.resource, "j-launcher")]["rules"] == []


@pytest.mark.parametrize("image", ["", "kubectl-delivery:1"])
def test_a_launcher_may_do_no_more_than_its_way_into_the_workers_takes(image: str) -> None:
    model = Model(job(), Settings(delivery_image=image))
    model.settle()

    # A websocket is opened by GET, but needs the right to create as well on newer servers.
    execs = {"resources": ["pods/exec"], "resourceNames": list(WORKERS), "verbs": ["create", "get"]}
    # The image that brings kubectl waits until all workers are there, by a watch of pods.
    looks = {"resources": ["pods"], "verbs": ["get", "list", "watch"]}
    rules = model.objects[(ROLES.resource, "j-launcher")]["rules"]
    assert rules == [{"apiGroups": [""], **rule} for rule in ([looks] if image else []) + [execs]]


def test_a_role_without_rules_is_not_written_again_and_again() -> None:
    raw = job()
    raw["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] = 0
    model = Model(raw)
    model.settle()
    # As servers hand it out that keep no empty lists.
    model.objects[(ROLES.resource, "j-launcher")]["rules"] = None

    assert model.step() == []


def test_a_launcher_with_an_account_of_its_own_keeps_it() -> None:
    raw = job()
    raw["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["serviceAccountName"] = "mine"
    model = Model(raw)
    model.settle()
    model.run(*WORKERS)
    model.settle()

    assert (SERVICE_ACCOUNTS.resource, "j-launcher") not in model.objects
    assert model.objects[(BINDINGS.resource, "j-launcher")]["subjects"][0]["name"] == "mine"
    assert model.manifests[LAUNCHER]["spec"]["serviceAccountName"] == "mine"


@pytest.mark.parametrize(
    ("written", "account"),
    [
        ({"serviceAccountName": ""}, "j-launcher"),
        ({"serviceAccountName": None}, "j-launcher"),
        ({"serviceAccount": "mine"}, "mine"),
        ({"serviceAccountName": "", "serviceAccount": "mine"}, "mine"),
    ],
)
def test_a_launcher_runs_as_the_account_that_may_reach_its_workers(
    written: Raw, account: str
) -> None:
    raw = job()
    raw["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"] |= written
    model = Model(raw)
    model.settle()
    model.run(*WORKERS)
    model.settle()

    assert model.objects[(BINDINGS.resource, "j-launcher")]["subjects"][0]["name"] == account
    assert model.manifests[LAUNCHER]["spec"]["serviceAccountName"] == account
    assert ((SERVICE_ACCOUNTS.resource, "j-launcher") in model.objects) == (account == "j-launcher")


def test_one_template_makes_workers_that_sleep_and_a_launcher_without_gpus() -> None:
    model = Model(single())
    model.settle()
    model.run(*WORKERS)
    model.settle()

    worker = model.manifests["j-worker-0"]["spec"]
    assert "sleep 365d" in worker["containers"][0]["command"][2]
    assert "args" not in worker["containers"][0]
    assert worker["restartPolicy"] == "Always"
    launcher = model.manifests[LAUNCHER]["spec"]["containers"][0]
    assert launcher["command"] == ["sh", "-c", "mpirun python x.py"]
    assert "resources" not in launcher
    data = model.objects[(CONFIG_MAPS.resource, "j-config")]["data"]
    assert data["hostfile"] == "j-worker-0 slots=2\nj-worker-1 slots=2\n"


@pytest.mark.parametrize(
    ("spec", "workers", "units"),
    [
        ({"gpus": 8, "gpusPerNode": 4}, 2, 4),
        ({"gpus": 3, "gpusPerNode": 4}, 1, 3),
        ({"processingUnits": 6, "processingUnitsPerNode": 2}, 3, 2),
        ({"replicas": 5}, 5, 2),
    ],
)
def test_one_template_is_sized_by_its_units(spec: Raw, workers: int, units: int) -> None:
    raw = single()
    del raw["spec"]["replicas"]
    raw["spec"] |= spec

    read = parse.parse_job(raw)

    assert read.count("Worker") == workers
    worker = read.replica_spec("Worker")
    assert worker is not None
    assert worker.main["resources"]["limits"]["nvidia.com/gpu"] == units
    assert read.mpi is not None
    assert read.mpi.slots == units


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"gpus": 7, "gpusPerNode": 4, "replicas": None}, "7 is not a multiple of gpusPerNode 4"),
        ({"gpus": 8}, "spec.gpus and spec.replicas is given"),
        ({"replicas": None}, "none of them is given"),
    ],
)
def test_one_template_that_cannot_be_sized_is_refused(spec: Raw, message: str) -> None:
    with pytest.raises(InvalidJob, match=message):
        parse.parse_job(single(**spec))


def test_a_failed_launcher_is_tried_again_under_another_name_and_its_log_stays() -> None:
    model = Model(single(backoffLimit=1, cleanPodPolicy="All"))
    model.settle()
    model.run(*WORKERS)
    model.settle()

    model.exit(LAUNCHER, 1, "mpi")
    model.settle()
    assert sorted(model.pods) == sorted([LAUNCHER, SECOND, *WORKERS])
    assert model.status["restarts"] == 1

    model.exit(SECOND, 1, "mpi")
    model.settle()
    assert model.conditions()[-1] == "Failed"
    assert sorted(model.pods) == sorted([LAUNCHER, SECOND])


def test_a_launcher_that_may_not_retry_fails_the_job() -> None:
    model = Model(job())
    model.settle()
    model.run(*WORKERS)
    model.settle()
    model.exit(LAUNCHER, 1, "mpi")
    model.settle()

    assert model.conditions()[-1] == "Failed"
    assert "1 Launcher replica(s) failed" in model.status["conditions"][-1]["message"]


def test_an_evicted_worker_does_not_fail_the_job() -> None:
    model = Model(job())
    model.settle()
    model.run(*WORKERS)
    model.settle()
    model.pod("j-worker-1", phase="Failed", reason="Evicted")
    model.settle()

    assert "Failed" not in model.conditions()
    assert model.pods["j-worker-1"].status.phase == "Pending"


def test_by_ssh_the_launcher_starts_at_once_with_keys_and_names() -> None:
    model = Model(job(sshAuthMountPath="/root/.ssh"))
    model.settle()

    assert sorted(model.pods) == [LAUNCHER, *WORKERS]
    assert list(model.services) == ["j"]
    worker, launcher = model.manifests["j-worker-1"]["spec"], model.manifests[LAUNCHER]["spec"]
    assert worker["containers"][0]["command"] == ["/usr/sbin/sshd", "-De"]
    assert (worker["hostname"], worker["subdomain"]) == ("j-worker-1", "j")
    assert launcher["restartPolicy"] == "OnFailure"
    data = model.objects[(CONFIG_MAPS.resource, "j-config")]["data"]
    assert data["hostfile"] == "j-worker-0.j.ns.svc slots=1\nj-worker-1.j.ns.svc slots=1\n"
    assert env(model.manifests[LAUNCHER], "mpi")["OMPI_MCA_orte_keep_fqdn_hostnames"] == "true"
    secret = model.objects[(SECRETS.resource, "j-ssh")]
    assert "data" not in secret
    created = [a for a in model.log if isinstance(a, Create) and a.kind == SECRETS]
    assert [action.generate for action in created] == ["ssh-keys"]
    assert set(ssh_keys.with_keys(secret)["data"]) == {"ssh-privatekey", "ssh-publickey"}


def test_by_ssh_the_launcher_waits_if_asked_to() -> None:
    ssh = {"sshAuthMountPath": "/root/.ssh", "launcherCreationPolicy": "WaitForWorkersReady"}
    model = Model(job(**ssh))
    model.settle()
    assert sorted(model.pods) == list(WORKERS)

    model.run()
    model.settle()
    assert LAUNCHER in model.pods


@pytest.mark.parametrize(
    ("implementation", "line", "variable"),
    [
        ("Intel", "j-worker-0.j.ns.svc:2\n", "I_MPI_HYDRA_HOST_FILE"),
        ("MPICH", "j-worker-0.j.ns.svc:2\n", "HYDRA_HOST_FILE"),
        ("OpenMPI", "j-worker-0.j.ns.svc slots=2\n", "OMPI_MCA_orte_default_hostfile"),
    ],
)
def test_each_implementation_is_told_in_its_own_words(
    implementation: str, line: str, variable: str
) -> None:
    spec = {"sshAuthMountPath": "/root/.ssh", "mpiImplementation": implementation}
    model = Model(job(slotsPerWorker=2, **spec))
    model.settle()

    data = model.objects[(CONFIG_MAPS.resource, "j-config")]["data"]
    assert data["hostfile"].startswith(line)
    assert env(model.manifests[LAUNCHER], "mpi")[variable] == "/etc/mpi/hostfile"


def test_kubectl_is_delivered_if_an_image_is_given() -> None:
    model = Model(job(), Settings(delivery_image="kubectl:1"))
    model.settle()
    model.run(*WORKERS)
    model.settle()

    (init,) = model.manifests[LAUNCHER]["spec"]["initContainers"]
    assert init["image"] == "kubectl:1"
    assert {"name": "TARGET_DIR", "value": "/opt/kube"} in init["env"]


def test_the_launchers_name_is_the_same_each_time() -> None:
    assert names.launcher("mpi-dist", "u", 0) == names.launcher("mpi-dist", "u", 0)
    assert names.launcher("mpi-dist", "u", 0) != names.launcher("mpi-dist", "u", 1)
    assert len(LAUNCHER) == len("j-launcher-5279n")


def test_the_agent_is_a_shell_script_that_finds_python(tmp_path: Path) -> None:
    shell = shutil.which("sh")
    assert shell
    script = tmp_path / "kubexec.sh"
    script.write_text(mpi_files.agent("mpi").replace("/etc/mpi", str(tmp_path)))
    (tmp_path / "kubexec.py").write_text("import sys; print(sys.argv[1:])")

    done = subprocess.run(
        [shell, script, "j-worker-0", "orted", "-mca", "a b"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.strip() == "['j-worker-0', 'mpi', '/bin/sh', '-c', 'orted -mca a b']"


def test_workers_of_the_first_version_go_when_the_launcher_is_done() -> None:
    template = {"spec": {"containers": [{"name": "mpi", "image": "i"}]}}
    raw = manifest("MPIJob")
    raw["spec"] = {"replicas": 2, "template": template}
    model = Model(raw)
    model.settle()
    model.run()
    model.settle()
    launcher = next(name for name in model.pods if "launcher" in name)
    model.exit(launcher, 0, "mpi")
    model.settle()

    assert model.conditions()[-1] == "Succeeded"
    assert list(model.pods) == [launcher]
