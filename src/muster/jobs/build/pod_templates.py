"""The pod template of each role of a job.

Roles differ in image, resources, port and node selection; everything else is the same for the job.

The command line is a shell and the text that the user gave. Kubernetes sends SIGTERM only to a
container's first process. `sh -c "python train.py"` makes that the shell, because dash (the `sh` of
Debian and Ubuntu) starts python as a child: a SIGTERM handler that saves a checkpoint would never
run. With `exec`, python takes the shell's place. `exec` changes the meaning of anything but one
program with its arguments (`exec cd x`, `exec A=1 python`, `exec a; b`), so it is added only if the
text surely is that; in doubt the text stays as it is.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from muster.contract import local_cluster_names
from muster.jobs.build import code_sync, flag_values, pod_affinity, volumes
from muster.jobs.build.flags import Mpi, PyTorch, Site, Submission

if TYPE_CHECKING:
    from kubekit.objects.meta import Raw
    from muster.jobs.build.roles import Role
    from muster.jobs.build.volumes import Mounted

PULL_POLICIES = ("Always", "IfNotPresent", "Never")
ENI = "k8s.aliyun.com/eni"
WORKERS = "workers"
"""The environment variable with the number of workers."""
RESTRICTED_USER = 1000
RESTRICTED_HOME = "/tmp"
"""Images give root a home and a working directory that nobody else may enter."""
_DOLLARS = re.compile(r"\$\([^)]*\)|\$\$")
_SPECIAL = re.compile(r"\$+\(|\$\$+")
SHELLS = frozenset({"ash", "bash", "dash", "ksh", "sh", "zsh"})
_RESERVED_WORDS = """
case coproc do done elif else end esac fi for foreach function if in nocorrect noglob repeat select
then time until while
"""
_BUILTINS = """
alias autoload bg bind break builtin caller cd chdir command compgen complete compopt continue
declare dirs disown echo emulate enable eval exec exit export false fc fg float functions getopts
hash help history integer jobs kill let limit local logout mapfile nameref newgrp popd print printf
pushd pwd read readarray readonly return sched set setopt shift shopt source suspend test times
trap true type typeset ulimit umask unalias unfunction unlimit unset unsetopt wait whence where
which zmodload
"""
"""Of all these shells; also those that exist as programs too."""
_NO_PROGRAMS = frozenset(f"{_RESERVED_WORDS} {_BUILTINS}".split())
_PROGRAM = re.compile(r"\w[\w.+-]*")
_VARIABLE = re.compile(r"\$(\w|\{\w+\}|[@*#?$!-])")
_QUOTED = re.compile(r"'[^']*'")
_REDIRECTION = re.compile(r"(?<!\\)[<>]\Z")
_SYNTAX = frozenset(";&|()`\n#")


def template(args: Submission, site: Site, role: Role, metadata: Raw) -> Raw:
    """The template of one role's pods."""
    rows = _volumes(args, site, role)
    pod_volumes, mounts = volumes.split(rows)
    environment = _environment(args, site, role)
    sync_resources = {
        where: {name: amount for name, amount in row.items() if name in ("cpu", "memory")}
        for where, row in _resources(args, role).items()
    }
    spec: Raw = {
        **_common(args),
        "nodeSelector": flag_values.labels("--selector", role.selector),
        "affinity": pod_affinity.affinity(args.name, role.name, role.affinity),
        "volumes": pod_volumes + code_sync.volumes(args, site),
        "initContainers": code_sync.container(
            args, site, environment, sync_resources if any(sync_resources.values()) else {}
        ),
        "containers": [_main(args, role, mounts, environment)],
    }
    chosen = {key: value for key, value in spec.items() if value}
    return {"metadata": metadata, "spec": restricted(chosen) if site.restricted else chosen}


def restricted(spec: Raw) -> Raw:
    """The pod as the standard `restricted` wants it; what the user asked for beyond it stays."""
    user = {"runAsUser": RESTRICTED_USER, **spec.get("securityContext", {})}
    profile = {"type": "RuntimeDefault"}
    rows: Raw = {
        field: [_without_privileges(container) for container in spec[field]]
        for field in ("initContainers", "containers")
        if field in spec
    }
    security = {**user, "runAsNonRoot": True, "seccompProfile": profile}
    return {**spec, **rows, "securityContext": security}


