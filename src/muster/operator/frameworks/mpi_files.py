"""The files in an MPI job's config volume, and the variables by which MPI finds them.

Open MPI 4 reads OMPI_MCA_…, Open MPI 5 (which starts ranks through PRRTE) reads PRTE_MCA_…. Both
are set, so that `mpirun python x.py` works without further options.
"""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from muster.jobs.job import Mpi

DIRECTORY = "/etc/mpi"
KUBECTL = "/opt/kube/kubectl"
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


def agent(container: str) -> str:
    """The script that starts a command on a worker."""
    option = f" --container {container}" if container else ""
    return _AGENT.format(kubectl=KUBECTL, container=option, name=container, directory=DIRECTORY)


@cache
def exec_client() -> str:
    """The program with which the agent reaches a worker without kubectl; it is package data."""
    return resources.files(__package__).joinpath("mpi_kubexec.py").read_text()


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
