"""MPI: workers first, then a launcher that can reach them."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kubekit.objects.kinds import CONFIG_MAPS, POD_DISRUPTION_BUDGETS, SECRETS, Kind
from muster.contract.pod_groups import (
    COSCHEDULING_POD_GROUPS,
    KUBE_BATCH_POD_GROUPS,
    VOLCANO_POD_GROUPS,
)
from muster.jobs import names
from muster.operator import executor
from muster.operator.decision_types import Create, Settings
from muster.operator.frameworks import mpi
from tests.muster.operator.builders import Model, env
from tests.muster.operator.frameworks.mpi_jobs import LAUNCHER, WORKERS, job, single

SECOND = names.launcher("j", "job-uid", 1)


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


def test_the_gang_of_an_mpi_job_is_its_workers() -> None:
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
def test_the_launchers_resources_are_on_the_group(dialect: str, resource: Kind[Any]) -> None:
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


def test_a_group_without_the_launcher_has_no_launcher_resources() -> None:
    model = Model(job(), Settings(dialect="coscheduling"))
    model.settle()

    group = model.objects[(COSCHEDULING_POD_GROUPS.resource, "j")]
    assert "muster.dev/late" not in group["metadata"].get("annotations", {})


def test_with_ssh_host_names_end_in_the_clusters_domain() -> None:
    model = Model(job(sshAuthMountPath="/root/.ssh"), Settings(domain="k8s.example"))
    model.settle()

    data = model.objects[(CONFIG_MAPS.resource, "j-config")]["data"]
    assert data["hostfile"].splitlines()[0] == "j-worker-0.j.ns.svc.k8s.example slots=1"
    searches = model.manifests["j-worker-0"]["spec"]["dnsConfig"]["searches"]
    assert searches == ["j.ns.svc.k8s.example"]


def test_the_config_volume_holds_the_files_that_mpirun_needs() -> None:
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


def test_the_discovery_script_lists_the_ready_workers() -> None:
    model = Model(job())
    model.settle()
    model.run(*WORKERS)
    model.settle()
    model.pod("j-worker-0", phase="Pending")
    model.settle()

    data = model.objects[(CONFIG_MAPS.resource, "j-config")]["data"]
    assert data["discover_hosts.sh"] == "#!/bin/sh\necho j-worker-1:1\n"


def test_a_failed_launcher_is_retried_under_another_name_and_its_log_stays() -> None:
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
    assert model.status["failure"]["first"]["role"] == "launcher"


def test_an_evicted_worker_does_not_fail_the_job() -> None:
    model = Model(job())
    model.settle()
    model.run(*WORKERS)
    model.settle()
    model.pod("j-worker-1", phase="Failed", reason="Evicted")
    model.settle()

    assert "Failed" not in model.conditions()
    assert model.pods["j-worker-1"].status.phase == "Pending"


def test_with_ssh_the_launcher_starts_at_once_with_keys_and_host_names() -> None:
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
    assert set(executor.with_keys(secret)["data"]) == {"ssh-privatekey", "ssh-publickey"}


def test_with_ssh_the_launcher_waits_if_the_job_requests_it() -> None:
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
def test_each_mpi_implementation_gets_its_own_variables(
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
    script.write_text(mpi.agent("mpi").replace("/etc/mpi", str(tmp_path)))
    (tmp_path / "kubexec.py").write_text("import sys; print(sys.argv[1:])")

    result = subprocess.run(
        [shell, script, "j-worker-0", "orted", "-mca", "a b"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert result.stdout.strip() == "['j-worker-0', 'mpi', '/bin/sh', '-c', 'orted -mca a b']"
