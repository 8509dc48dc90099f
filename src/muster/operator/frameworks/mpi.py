"""MPIJob: a launcher that starts ranks on workers, by exec into their pods or by ssh.

With exec, the launcher is created when all workers are ready, so that mpirun finds them. With ssh,
it waits for the workers only if the job requests that. The launcher's name contains a hash of the
job's UID and the attempt: an operator that is killed after it created the launcher and before it
wrote the status computes the same name again, and does not create a second launcher.
"""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from kubekit.objects.kinds import (
    CONFIG_MAPS,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    Kind,
)
from kubekit.objects.meta import Raw, find_condition
from muster.jobs import names
from muster.jobs.job import Job, Replica
from muster.operator.build.addresses import headless
from muster.operator.build.labels import index_of, job_selector, owned_manifest, role_of
from muster.operator.build.pods import WITHOUT_PRIVILEGES, add_environment, append, main_container
from muster.operator.decision_types import Create
from muster.operator.frameworks.framework import Framework

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kubekit.objects.core import Pod
    from muster.jobs.job import Mpi
    from muster.operator.build.addresses import Addresses
    from muster.operator.decision_types import Observed

CONFIG, KEYS, KUBECTL = "mpi-job-config", "mpi-job-ssh", "mpi-job-kubectl"
# A shell runs traps only between commands, but at once while it is in `wait`.
_WAIT_COMMAND = ["/bin/sh", "-c", "trap 'exit 0' TERM INT; sleep 365d & wait"]
_SSH_FILES = [
    {"key": "ssh-privatekey", "path": "id_rsa"},
    {"key": "ssh-publickey", "path": "id_rsa.pub"},
    {"key": "ssh-publickey", "path": "authorized_keys"},
]
# CUDA images set these to `all`, which shows a launcher without GPUs all GPUs of its node.
_HIDE_GPUS = {"NVIDIA_VISIBLE_DEVICES": "", "NVIDIA_DRIVER_CAPABILITIES": ""}
DIRECTORY = "/etc/mpi"
_KUBECTL_PATH = "/opt/kube/kubectl"
HOSTFILE = f"{DIRECTORY}/hostfile"
AGENT = f"{DIRECTORY}/kubexec.sh"
_INTEL_AGENT = {"I_MPI_HYDRA_BOOTSTRAP": "rsh", "I_MPI_HYDRA_BOOTSTRAP_EXEC": AGENT}
_MPICH_AGENT = {"HYDRA_LAUNCHER": "rsh", "HYDRA_LAUNCHER_EXEC": AGENT}
_RETRY = "-o ConnectionAttempts=10"
"""For ssh: workers may start to listen later than the launcher calls them."""
_AGENT = """\
#!/bin/sh
# Called by mpirun in place of ssh: POD COMMAND…
pod=$1
shift
if [ -x {kubectl} ]; then
  exec {kubectl} exec "$pod"{container} -- /bin/sh -c "$*"
fi
for python in python3 python; do
  if command -v $python >/dev/null 2>&1; then
    exec $python {directory}/kubexec.py "$pod" "{name}" /bin/sh -c "$*"
  fi
done
echo "kubexec.sh: this image has neither Python nor {kubectl};" \\
  "start the operator with --mpi-kubectl-delivery-image" >&2
exit 127
"""


