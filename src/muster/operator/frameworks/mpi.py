"""MPIJob: a launcher that starts ranks on workers, by exec into them or by ssh.

Workers are created first. If ranks are started by exec, the launcher is created when all workers
are ready, so that mpirun finds them; with ssh only if the job requests that. The launcher's name
contains a hash of the job's UID and the attempt, so that an operator killed in between does not
create a second launcher.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from muster.api.kinds import CONFIG_MAPS, SECRETS, SERVICE_ACCOUNTS, SERVICES, Kind
from muster.api.meta import Raw, find_condition
from muster.jobs import names
from muster.jobs.job import Job, Replica
from muster.operator.actions import Create
from muster.operator.build.labels import index_of, metadata, role_of
from muster.operator.build.pods import add_environment
from muster.operator.frameworks import mpi_files as files
from muster.operator.frameworks.framework import Framework

if TYPE_CHECKING:
    from muster.api.core import Pod
    from muster.jobs.job import Mpi
    from muster.operator.build.addresses import Addresses
    from muster.operator.observed import Observed

_DICT = cast("type[Raw]", dict)
_RBAC = "rbac.authorization.k8s.io"
ROLES = Kind(_RBAC, "v1", "roles", "Role", _DICT)
BINDINGS = Kind(_RBAC, "v1", "rolebindings", "RoleBinding", _DICT)
OWNED: tuple[Kind[Any], ...] = (CONFIG_MAPS, SECRETS, SERVICE_ACCOUNTS, ROLES, BINDINGS)

CONFIG, KEYS, KUBECTL = "mpi-job-config", "mpi-job-ssh", "mpi-job-kubectl"
_WAIT_COMMAND = ["/bin/sh", "-c", "trap 'exit 0' TERM INT; sleep 365d & wait"]
_HIDE_GPUS = {"NVIDIA_VISIBLE_DEVICES": "", "NVIDIA_DRIVER_CAPABILITIES": ""}


class MPI(Framework):
    services = False

    def replicas(self, job: Job, observed: Observed) -> list[Replica]:
        workers = list(job.replicas())
        launcher = Replica("Launcher", 0, _launcher_name(job))
        exists = any(pod.metadata.name == launcher.name for pod in observed.pods)
        if exists or not _waits(job) or _all_ready(job, observed):
            return [*workers, launcher]
        return workers

    def running(self, job: Job, pods: dict[str, list[Pod]]) -> bool:
        all_pods = [pod for rows in pods.values() for pod in rows]
        complete = len(all_pods) == job.total
        return complete and all(pod.status.phase == "Running" for pod in all_pods)

    def objects(self, job: Job, observed: Observed, hosts: Addresses) -> list[Create]:
        config = Create(CONFIG_MAPS, _config(job, observed, hosts))
        if _mpi(job).ssh:
            secret = Create(SECRETS, _ssh_secret(job), generate="ssh-keys")
            return [config, Create(SERVICES, _service(job)), secret]
        return [*_rights(job, watches_pods=bool(hosts.settings.delivery_image)), config]

    def add_to_pod(self, manifest: Raw, replica: Replica, hosts: Addresses) -> None:
        job, mpi = hosts.job, _mpi(hosts.job)
        replica_spec = job.replica_spec(replica.role)
        if replica_spec is None:
            return
        main = next(
            c for c in manifest["spec"]["containers"] if c["name"] == replica_spec.container
        )
        if replica.role == "Launcher":
            self._launcher(manifest, main, hosts)
        else:
            _worker(main, mpi, single="template" in job.spec)
        if mpi.ssh:
            _with_ssh(manifest, main, replica, hosts)
        else:
            _mount(manifest, main, job, agent_only=replica.role != "Launcher")

    def _launcher(self, manifest: Raw, main: Raw, hosts: Addresses) -> None:
        job, mpi = hosts.job, _mpi(hosts.job)
        given = {row.get("name") for row in main.get("env") or ()}
        variables = files.environment(
            ssh=bool(mpi.ssh), implementation=mpi.implementation, slots=mpi.slots
        )
        variables["K_MPI_JOB_ROLE"] = "launcher"
        if not _has_gpu(main) and not mpi.launcher_works:
            variables |= _HIDE_GPUS
        added = {name: value for name, value in variables.items() if name not in given}
        add_environment(manifest, main["name"], added)
        if mpi.ssh:
            return
        spec = manifest["spec"]
        spec["serviceAccountName"] = _account(job) or f"{job.name}-launcher"
        add_environment(manifest, main["name"], {"NAMESPACE": job.namespace})
        if hosts.settings.delivery_image:
            _deliver_kubectl(spec, main, job, hosts.settings.delivery_image)


def _mpi(job: Job) -> Mpi:
    assert job.mpi is not None
    return job.mpi


def _launcher_name(job: Job) -> str:
    return names.launcher(job.name, job.uid, job.status.launcher_attempt)


def _waits(job: Job) -> bool:
    mpi = _mpi(job)
    return mpi.wait_for_workers or not mpi.ssh


def _all_ready(job: Job, observed: Observed) -> bool:
    ready = [pod for pod in observed.pods if role_of(job, pod) == "Worker" and _ready(pod)]
    return len(ready) >= job.count("Worker")


def _ready(pod: Pod) -> bool:
    if pod.status.phase != "Running" or pod.metadata.deletion_timestamp is not None:
        return False
    row = find_condition(pod.status.conditions, "Ready")
    return row is None or row.status == "True"


def _has_gpu(container: Raw) -> bool:
    limits = (container.get("resources") or {}).get("limits") or {}
    return any(name.endswith("/gpu") for name in limits)


def _worker(main: Raw, mpi: Mpi, *, single: bool) -> None:
    """A worker waits for the launcher; in a single template the command is the launcher's."""
    if mpi.ssh and not main.get("command") and not main.get("args"):
        main["command"] = ["/usr/sbin/sshd", "-De"]
    elif not mpi.ssh and (single or not main.get("command")):
        main["command"] = list(_WAIT_COMMAND)
        main.pop("args", None)
    main["env"] = [*(main.get("env") or ()), {"name": "K_MPI_JOB_ROLE", "value": "worker"}]