def _without_privileges(container: Raw) -> Raw:
    capabilities = (container.get("securityContext") or {}).get("capabilities") or {}
    dropped = {"capabilities": {**capabilities, "drop": ["ALL"]}}
    # A user whom the image does not know has no home directory.
    named = {row["name"] for row in container.get("env", [])}
    home = [] if "HOME" in named else [{"name": "HOME", "value": RESTRICTED_HOME}]
    security = {"allowPrivilegeEscalation": False, **dropped}
    return {**container, "env": [*container.get("env", []), *home], "securityContext": security}


def beyond_restricted(spec: Raw) -> list[str]:
    """What a pod has that the standard `restricted` forbids and that a flag asked for."""
    found = [name for name in ("hostNetwork", "hostPID", "hostIPC") if spec.get(name)]
    paths = [row["hostPath"]["path"] for row in spec.get("volumes", []) if "hostPath" in row]
    found += [f"the directory {path} of the node" for path in paths]
    rows = (row["securityContext"]["capabilities"].get("add", []) for row in spec["containers"])
    if not spec["securityContext"]["runAsUser"]:
        found.append("the user 0")
    return [*found, *(f"the capability {name}" for added in rows for name in added)]


def _common(args: Submission) -> Raw:
    """The fields that all pods of the job share."""
    # A pod with its own network interface does not share the host's network.
    own_network = flag_values.pairs("--annotation", args.annotation).get(ENI) == "true"
    topology = isinstance(args, Mpi) and args.gputopology
    host_network = (args.host_network or topology) and not own_network
    return {
        **surroundings(args),
        "schedulerName": args.scheduler,
        "hostNetwork": host_network,
        "dnsPolicy": "ClusterFirstWithHostNet" if host_network else "",
        "hostIPC": args.host_ipc,
        "hostPID": args.host_pid,
    }


def surroundings(args: Submission) -> Raw:
    """The fields that let a pod run where the job runs; TensorBoard's pod has them too."""
    secrets = [flag_values.object_name("--image-pull-secret", s) for s in args.image_pull_secret]
    if args.priority:
        flag_values.object_name("--priority", args.priority)
    user = flag_values.user_id("--run-as-user", args.run_as_user)
    return {
        "securityContext": {} if user is None else {"runAsUser": user},
        "tolerations": [flag_values.toleration(text) for text in args.toleration],
        "imagePullSecrets": [{"name": name} for name in secrets],
        "priorityClassName": args.priority,
    }


def _volumes(args: Submission, site: Site, role: Role) -> list[Mounted]:
    rows = volumes.config_files(args, site)
    if role.writes_logs and not volumes.logs_in_workspace(args, site):
        rows += volumes.logs(args, site)
    rows += code_sync.mount(args)
    if role.data:
        rows += [*volumes.claims(args), *volumes.host_directories(args)]
    if not (isinstance(args, Mpi) and args.gputopology):
        rows += volumes.shared_memory(args)
    return rows + volumes.workspace(args, site)


