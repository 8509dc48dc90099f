"""The functions of the Python API: submit a job, get a job, list jobs."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Unpack

from kubekit.errors import UsageError
from kubekit.objects.meta import Key
from kubekit.request_errors import NotFound
from muster.client.jobs import lookup
from muster.client.submit.submit import ChosenCluster, FlagsJob, submit as submit_wanted
from muster.contract.job_kinds import JOB_KIND_BY_NAME
from muster.sdk import note, warn
from muster.sdk.arguments import errors_in_python, fields_of, kind_of
from muster.sdk.cluster_choice import ClusterChoice, connector, take_target, target_of
from muster.sdk.job import Job

if TYPE_CHECKING:
    from collections.abc import Sequence

    from muster.sdk.flag_types import SubmitArguments


def submit(kind: str, command: str | Sequence[str], **arguments: Unpack[SubmitArguments]) -> Job:
    """Submit a training job and return it. The arguments are the flags of `arena submit KIND`.

    `kind` is `pytorch`, `tf`, `mpi` or `jax`. `command` is a line for the shell, or a list of
    words. On the local cluster the job runs as `arena submit` runs it: in the current directory,
    with the home directory, and with the Python environment of this program. If no cluster is
    configured, a local cluster is started.

    >>> job = muster.submit("pytorch", "echo trained", name="doc-submit", workers=2, gang=True)
    >>> job.wait(timeout="1m").status()
    'SUCCEEDED'
    """
    given = dict(arguments)
    target = take_target(given)
    submission = kind_of(kind)
    with errors_in_python(submission):
        fields = fields_of(submission, command, given)
        wanted = FlagsJob(submission, fields, _own_interpreter())
        return submitted_job(wanted, ChosenCluster.of(target))


def submitted_job(wanted: FlagsJob, destination: ChosenCluster) -> Job:
    """Submit the job and return it; sentences about it become log records."""
    result = submit_wanted(wanted, destination, notify=warn)
    for sentence in result.warnings:
        warn(sentence)
    if result.model_error is not None:
        raise result.model_error
    assert result.cluster is not None
    return Job(result.cluster, JOB_KIND_BY_NAME[result.job["kind"]].resource, result.job)


def _own_interpreter() -> str:
    """The interpreter of this program; empty if its environment is the shell's active one."""
    active = os.environ.get("VIRTUAL_ENV") or os.environ.get("CONDA_PREFIX") or ""
    same = os.path.exists(active) and os.path.samefile(active, sys.prefix)
    return "" if same else sys.executable


def get_job(name: str, type: str = "", **choice: Unpack[ClusterChoice]) -> Job:
    """The job of that name. `type` (`tf`, `pytorch`, …) tells jobs of one name apart.

    >>> muster.submit("tf", "echo hello", name="doc-get").name
    'doc-get'
    >>> muster.get_job("doc-get").kind
    'TFJob'
    """
    if not isinstance(name, str) or not name:
        raise UsageError(f"name is {name!r}; write the name of a job")
    target = target_of(**choice)
    cluster = target.cluster()
    key = Key(target.namespace_in(cluster), name)
    with connector(cluster)() as client:
        try:
            found = lookup.get_job(client, key, type)
        except lookup.NoSuchJob as error:
            sentence = f"there is no job {error.key.name} in namespace {key.namespace}"
            raise NotFound(sentence, hint=error.hint) from None
    return Job(cluster, found.kind, found.raw)


def list_jobs(
    type: str = "",
    *,
    labels: str = "",
    all_namespaces: bool = False,
    **choice: Unpack[ClusterChoice],
) -> list[Job]:
    """The jobs of the namespace, newest first; `labels` is a label selector.

    >>> muster.submit("tf", "echo hello", name="doc-list").name
    'doc-list'
    >>> "doc-list" in [job.name for job in muster.list_jobs()]
    True
    """
    target = target_of(**choice)
    cluster = target.cluster()
    namespace = "" if all_namespaces else target.namespace_in(cluster)
    with connector(cluster)() as client:
        now = datetime.now(UTC)
        rows = lookup.list_jobs(client, namespace, type, note, now=now, labels=labels)
    return [Job.of_summary(cluster, row) for row in rows]