class MPI(Framework):
    services = False
    workers_end = False

    def replicas(self, job: Job, observed: Observed) -> list[Replica]:
        workers, mpi = list(job.replicas()), _mpi(job)
        launcher = Replica("Launcher", 0, _former_launcher(job, observed) or _launcher_name(job))
        exists = any(pod.metadata.name == launcher.name for pod in observed.pods)
        waits = mpi.wait_for_workers or not mpi.ssh
        if exists or not waits or len(_ready_workers(job, observed)) >= len(workers):
            return [*workers, launcher]
        return workers

    def fixed_size(self, job: Job) -> bool:
        """The launcher reads its hosts from a mounted file, which follows the job."""
        return False

    def running(self, job: Job, pods: dict[str, list[Pod]]) -> bool:
        all_pods = [pod for rows in pods.values() for pod in rows]
        complete = len(all_pods) == job.total
        return complete and all(pod.status.phase == "Running" for pod in all_pods)

    def objects(self, job: Job, observed: Observed, hosts: Addresses) -> list[Create]:
        config = _create(job, CONFIG_MAPS, "-config", data=_config_files(job, observed, hosts))
        if not _mpi(job).ssh:
            return [*_rights(job, watches_pods=bool(hosts.settings.delivery_image)), config]
        service = _create(job, SERVICES, spec=headless(job_selector(job)))
        # The keys themselves are generated when the secret is created.
        secret = _create(job, SECRETS, "-ssh", type="kubernetes.io/ssh-auth").manifest
        return [config, service, Create(SECRETS, secret, generate="ssh-keys")]

    def add_to_pod(self, manifest: Raw, replica: Replica, hosts: Addresses) -> None:
        job, mpi = hosts.job, _mpi(hosts.job)
        main = main_container(manifest, replica, job)
        if replica.role == "Launcher":
            _complete_launcher(manifest, main, hosts)
        else:
            _complete_worker(main, mpi, single="template" in job.spec)
        if mpi.ssh:
            _add_ssh(manifest, main, replica, hosts)
        modes = _mounted_files(mpi, replica)
        if modes:
            items = [{"key": key, "path": key, "mode": mode} for key, mode in modes.items()]
            source = {"configMap": {"name": f"{job.name}-config", "items": items}}
            _add_volume(manifest, main, CONFIG, source, DIRECTORY)


def _mpi(job: Job) -> Mpi:
    assert job.mpi is not None
    return job.mpi


def _launcher_name(job: Job) -> str:
    return names.launcher(job.name, job.uid, job.status.launcher_attempt)


def _former_launcher(job: Job, observed: Observed) -> str:
    """The name of the launcher that training-operator started; empty if there is none.

    It is the first attempt. A second launcher beside it, or in its place, would begin the training
    again.
    """
    name = _launcher_host(job)
    started = any(pod.metadata.name == name for pod in observed.pods)
    return name if started and not job.status.launcher_attempt else ""


def _launcher_host(job: Job) -> str:
    """The host name of a launcher in which ranks run, where workers are reached by exec.

    It is training-operator's: the image that delivers kubectl waits for every host in the hostfile
    whose name does not end in `launcher`. mpirun starts the ranks of its own host without an agent.
    """
    return f"{job.name}-launcher"


def _ready_workers(job: Job, observed: Observed) -> list[Pod]:
    workers = (pod for pod in observed.pods if role_of(job, pod) == "Worker")
    return sorted((pod for pod in workers if _ready(pod)), key=index_of)


def _ready(pod: Pod) -> bool:
    if pod.status.phase != "Running" or pod.metadata.deletion_timestamp is not None:
        return False
    row = find_condition(pod.status.conditions, "Ready")
    return row is None or row.status == "True"


def _has_gpu(container: Raw) -> bool:
    limits = (container.get("resources") or {}).get("limits") or {}
    return any("gpu" in name for name in limits)


def _complete_launcher(manifest: Raw, main: Raw, hosts: Addresses) -> None:
    job, mpi = hosts.job, _mpi(hosts.job)
    variables = environment(mpi) | {"K_MPI_JOB_ROLE": "launcher"}
    if not _has_gpu(main) and not mpi.launcher_works:
        variables |= _HIDE_GPUS
    # Variables of the template win.
    given = {row.get("name") for row in main.get("env") or ()}
    add_environment(main, {name: v for name, v in variables.items() if name not in given})
    if mpi.ssh:
        return
    if mpi.launcher_works:
        manifest["spec"]["hostname"] = _launcher_host(job)
    manifest["spec"]["serviceAccountName"] = _account(job) or f"{job.name}-launcher"
    add_environment(main, {"NAMESPACE": job.namespace})
    if hosts.settings.delivery_image:
        _deliver_kubectl(manifest, main, job, hosts.settings.delivery_image)


