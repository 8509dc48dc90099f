"""`muster.run`: pickle a call, build its job, create everything or nothing."""

from __future__ import annotations

import os
import re
import secrets
import sys
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

from kubekit.errors import MusterError, UsageError
from kubekit.objects.kinds import SERVICE_ACCOUNTS
from kubekit.objects.meta import Key, Raw
from kubekit.request_errors import ApiError, Forbidden
from muster.client.submit.submit import ChosenCluster, FlagsJob
from muster.sdk import warn
from muster.sdk.arguments import errors_in_python, fields_of, kind_of
from muster.sdk.calls import submitted_job
from muster.sdk.cluster_choice import take_target
from muster.sdk.functions import result_keys
from muster.sdk.functions.job_objects import FunctionParts, result_secret, with_function
from muster.sdk.functions.package import LIMIT, PACKAGE, Header, command_line, digest, make_package
from muster.sdk.functions.pickling import name_of, pickle_call
from muster.sdk.functions.result_keys import ResultKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kubekit.client.blocking_client import BlockingClient
    from muster.jobs.build.job_manifest import Bundle
    from muster.sdk.flag_types import RunArguments
    from muster.sdk.job import Job

_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")
_LONGEST_STEM = 24
_RIGHTS = (
    "muster.run needs the right to create Secrets, ServiceAccounts, Roles and "
    "RoleBindings; muster.submit needs none of these."
)


@dataclass(frozen=True)
class _Call:
    """A call that can be sent."""

    name: str
    payload: bytes
    shared_dir: str = ""


def run(
    function: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    **arguments: Unpack[RunArguments],
) -> Job:
    """Run a function of this program as a job: every replica calls it; `result` has rank 0's value.

    The function is sent by value, with its closure and the helpers of your own modules. Installed
    packages are sent by name. The other arguments are those of `submit`; by default the name of
    the job is made from the function's. On the local cluster the job runs with this Python and its
    environment. On a Kubernetes cluster it needs `image`, with a Python of the same minor version.

    Function and result have at most 1 MiB each. Larger ones need `shared_dir`: a directory that
    this program and the replicas see at the same path.

    >>> factor = 3
    >>> def train(number):
    ...     return number * factor
    >>> job = muster.run(train, args=(14,), kind="jax", workers=2)
    >>> job.result(timeout="2m")
    42
    """
    given: dict[str, Any] = {**arguments}
    call = _checked_call(function, args, kwargs or {}, given.pop("shared_dir", None))
    destination = ChosenCluster.of(take_target(given))
    local = destination.is_local
    kind = given.pop("kind", None)
    if not kind:
        raise UsageError("run() needs the argument kind", hint='Write kind="jax", for example.')
    submission = kind_of(kind)
    given = _with_defaults(given, call, local=local)
    header = Header(
        call.name,
        submission.job_kind.kind,
        result_secret(given["name"]),
        path=tuple(dict.fromkeys(map(os.path.abspath, sys.path))) if local else (),
        shared_dir=call.shared_dir,
    )
    package, key = make_package(header, call.payload), secrets.token_bytes(32)
    with errors_in_python(submission), _placed(package, call) as path:
        line = command_line(path, digest(package), mpi=header.kind == "MPIJob")

        def complete(client: BlockingClient, bundle: Bundle, namespace: str) -> Bundle:
            content = None if os.path.isabs(path) else package
            pulls = _pull_secrets(client, namespace)
            return with_function(bundle, FunctionParts(call.name, namespace, key, content, pulls))

        fields = fields_of(submission, line, given, call="run")
        wanted = FlagsJob(submission, fields, sys.executable, complete)
        try:
            job = submitted_job(wanted, destination)
        except Forbidden as error:
            error.hint = f"{error.hint} {_RIGHTS}".strip()
            raise
    _keep_key(job, ResultKey(key, call.shared_dir))
    return job


def _checked_call(
    function: Any,
    args: Any,
    kwargs: Mapping[str, Any],
    shared_dir: str | os.PathLike[str] | None,
) -> _Call:
    if not callable(function):
        raise UsageError(
            f"run() needs a function, and got {function!r}", hint="muster.submit runs a command."
        )
    if isinstance(args, str | bytes) or not hasattr(args, "__iter__"):
        raise UsageError(f"args={args!r} is not a sequence", hint=f"Write args=({args!r},)")
    folder = os.path.abspath(os.path.expanduser(shared_dir)) if shared_dir else ""
    if folder and not os.path.isdir(folder):
        raise UsageError(
            f"shared_dir {folder}: there is no such directory here",
            hint="It must be one that this program and the replicas see at the same path.",
        )
    return _Call(name_of(function), pickle_call(function, args, kwargs), folder)


def _with_defaults(given: Mapping[str, Any], call: _Call, *, local: bool) -> dict[str, Any]:
    """The arguments with a name, and on this machine with the shared directory."""
    if "command" in given:
        raise UsageError("run() has no argument command", hint="muster.submit runs a command.")
    if given.get("nproc_per_node"):
        raise UsageError(
            "nproc_per_node is for torchrun; run() calls the function once in each replica",
            hint="Start more processes inside the function, or use muster.submit.",
        )
    made = {**given, "name": given.get("name") or _job_name(call.name)}
    if local and call.shared_dir:
        folders = given.get("data_dir") or ()
        folders = [folders] if isinstance(folders, str | os.PathLike) else [*folders]
        made["data_dir"] = [*folders, call.shared_dir]
    return made


def _job_name(function: str) -> str:
    stem = _NOT_IN_NAMES.sub("-", function.lower()).strip("-")[:_LONGEST_STEM].strip("-")
    if not stem[:1].isalpha():
        stem = f"function-{stem}".rstrip("-")
    return f"{stem}-{secrets.token_hex(3)}"


@contextmanager
def _placed(package: bytes, call: _Call) -> Iterator[str]:
    """Where replicas find the package: in the Secret, or if it is too large, in the shared
    directory. There it is removed again if the job is not created."""
    if len(package) <= LIMIT:
        yield PACKAGE
        return
    if not call.shared_dir:
        raise UsageError(
            f"{call.name} with its arguments is {len(package):,} bytes, and a Secret has at most "
            f"{LIMIT:,}",
            hint="Put large data on a volume (data, data_dir) and let the function read it, or "
            "name a shared_dir.",
        )
    path = os.path.join(call.shared_dir, f"muster-function-{secrets.token_hex(8)}.zip")
    with open(path, "xb") as file:
        file.write(package)
    try:
        yield path
    except BaseException:
        os.unlink(path)
        raise


def _pull_secrets(client: BlockingClient, namespace: str) -> tuple[Raw, ...]:
    """The Secrets with which pods of the namespace pull images by default."""
    with suppress(ApiError):
        account = client.find(SERVICE_ACCOUNTS, Key(namespace, "default"))
        return tuple((account or {}).get("imagePullSecrets") or ())
    return ()


def _keep_key(job: Job, key: ResultKey) -> None:
    result_keys.remember(job.uid, key)
    try:
        result_keys.store(job.uid, key, job._cluster.home)
    except (OSError, MusterError) as error:
        warn(f"only this process can read the result of {job.name}: {error}")
