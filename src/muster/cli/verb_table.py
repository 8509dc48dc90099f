"""The table of verbs, and what every command line has in common. Imports next to nothing."""

from __future__ import annotations

from typing import NamedTuple


class Verb(NamedTuple):
    """A row of the verb table. The section is the heading in the help."""

    name: str
    help: str
    section: str
    shared: str = ""
    """The module of several verbs, each of them a click command of its name."""

    @property
    def module(self) -> str:
        """The module with the click command: by default of the verb's name, and it `command`."""
        return f"muster.cli.verbs.{self.shared or self.name}"

    @property
    def attribute(self) -> str:
        """The name of the click command in the module."""
        return self.name if self.shared else "command"


VERBS: tuple[Verb, ...] = (
    Verb("submit", "Submit a training job (tf, mpi, pytorch, jax)", "Jobs"),
    Verb("list", "List training jobs", "Jobs"),
    Verb("get", "Show a job, its replicas and why it waits; or list pods, nodes, …", "Jobs"),
    Verb("explain", "Explain why a job or a pod waits, and its place in line", "Jobs"),
    Verb("logs", "Print or follow the logs of a job or a pod", "Jobs"),
    Verb("attach", "Run a command in a replica of a job", "Jobs"),
    Verb("wait", "Wait until jobs are finished; exit code 10 if one failed", "Jobs"),
    Verb("delete", "Delete training jobs and their pods, services and records", "Jobs"),
    Verb("prune", "Delete jobs that ended some time ago", "Jobs"),
    Verb(
        "suspend", "Stop jobs without deleting them, and free their resources", "Jobs", "suspension"
    ),
    Verb("resume", "Start suspended jobs again", "Jobs", "suspension"),
    Verb("scale", "Change the number of a job's workers", "Jobs"),
    Verb("top", "Show the CPU, memory and GPUs that nodes and jobs use", "Jobs"),
    Verb("models", "List the models that jobs exported; download one, or try it", "Data"),
    Verb("data", "List the volumes that jobs can mount", "Data"),
    Verb(
        "open",
        "Open the dashboard, or a job's TensorBoard, in the browser",
        "Dashboard",
        "addresses",
    ),
    Verb(
        "logviewer", "Print the address of a job's page in the dashboard", "Dashboard", "addresses"
    ),
    Verb("dashboard", "Serve the dashboard of any cluster on this machine", "Dashboard"),
    Verb("process", "Fill in a template's parameters and print its objects", "Manifests"),
    Verb("apply", "Create or change the objects of manifests", "Manifests", "manifests"),
    Verb("create", "Create the objects of manifests", "Manifests", "manifests"),
    Verb("up", "Start the local cluster on this machine", "Cluster"),
    Verb("down", "Stop the local cluster", "Cluster"),
    Verb("status", "Show which cluster is used and whether the local cluster is up", "Cluster"),
    Verb("check", "Look for damage in the local cluster's database, and repair it", "Cluster"),
    Verb("use", "Choose the cluster that commands talk to", "Cluster"),
    Verb("whoami", "Print your user name on the cluster", "Cluster"),
    Verb("install", "Install Muster on a Kubernetes cluster", "Kubernetes"),
    Verb("uninstall", "Remove Muster from a Kubernetes cluster; jobs stay", "Kubernetes"),
    Verb("doctor", "Find what is wrong with Muster on a cluster, and the fix", "Kubernetes"),
    Verb("crds", "Print every CRD as YAML", "Kubernetes"),
    Verb("scheduler", "Run the gang scheduler", "Daemons"),
    Verb("operator", "Run the job operator", "Daemons"),
    Verb("config", "Read and write arena's config file", "Program"),
    Verb("completion", "Print the script that completes commands in your shell", "Program"),
    Verb("version", "Print the version", "Program"),
)

ALIASES = {"ls": "list", "log": "logs", "del": "delete"}

_SERVING = "Muster trains models; serving, storing and evaluating them is left to other tools"
_REGISTRY = "Muster has no model registry; `arena models` lists the models that jobs exported"
_NO_TYPE = "Muster does not run this type of job; it runs tfjob, mpijob, pytorchjob and jaxjob"
UNSUPPORTED: dict[str, str] = {
    **dict.fromkeys(("serve", "evaluate", "llm"), _SERVING),
    "model": _REGISTRY,
    "cron": "Muster has no cron jobs; a Kubernetes CronJob can run `arena submit`",
    **dict.fromkeys(("scalein", "scaleout"), "Muster has no etjobs; `arena scale` is for the rest"),
    **{
        f"submit {name}": _NO_TYPE
        for name in (
            "horovodjob", "horovod", "hj", "etjob", "et", "deepspeedjob", "dp", "volcanojob", "vj",
            "sparkjob", "spark", "rayjob", "rj", "standalonejob", "sj",
        )
    },
}  # fmt: skip
"""Verbs of arena that Muster does not have, each with the sentence that it prints."""


class Tracebacks:
    """Whether an error of this run is shown with its traceback, as `--debug` asks."""

    shown = False


def completion_variable(program: str) -> str:
    """The variable by which a shell asks for completions."""
    return f"_{program.upper()}_COMPLETE"


def completion_instruction(program: str) -> str:
    """The shell's instruction, if a shell asks for completions; else empty."""
    import os

    return os.environ.get(completion_variable(program), "")