# The objects around the pods.


def _config(job: Job, observed: Observed, hosts: Addresses) -> Raw:
    mpi = _mpi(job)
    domain = f".{hosts.settings.domain}" if hosts.settings.domain else ""
    suffix = f".{job.name}.{job.namespace}.svc{domain}" if mpi.ssh else ""
    workers = [m.name + suffix for m in job.replicas() if m.role == "Worker"]
    if mpi.launcher_works:
        workers.insert(0, _launcher_name(job) + suffix)
    ready = sorted(
        (pod for pod in observed.pods if role_of(job, pod) == "Worker" and _ready(pod)),
        key=index_of,
    )
    ready_hosts = [pod.metadata.name + suffix for pod in ready]
    data = {
        "hostfile": files.hostfile(workers, mpi.slots, mpi.implementation),
        "discover_hosts.sh": files.discover(ready_hosts, None if mpi.ssh else mpi.slots),
    }
    if not mpi.ssh:
        worker = job.replica_spec("Worker")
        data["kubexec.sh"] = files.agent(worker.container if worker else "")
        data["kubexec.py"] = files.exec_client()
    meta = metadata(job, f"{job.name}-config", _labels(job))
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


def _labels(job: Job) -> dict[str, str]:
    return {**names.selector(job.job_kind.operator, job.name), "app": job.name}


def _account(job: Job) -> str:
    """The service account that the launcher's template names, in either field."""
    launcher = job.replica_spec("Launcher")
    spec = launcher.spec if launcher else {}
    return str(spec.get("serviceAccountName") or spec.get("serviceAccount") or "")


def _rights(job: Job, *, watches_pods: bool) -> list[Create]:
    """The launcher's account may run commands in the job's own workers and nowhere else.

    `watches_pods`: an image that delivers kubectl waits for the workers, so it must see pods.
    """
    name = f"{job.name}-launcher"
    account = _account(job)
    workers = [replica.name for replica in job.replicas()]
    rules: list[Raw] = []
    if watches_pods:
        rules.append({"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]})
    if workers:  # A rule without names would allow them all.
        theirs = {"resources": ["pods/exec"], "resourceNames": workers}
        # A websocket is opened by GET; newer servers ask for the right to create besides.
        rules.append({"apiGroups": [""], **theirs, "verbs": ["create", "get"]})
    meta = metadata(job, name, _labels(job))
    role = {"apiVersion": ROLES.api_version, "kind": "Role", "metadata": meta, "rules": rules}
    binding = {
        "apiVersion": BINDINGS.api_version,
        "kind": "RoleBinding",
        "metadata": meta,
        "subjects": [
            {"kind": "ServiceAccount", "name": account or name, "namespace": job.namespace}
        ],
        "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": name},
    }
    creates = [Create(ROLES, role), Create(BINDINGS, binding)]
    if account:
        return creates
    own_account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta}
    return [Create(SERVICE_ACCOUNTS, own_account), *creates]