def _complete_worker(main: Raw, mpi: Mpi, *, single: bool) -> None:
    """Let a worker wait for the launcher. In a single template, the command is the launcher's."""
    if mpi.ssh and not main.get("command") and not main.get("args"):
        main["command"] = ["/usr/sbin/sshd", "-De"]
    elif not mpi.ssh and (single or not main.get("command")):
        main["command"] = list(_WAIT_COMMAND)
        main.pop("args", None)
    add_environment(main, {"K_MPI_JOB_ROLE": "worker"})


# The objects around the pods.


def _create(job: Job, kind: Kind[Any], suffix: str = "", **content: Any) -> Create:
    labels = {**job_selector(job), "app": job.name}
    return Create(kind, {**owned_manifest(job, kind, job.name + suffix, labels), **content})


def _config_files(job: Job, observed: Observed, hosts: Addresses) -> dict[str, str]:
    mpi = _mpi(job)
    domain = f".{hosts.settings.domain}" if hosts.settings.domain else ""
    suffix = f".{job.name}.{job.namespace}.svc{domain}" if mpi.ssh else ""
    workers = [worker.name + suffix for worker in job.replicas()]
    ready = [pod.metadata.name + suffix for pod in _ready_workers(job, observed)]
    if mpi.launcher_works and mpi.ssh:
        workers.insert(0, _launcher_name(job) + suffix)
    elif mpi.launcher_works:
        workers.insert(0, _launcher_host(job))
        ready.insert(0, _launcher_host(job))
    data = {
        "hostfile": hostfile(workers, mpi.slots, mpi.implementation),
        "discover_hosts.sh": discover(ready, None if mpi.ssh else mpi.slots),
    }
    if not mpi.ssh:
        worker = job.replica_spec("Worker")
        data["kubexec.sh"] = agent(worker.container if worker else "")
        data["kubexec.py"] = exec_client()
    return data


def _account(job: Job) -> str:
    """The service account that the launcher's template names, in either field."""
    launcher = job.replica_spec("Launcher")
    spec = launcher.spec if launcher else {}
    return str(spec.get("serviceAccountName") or spec.get("serviceAccount") or "")


