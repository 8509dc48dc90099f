"""Submitting from the dashboard: the operation of `arena submit`.

A command has a directory, an environment and files; a browser has none of them. On the local
cluster, a job of the form runs in a directory that the form names, with the programs that were
active when `arena up` ran. Flags that read files of the caller's machine are refused: the files
would be those of the dashboard's machine.

What the reader is shown is a manifest, and that manifest is what is sent, as `submit -f` does it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kubekit.errors import MusterError, UsageError
from muster.client.manifests import reader, yaml_writer
from muster.client.manifests.apply import check_namespace
from muster.client.submit import defaults, job_file
from muster.client.submit.submit import FlagsJob, ManifestJob, OpenConnection, SubmitResult, submit
from muster.jobs import unknown_fields
from muster.jobs.build.code_sync import local_path
from muster.jobs.build.copied_job import companion_names, copied_job, next_name
from muster.jobs.build.flags import Flag, Submission, flags_of
from muster.jobs.build.job_manifest import Bundle

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kubekit.client.blocking_client import BlockingClient
    from kubekit.objects.meta import Raw

REFUSED = ("config_file", "model_name")
"""Fields that a form does not have: they read files or settings of the caller's machine."""
LOCAL_ONLY = ("working_dir", "python", "isolated")
_SOURCE = "the manifest"


class Proposal(NamedTuple):
    """A job that the server would accept."""

    job: Raw
    namespace: str
    manifest: str
    """All objects that will be created, as YAML."""
    notes: tuple[str, ...]


class Draft(NamedTuple):
    """A job before a server has seen it."""

    wanted: FlagsJob | ManifestJob
    notes: tuple[str, ...] = ()


def read_values(
    kind: type[Submission], texts: Mapping[str, str]
) -> tuple[dict[str, Any], dict[str, MusterError]]:
    """The fields of a form as values of flags, and the errors of those that cannot be read."""
    command = _plain(texts.get("command", ""))
    given: dict[str, Any] = {"command": (command,)}
    no_nul = UsageError("the text contains a NUL character")
    errors: dict[str, MusterError] = {name: no_nul for name in texts if "\0" in texts[name]}
    for flag in flags_of(kind):
        if flag.field in REFUSED:
            continue
        text = _plain(texts.get(flag.field, "")).strip()
        try:
            given |= _value(flag, text)
        except MusterError as error:
            errors[flag.field] = error
    if not given.get("name"):
        errors["name"] = UsageError("the name of the job is missing", hint="For example: mnist")
    if not command.strip():
        hint = "For example: `python train.py`"
        errors["command"] = UsageError("the training command is missing", hint=hint)
    return given, errors


def from_flags(kind: type[Submission], given: dict[str, Any], directory: str) -> Draft:
    """The job of these flags; `directory` is its default one on the local cluster, else empty."""
    local = bool(directory)
    for field in REFUSED:
        if given.get(field):
            raise UsageError(
                f"--{field.replace('_', '-')} needs files or settings of your own machine",
                hint="`arena submit` has them; the dashboard does not.",
            )
    source = str(given.get("sync_source") or "")
    if source and not local and (":" not in source or local_path(source)):
        raise UsageError(
            f"--sync-source {source} is not an address: pods do not see files of this machine"
        )
    if local:
        given = {**given, "working_dir": given.get("working_dir") or directory}
    return Draft(FlagsJob(kind, given, has_directory=False))


def from_text(text: str, namespace: str, directory: str) -> Draft:
    """The job of a manifest, or of flags as YAML."""
    warnings: list[str] = []
    loaded = job_file.load_text(
        _plain(text), _SOURCE, lambda job: warnings.extend(unknown_fields.warnings(job))
    )
    if isinstance(loaded, Bundle):
        check_namespace(loaded.job, namespace)
        return Draft(ManifestJob(loaded), tuple(f"warning: {text}" for text in warnings))
    return from_flags(*loaded, directory)


def propose(client: BlockingClient, draft: Draft, namespace: str, *, local: bool) -> Proposal:
    """Let the server check everything without creating it."""
    destination = OpenConnection(client, namespace, is_local=local)
    result = submit(draft.wanted, destination, dry_run="server")
    items = [*result.bundle.companions, result.bundle.job]
    manifest = yaml_writer.dump(items[0] if len(items) == 1 else reader.as_list(items))
    notes = (*draft.notes, *result.notes, *result.warnings)
    return Proposal(result.bundle.job, result.namespace, manifest, notes)


def send(client: BlockingClient, manifest: str, namespace: str, *, local: bool) -> SubmitResult:
    """Create the objects of a manifest that was shown."""
    draft = from_text(manifest, "", "")
    return submit(draft.wanted, OpenConnection(client, namespace, is_local=local))


def again(client: BlockingClient, job: Raw, taken: Collection[str]) -> tuple[str, tuple[str, ...]]:
    """The manifest of a job under a new name, and notes about it."""
    name = str(job["metadata"]["name"])
    new = copied_job(job, next_name(name, taken), defaults.submitting_user(client))
    notes = [
        f"the job uses ConfigMap {companion}, which is deleted with {name}"
        for companion in companion_names(job)
    ]
    return yaml_writer.dump(new), tuple(notes)


def _value(flag: Flag, text: str) -> dict[str, Any]:
    if isinstance(flag.default, bool):
        return {flag.field: bool(text)}
    if not text:
        return {}
    if flag.default == ():
        lines = [line.strip() for line in text.split("\n")]
        return {flag.field: tuple(line for line in lines if line)}
    return {flag.field: job_file.flag_value(flag.spelling, flag, text)}


def _plain(text: str) -> str:
    """A text of a form, in which browsers write line breaks as CR LF."""
    return text.replace("\r\n", "\n")
