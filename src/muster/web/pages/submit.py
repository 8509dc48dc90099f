"""`/submit`: a form, then the manifest that it gives, then the job.

Every step is a separate page, so that it works without scripts: the form is checked here and by
the server (a dry run), the manifest is shown, and the same manifest is sent. `?from=` begins with
the manifest of an existing job.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from aiohttp import web

from kubekit.errors import MusterError, UsageError, no_such
from kubekit.objects.meta import Key, key_of
from kubekit.request_errors import AlreadyExists, ApiError, BadRequest, Invalid, NotFound
from muster.client import config_file
from muster.client.submit.defaults import gang_default
from muster.contract.job_fields import InvalidJob
from muster.contract.job_kinds import TYPE_ALIASES
from muster.jobs.build.flags import BY_TYPE, Submission
from muster.web import submissions
from muster.web.access.request_facts import IDENTITY, fields_of
from muster.web.context import POLICY, cluster_of, page, status_of
from muster.web.pages.job import JobPath
from muster.web.views.submit_form import (
    TYPES,
    Defaults,
    FieldError,
    SubmitForm,
    field_of,
    job_form,
    yaml_form,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kubekit.client.blocking_client import BlockingClient
    from muster.web.cluster.live_cluster import LiveCluster
    from muster.web.submissions import Proposal

SEEN_TRIES, SEEN_PAUSE = 60, 0.05
"""How long a new job may take to reach the dashboard's own list."""
_OWN_FIELDS = ("csrf", "step", "type")


class Preview(NamedTuple):
    """A job that can be sent."""

    proposal: Proposal
    type: str
    texts: dict[str, str]
    """Of the form, for the way back."""


class _FormErrors(Exception):
    """Errors at the fields of the form; the field of an error that is about none is empty."""

    def __init__(self, errors: Mapping[str, MusterError]) -> None:
        super().__init__()
        self.errors = {name: FieldError(str(row), row.hint) for name, row in errors.items()}
        status = max(map(status_of, errors.values()))
        self.status = 400 if status == 500 else status


async def show(request: web.Request) -> web.Response:
    """The empty form, or the manifest of another job."""
    if source := request.query.get("from"):
        return await _copy(request, source)
    type_ = _type(request.query.get("type", ""))
    gang = gang_default(type_) if type_ in BY_TYPE else None
    values = {} if gang is None else {"gang": str(gang).lower()}
    return await _form(request, type_, values)


async def change(request: web.Request) -> web.StreamResponse:
    """The next step: show the manifest, send it, or go back to the form."""
    post = await fields_of(request)
    type_, step = _type(post.get("type", "")), post.get("step", "")
    try:
        if step == "send":
            type_ = "yaml"  # after an error, the manifest can be changed
            return await _send(request, post)
        if step in ("form", "edit"):
            return await _form(request, type_ if step == "form" else "yaml", post)
        return await _show_manifest(request, type_, post)
    except _FormErrors as error:
        return await _form(request, type_, post, errors=error.errors, status=error.status)


async def _show_manifest(request: web.Request, type_: str, post: dict[str, str]) -> web.Response:
    kind, directory = BY_TYPE.get(type_), request.app[POLICY].directory
    namespace = post.get("namespace", "").strip()
    given, errors = submissions.read_values(kind, post) if kind else ({}, {})
    if errors:
        raise _FormErrors(errors)

    def propose(client: BlockingClient) -> Proposal:
        if kind is not None:
            draft = submissions.from_flags(kind, given, directory)
        else:
            draft = submissions.from_text(post.get("manifest", ""), namespace, directory)
        place = namespace or _namespace(request)
        return submissions.propose(client, draft, place, local=bool(directory))

    try:
        proposal = await cluster_of(request).call(propose)
    except MusterError as error:
        raise _FormErrors({_field_of(error, kind): error}) from None
    texts = {name: text for name, text in post.items() if name not in _OWN_FIELDS and text}
    preview = Preview(proposal, type_, texts)
    return await page(request, "submit_preview.html", lambda: preview)


async def _send(request: web.Request, post: dict[str, str]) -> web.StreamResponse:
    cluster = cluster_of(request)
    text, namespace = post.get("manifest", ""), post.get("namespace", "") or _namespace(request)
    local = bool(request.app[POLICY].directory)
    try:
        submitted = await cluster.call(
            lambda client: submissions.send(client, text, namespace, local=local)
        )
    except MusterError as error:
        raise _FormErrors({_field_of(error, None): error}) from None
    kind, key = submitted.job["kind"], key_of(submitted.job)
    # The page of the job shows what the dashboard's own watch has received.
    for _ in range(SEEN_TRIES):
        if await _is_seen(cluster, kind, key):
            break
        await asyncio.sleep(SEEN_PAUSE)
    raise web.HTTPSeeOther(JobPath(key, kind).url)


async def _is_seen(cluster: LiveCluster, kind: str, key: Key) -> bool:
    try:
        await cluster.job(kind, key)
    except ApiError as error:
        return not isinstance(error, NotFound)  # whoever may not list jobs sees none
    return True


async def _copy(request: web.Request, source: str) -> web.Response:
    """The form with the manifest of NAMESPACE/KIND/NAME under a new name."""
    if source.count("/") != 2:
        raise UsageError(f"{source} is not a job.", hint="Write from=NAMESPACE/KIND/NAME.")
    cluster, path = cluster_of(request), JobPath.of_parts(*source.split("/"))
    job = (await cluster.job(path.kind, path.key)).raw
    keys = [key_of(row.raw) for row in await cluster.jobs()]
    taken = {key.name for key in keys if key.namespace == path.key.namespace}
    manifest, notes = await cluster.call(lambda client: submissions.again(client, job, taken))
    return await _form(request, "yaml", {"manifest": manifest}, notes=notes)


async def _form(
    request: web.Request,
    type_: str,
    values: Mapping[str, str],
    *,
    errors: Mapping[str, FieldError] | None = None,
    notes: tuple[str, ...] = (),
    status: int = 200,
) -> web.Response:
    directory = request.app[POLICY].directory
    hidden = submissions.REFUSED if directory else (*submissions.REFUSED, *submissions.LOCAL_ONLY)
    defaults = Defaults(_namespace(request), directory, hidden)

    def view() -> SubmitForm:
        if type_ == "yaml":
            return yaml_form(values, errors or {}, defaults, notes)
        return job_form(type_, values, errors or {}, defaults)

    return await page(request, "submit.html", view, status=status)


def _field_of(error: MusterError, kind: type[Submission] | None) -> str:
    field = field_of(error, kind)
    # Of a pasted manifest, whatever is wrong with the job is at the text.
    of_text = UsageError | InvalidJob | Invalid | BadRequest | AlreadyExists
    is_text = kind is None and isinstance(error, of_text)
    return field or ("manifest" if is_text else "")


def _type(text: str) -> str:
    type_ = TYPE_ALIASES.get(text.lower(), text.lower()) or next(iter(TYPES))
    if type_ not in TYPES:
        raise UsageError(no_such("kind of job", text, TYPES))
    return type_


def _namespace(request: web.Request) -> str:
    """The namespace of jobs that name none, as for commands."""
    endpoint = request[IDENTITY].endpoint
    return config_file.read().get("namespace", "") or endpoint.namespace or "default"