def _rights(job: Job, *, watches_pods: bool) -> list[Create]:
    """The launcher's account may run commands in the job's own workers and nowhere else.

    `watches_pods`: an image that delivers kubectl waits for the workers, so it must see pods.
    """
    name, account = f"{job.name}-launcher", _account(job)
    workers = [replica.name for replica in job.replicas()]
    rules: list[Raw] = []
    if watches_pods:
        rules.append({"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]})
    if workers:  # A rule without names would allow exec into every pod of the namespace.
        pods = {"resources": ["pods/exec"], "resourceNames": workers}
        # A websocket is opened by GET; newer API servers require the right to create as well.
        rules.append({"apiGroups": [""], **pods, "verbs": ["create", "get"]})
    subject = {"kind": "ServiceAccount", "name": account or name, "namespace": job.namespace}
    role = {"apiGroup": ROLES.group, "kind": "Role", "name": name}
    return [
        *(() if account else [_create(job, SERVICE_ACCOUNTS, "-launcher")]),
        _create(job, ROLES, "-launcher", rules=rules),
        _create(job, ROLE_BINDINGS, "-launcher", subjects=[subject], roleRef=role),
    ]


# The pods' mounts.


def _mounted_files(mpi: Mpi, replica: Replica) -> dict[str, int]:
    """The files of the config volume that a replica mounts, with their modes."""
    # Open MPI looks for its agent on every host, so workers mount it too.
    agent = {} if mpi.ssh else {"kubexec.sh": 0o555}
    if replica.role != "Launcher":
        return agent
    client = {} if mpi.ssh else {"kubexec.py": 0o444}
    return agent | {"hostfile": 0o444, "discover_hosts.sh": 0o555} | client


def _add_ssh(manifest: Raw, main: Raw, replica: Replica, hosts: Addresses) -> None:
    """Mount the keys, and let ssh find the replicas by name."""
    spec, job, mpi = manifest["spec"], hosts.job, _mpi(hosts.job)
    spec["hostname"], spec["subdomain"] = replica.name, job.name
    secret: Raw = {"secretName": f"{job.name}-ssh", "items": _SSH_FILES}
    if mpi.ssh == "/root/.ssh":
        secret["defaultMode"] = 0o600  # Root's ssh refuses keys that others may read.
    _add_volume(manifest, main, KEYS, {"secret": secret}, mpi.ssh)
    if replica.role != "Launcher":
        # sshd and mpirun then resolve the short names of replicas through the job's service.
        domain = hosts.settings.domain or "cluster.local"
        search = f"{job.name}.{job.namespace}.svc.{domain}"
        spec.setdefault("dnsConfig", {"searches": [search]})


def _add_volume(manifest: Raw, main: Raw, name: str, source: Raw, path: str) -> None:
    append(manifest["spec"], "volumes", {"name": name, **source})
    append(main, "volumeMounts", {"name": name, "mountPath": path})


def _deliver_kubectl(manifest: Raw, main: Raw, job: Job, image: str) -> None:
    folder = _KUBECTL_PATH.rpartition("/")[0]
    _add_volume(manifest, main, KUBECTL, {"emptyDir": {}}, folder)
    amounts = {"cpu": "100m", "memory": "512Mi", "ephemeral-storage": "5Gi"}
    mounts = {KUBECTL: folder, CONFIG: DIRECTORY}
    container = {
        "name": "kubectl-delivery",
        "image": image,
        "resources": {"limits": amounts, "requests": amounts},
        "volumeMounts": [{"name": name, "mountPath": path} for name, path in mounts.items()],
        "securityContext": WITHOUT_PRIVILEGES,
    }
    add_environment(container, {"TARGET_DIR": folder, "NAMESPACE": job.namespace})
    append(manifest["spec"], "initContainers", container)


def agent(container: str) -> str:
    """The script that starts a command on a worker."""
    option = f" --container {container}" if container else ""
    return _AGENT.format(
        kubectl=_KUBECTL_PATH, container=option, name=container, directory=DIRECTORY
    )


@cache
def exec_client() -> str:
    """The program with which the agent reaches a worker without kubectl; it is package data."""
    return resources.files("muster.operator").joinpath("mpi_kubexec.py").read_text()


def hostfile(hosts: Sequence[str], slots: int, implementation: str) -> str:
    """One line per host, in the implementation's format."""
    if implementation == "OpenMPI":
        return "".join(f"{host} slots={slots}\n" for host in hosts)
    return "".join(f"{host}:{slots}\n" for host in hosts)


def discover(hosts: Sequence[str], slots: int | None) -> str:
    """The script with which Elastic Horovod finds its hosts."""
    suffix = "" if slots is None else f":{slots}"
    return "#!/bin/sh\n" + "".join(f"echo {host}{suffix}\n" for host in hosts)


def environment(mpi: Mpi) -> dict[str, str]:
    """The environment variables of the launcher."""
    if mpi.implementation == "Intel":
        common = {"I_MPI_HYDRA_HOST_FILE": HOSTFILE, "I_MPI_PERHOST": str(mpi.slots)}
        ssh = {"I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS": _RETRY}
        return common | (ssh if mpi.ssh else _INTEL_AGENT)
    if mpi.implementation == "MPICH":
        common, ssh = {"HYDRA_HOST_FILE": HOSTFILE}, {"HYDRA_LAUNCH_EXTRA_ARGS": _RETRY}
        return common | (ssh if mpi.ssh else _MPICH_AGENT)
    # Containers usually run as root, which mpirun refuses unless it is told twice.
    common = {
        "OMPI_MCA_orte_default_hostfile": HOSTFILE,
        "PRTE_MCA_prte_default_hostfile": HOSTFILE,
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_ALLOW_RUN_AS_ROOT": "1",
        "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    }
    ssh = {
        "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
        "PRTE_MCA_prte_keep_fqdn_hostnames": "true",
        "OMPI_MCA_plm_rsh_args": _RETRY,
        "PRTE_MCA_plm_ssh_args": _RETRY,
        "OMPI_MCA_orte_set_default_slots": str(mpi.slots),
    }
    agent = {"OMPI_MCA_plm_rsh_agent": AGENT, "PRTE_MCA_plm_ssh_agent": AGENT}
    return common | (ssh if mpi.ssh else agent | _INTEL_AGENT)