def _service(job: Job) -> Raw:
    selector = names.selector(job.job_kind.operator, job.name)
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(job, job.name, _labels(job)),
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": selector},
    }


def _ssh_secret(job: Job) -> Raw:
    """The secret without its keys, which are generated when it is created."""
    meta = metadata(job, f"{job.name}-ssh", _labels(job))
    kind = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/ssh-auth"}
    return {**kind, "metadata": meta}


# The pods' mounts.


def _mount(manifest: Raw, main: Raw, job: Job, *, agent_only: bool) -> None:
    """The config volume. Workers get only the agent, which Open MPI looks for on every host."""
    modes = {"kubexec.sh": 0o555}
    if not agent_only:
        modes |= {"hostfile": 0o444, "discover_hosts.sh": 0o555, "kubexec.py": 0o444}
    items = [{"key": key, "path": key, "mode": mode} for key, mode in modes.items()]
    source = {"configMap": {"name": f"{job.name}-config", "items": items}}
    _add_volume(manifest, main, CONFIG, source, files.DIRECTORY)


def _with_ssh(manifest: Raw, main: Raw, replica: Replica, hosts: Addresses) -> None:
    spec, job, mpi = manifest["spec"], hosts.job, _mpi(hosts.job)
    spec["hostname"], spec["subdomain"] = replica.name, job.name
    paths = {"ssh-privatekey": "id_rsa", "ssh-publickey": "id_rsa.pub"}
    items: list[Raw] = [{"key": key, "path": path} for key, path in paths.items()]
    items.append({"key": "ssh-publickey", "path": "authorized_keys"})
    secret: Raw = {"secretName": f"{job.name}-ssh", "items": items}
    if mpi.ssh == "/root/.ssh":
        secret["defaultMode"] = 0o600
    _add_volume(manifest, main, KEYS, {"secret": secret}, mpi.ssh)
    if replica.role == "Launcher":
        items = [
            {"key": "hostfile", "path": "hostfile", "mode": 0o444},
            {"key": "discover_hosts.sh", "path": "discover_hosts.sh", "mode": 0o555},
        ]
        source = {"configMap": {"name": f"{job.name}-config", "items": items}}
        _add_volume(manifest, main, CONFIG, source, files.DIRECTORY)
    else:
        domain = hosts.settings.domain or "cluster.local"
        search = f"{job.name}.{job.namespace}.svc.{domain}"
        spec.setdefault("dnsConfig", {"searches": [search]})


def _add_volume(manifest: Raw, main: Raw, name: str, source: Raw, path: str) -> None:
    spec = manifest["spec"]
    spec["volumes"] = [*(spec.get("volumes") or ()), {"name": name, **source}]
    mount = {"name": name, "mountPath": path}
    main["volumeMounts"] = [*(main.get("volumeMounts") or ()), mount]


def _deliver_kubectl(spec: Raw, main: Raw, job: Job, image: str) -> None:
    folder = files.KUBECTL.rpartition("/")[0]
    amounts = {"cpu": "100m", "memory": "512Mi", "ephemeral-storage": "5Gi"}
    mount = {"name": KUBECTL, "mountPath": folder}
    container = {
        "name": "kubectl-delivery",
        "image": image,
        "env": [
            {"name": "TARGET_DIR", "value": folder},
            {"name": "NAMESPACE", "value": job.namespace},
        ],
        "resources": {"limits": amounts, "requests": amounts},
        "volumeMounts": [mount, {"name": CONFIG, "mountPath": files.DIRECTORY}],
    }
    spec["initContainers"] = [*(spec.get("initContainers") or ()), container]
    spec["volumes"] = [*(spec.get("volumes") or ()), {"name": KUBECTL, "emptyDir": {}}]
    main["volumeMounts"] = [*(main.get("volumeMounts") or ()), mount]
