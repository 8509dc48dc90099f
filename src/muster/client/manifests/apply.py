"""Applying and creating objects: read everything, check everything, then send object by object.

Nothing is sent unless every object could be read and has a valid name; then every object is tried.
Apply is server-side: the cluster merges the objects, so that fields which other managers set (a
controller's number of replicas, for example) stay theirs. A change of a field that another manager
owns is a conflict, reported with the manager.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple, TextIO

import msgspec

from kubekit.client import request
from kubekit.errors import MusterError, UsageError
from kubekit.objects.meta import Raw, key_of, object_name
from kubekit.request_errors import (
    AlreadyExists,
    BadRequest,
    Conflict,
    Forbidden,
    Invalid,
    ServerError,
    Unreachable,
)
from muster.client.manifests import reader
from muster.client.manifests.served_kinds import CRD, ServedKinds
from muster.client.submit.user_role import with_role
from muster.contract.job_fields import InvalidJob
from muster.contract.job_kinds import JOB_KIND_BY_NAME
from muster.jobs import parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kubekit.client.blocking_client import BlockingClient
    from kubekit.client.request import Request, Response
    from kubekit.objects.kinds import Kind

    Send = Callable[[BlockingClient, Kind[Raw], Raw], "SendResult"]

MANAGER = "arena"
_OWNER = re.compile(r'conflicts? with "((?:[^"\\]|\\.)*)"')


class SendResult(NamedTuple):
    """The outcome for one object, and the object as the server has it."""

    outcome: str
    """`created`, `configured` or `unchanged`."""
    item: Raw


class ReadObject(NamedTuple):
    """An object of a manifest, and the file that it is from."""

    item: Raw
    source: str


def send_strictly(client: BlockingClient, ask: Request, *, dry_run: bool) -> Response:
    """Send the object with our field manager; the server rejects fields that it would drop."""
    query = (*ask.query, ("fieldValidation", "Strict"))
    if not any(key == "fieldManager" for key, _ in query):
        query += (("fieldManager", MANAGER),)
    if dry_run:
        query += (("dryRun", "All"),)
    return client.send(ask._replace(query=query))


def read_objects(
    files: Sequence[str], stdin: TextIO, *, verb: str, namespace: str = "", recursive: bool = False
) -> list[ReadObject]:
    """The objects of all files, each checked; `verb` is `apply` or `create`."""
    items = [
        (item, source)
        for file in files
        for source, text in reader.texts(file, stdin, recursive=recursive)
        for document in reader.documents(text, source)
        for item in reader.objects(document, source)
    ]
    if not items:
        raise UsageError(f"no objects to {verb} in {', '.join(files)}")
    # Jobs first: companions are named after their job, so an invalid name is the job's mistake.
    for item, source in sorted(
        items, key=lambda row: str(row[0].get("kind")) not in JOB_KIND_BY_NAME
    ):
        reader.check(item, source, generate=verb == "create")
    return [ReadObject(check_namespace(item, namespace), source) for item, source in items]


def check_namespace(item: Raw, namespace: str) -> Raw:
    """The object unless it names another namespace than `-n` does."""
    own = item["metadata"].get("namespace", "")
    if namespace and own and own != namespace:
        raise UsageError(
            f"{object_name(item)} is for the namespace {own}, -n says {namespace}",
            hint=f"Use -n {own}, or take the namespace out of the manifest.",
        )
    return item


def send_all(
    client: BlockingClient,
    objects: Iterable[ReadObject],
    namespace: str,
    send: Send,
    *,
    dry_run: bool,
) -> Iterator[SendResult | MusterError]:
    """Send every object and yield its result or its error; an unreachable cluster raises."""
    served = ServedKinds(client)
    for item, source in objects:
        try:
            kind = served.find(item["apiVersion"], item["kind"])
            result = send(client, kind, _in_namespace(kind, item, namespace))
        except Unreachable:
            raise
        except MusterError as error:
            yield _in_own_words(item, source, error, namespace)
        else:
            if item["kind"] == CRD and not dry_run:
                served.expect(item)
            yield result


def _in_own_words(item: Raw, source: str, error: MusterError, namespace: str) -> MusterError:
    """The error; for a job that the server rejected, that of our parser: it has a hint.

    A user who may not write jobs gets the role that allows it.
    """
    if isinstance(error, Forbidden) and item["kind"] in JOB_KIND_BY_NAME:
        return with_role(error, item["metadata"].get("namespace") or namespace, "edit")
    # A real server answers an apply with a wrong type as another error, 500.
    refused = isinstance(error, BadRequest | Invalid | ServerError)
    if refused and item["kind"] in JOB_KIND_BY_NAME:
        try:
            parse.parse_job(item)
        except InvalidJob as rejection:
            return rejection.in_file(source)
    return error


def _in_namespace(kind: Kind[Raw], item: Raw, namespace: str) -> Raw:
    if not kind.namespaced or item["metadata"].get("namespace"):
        return item
    return {**item, "metadata": {**item["metadata"], "namespace": namespace}}


def create_object(
    client: BlockingClient, kind: Kind[Raw], item: Raw, *, dry_run: bool = False
) -> SendResult:
    """Create the object; it is an error if it exists."""
    ask = request.create(kind, item)
    try:
        response = send_strictly(client, ask, dry_run=dry_run)
    except AlreadyExists as error:
        error.hint = "`arena apply -f` changes an object that exists."
        raise
    return SendResult("created", msgspec.json.decode(response.body, type=dict))


def apply_object(
    client: BlockingClient,
    kind: Kind[Raw],
    item: Raw,
    *,
    force: bool = False,
    dry_run: bool = False,
) -> SendResult:
    """Create the object or change it; `force` takes over fields that others manage."""
    before = client.find(kind, key_of(item))
    ask = request.apply(kind, item, owner=MANAGER, force=force)
    try:
        response = send_strictly(client, ask, dry_run=dry_run)
    except Conflict as error:
        owners = {match[1] for cause in error.causes if (match := _OWNER.search(cause.message))}
        if owners == {MANAGER} and not force:
            # `arena create` wrote these fields: the owner is the same program, so take them over.
            return apply_object(client, kind, item, force=True, dry_run=dry_run)
        raise _explained(error, item, owners) from None
    after: Raw = msgspec.json.decode(response.body, type=dict)
    if response.status == 201 or before is None:
        return SendResult("created", after)
    return SendResult("unchanged" if _content(before) == _content(after) else "configured", after)


def _content(item: Raw) -> Raw:
    """The object without the fields that every write changes."""
    metadata = dict(item["metadata"])
    for field in ("managedFields", "resourceVersion"):
        metadata.pop(field, None)
    return {**item, "metadata": metadata}


def _explained(error: Conflict, item: Raw, owners: set[str]) -> Conflict:
    if not owners:
        return error
    fields = ", ".join(dict.fromkeys(cause.field for cause in error.causes))
    return Conflict(
        f"{object_name(item)}: {', '.join(sorted(owners))} manages {fields}",
        status=error.status,
        reason=error.reason,
        causes=error.causes,
        hint="--force-conflicts takes these fields over; or leave them out of the manifest.",
    )