def _main(args: Submission, role: Role, mounts: list[Raw], environment: Raw) -> Raw:
    port_name = args.job_kind.port_name
    policy = flag_values.choice("--image-pull-policy", args.image_pull_policy, PULL_POLICIES)
    shell, *words = shell_command(args.shell, " ".join(args.command))
    container: Raw = {
        "name": args.job_kind.container,
        "image": role.image,
        "imagePullPolicy": "Never" if role.image == local_cluster_names.IMAGE else policy,
        "command": [shell, *map(escape_literal, words)] if role.runs else [],
        "workingDir": args.directory,
        **environment,
        "ports": [{"name": port_name, "containerPort": role.port}] if role.port else [],
        "resources": _resources(args, role),
        "volumeMounts": mounts,
        # The end of the log becomes part of the pod's status, which outlives the log.
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    if args.rdma:  # which locks the memory that it registers
        container["securityContext"] = {"capabilities": {"add": ["IPC_LOCK"]}}
    return {key: value for key, value in container.items() if value}


def _environment(args: Submission, site: Site, role: Role) -> Raw:
    """The env and envFrom of a container."""
    rows = {WORKERS: str(args.workers), "gpus": str(args.gpus)}
    rows |= {name: escape_literal(value) for name, value in site.workspace.variables}
    given = flag_values.pairs("--env", args.env)
    rows |= {name: escape_value(value) for name, value in given.items()}
    # Images for GPUs ask for all of them by default, and NVIDIA's runtime would give them.
    if not role.gpus and not args.device:
        rows.setdefault("NVIDIA_VISIBLE_DEVICES", "void")
    if isinstance(args, PyTorch):
        if args.nproc_per_node:
            rows.setdefault("PET_NPROC_PER_NODE", args.nproc_per_node)
        if args.rdma:
            rows.setdefault("MASTER_ADDR", f"{args.name}-master-0")
    result: Raw = {"env": [{"name": key, "value": rows[key]} for key in sorted(rows)]}
    if args.env_from:
        result["envFrom"] = [_source(text) for text in args.env_from]
    return result


def escape_value(text: str) -> str:
    """The text escaped so that a container gets it unchanged: Kubernetes turns `$$` into `$`.

    `$(NAME)` stays: Kubernetes replaces it by another variable.
    """
    return _DOLLARS.sub(lambda match: "$$$$" if match[0] == "$$" else match[0], text)


def escape_literal(text: str) -> str:
    """The text escaped so that a container gets it unchanged, `$(NAME)` too.

    In a command, `$(date)` is for the shell: unescaped, Kubernetes would replace it by a variable
    of that name.
    """
    return _SPECIAL.sub(lambda match: match[0].replace("$", "$$"), text)


def _source(text: str) -> Raw:
    """`secret/NAME` or `configmap/NAME`."""
    kind, slash, name = text.partition("/")
    fields = {"secret": "secretRef", "configmap": "configMapRef", "cm": "configMapRef"}
    hint = "Write --env-from=secret/NAME or --env-from=configmap/NAME"
    if not slash or kind.lower() not in fields:
        raise flag_values.wrong("--env-from", text, hint)
    return {fields[kind.lower()]: {"name": flag_values.object_name("--env-from", name)}}


def _resources(args: Submission, role: Role) -> Raw:
    amounts = {"cpu": role.cpu, "memory": role.memory}
    caps = {"cpu": role.cpu_limit or role.cpu, "memory": role.memory_limit or role.memory}
    extended = {role.gpu: str(role.gpus)} if role.gpus else {}
    if role.member:
        extended |= flag_values.device("--device", args.device)
        extended |= {"rdma/hca": "1"} if args.rdma else {}
    requests = {key: value for key, value in (amounts | extended).items() if value}
    limits = {key: value for key, value in (caps | extended).items() if value}
    return {"requests": requests, "limits": limits} if limits else {}


def shell_command(shell: str, text: str) -> list[str]:
    """The words that run `text` in this shell; a simple command gets the shell's place."""
    known = shell.rpartition("/")[2] in SHELLS
    return [shell, "-c", f"exec {text.strip()}" if known and is_simple(text) else text]


def is_simple(text: str) -> bool:
    """Whether the text surely is one program with arguments and redirections."""
    words = _first_word_and_rest(text.strip())
    if words is None:
        return False
    first, rest = words
    if first.startswith("-") or "=" in first or rest[:1] in ("<", ">"):
        return False
    # A path is neither a builtin nor a reserved word, whatever its variables contain.
    if "/" in first:
        return True
    return bool(_PROGRAM.fullmatch(first)) and first not in _NO_PROGRAMS


def _first_word_and_rest(text: str) -> tuple[str, str] | None:
    """The first word as it is written, and the text after it; None if there is shell syntax."""
    position, double, end = 0, False, len(text)
    first_end: int | None = None
    while position < end:
        length = _length_of_token(text, position, double=double)
        if length is None:
            return None
        char = text[position]
        if char == '"':
            double = not double
        if first_end is None and not double and (char.isspace() or char in "<>"):
            first_end = position
        position += length
    if double or not text:
        return None
    first_end = end if first_end is None else first_end
    return text[:first_end], text[first_end:]


def _length_of_token(text: str, position: int, *, double: bool) -> int | None:
    """How many characters belong together here; None if they are shell syntax, or may be."""
    char = text[position]
    if char == "\\":
        return 2 if position + 1 < len(text) else None
    if char == "$":
        # `$(…)`, `$'…'` and `${a:-b}` have their own quoting rules.
        match = _VARIABLE.match(text, position)
        return match.end() - position if match else None
    if char == "`":
        return None
    if double:
        return 1
    if char == "'":
        match = _QUOTED.match(text, position)
        return match.end() - position if match else None
    if char == "&" and _REDIRECTION.search(text, 0, position):  # 2>&1
        return 1
    if char == "#" and not text[position - 1 : position].isspace():  # a#b is not a comment
        return 1 if position else None
    return None if char in _SYNTAX else 1
