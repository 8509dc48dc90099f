"""What `apply` and `create` share: read everything, check everything, then send object by object.

Promises: nothing is sent unless every object could be read and has a possible name; then every
object is tried, and the exit code tells whether all went well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from muster.api.meta import object_name
from muster.cli.failures import Failures
from muster.cli.show.messages import note
from muster.cli.show.table import json_or_yaml
from muster.client.manifests import reader
from muster.client.manifests.served_kinds import CRD, ServedKinds
from muster.client.target import find_or_start_cluster
from muster.errors import UsageError
from muster.jobs.job_kinds import JOB_KIND_BY_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from muster.api.kinds import Kind
    from muster.api.meta import Raw
    from muster.client.target import Target
    from muster.kube.blocking_client import BlockingClient
    from muster.kube.request import Request

F = TypeVar("F", bound="Callable[..., Any]")

MANAGER = "arena"
DRY_RUN_SUFFIX = {"client": " (dry run)", "server": " (server dry run)"}


class SendResult(NamedTuple):
    """What became of one object: a word for the person, and the object as the server has it."""

    word: str
    item: Raw


@dataclass(frozen=True)
class SendOptions:
    """What the user asked for, the same for both verbs."""

    verb: str
    files: tuple[str, ...]
    recursive: bool = False
    dry_run: str = "none"
    output: str = ""

    def asked(self, request: Request) -> Request:
        """The request with what every write of ours says: who, how strictly, for real or not."""
        query = (*request.query, ("fieldValidation", "Strict"))
        if not any(key == "fieldManager" for key, _ in query):
            query += (("fieldManager", MANAGER),)
        if self.dry_run == "server":
            query += (("dryRun", "All"),)
        return request._replace(query=query)


def manifest_options(command: F) -> F:
    """The options of both verbs."""
    for option in (
        click.option(
            "--filename", "-f", "files", multiple=True, required=True, metavar="FILE|DIR|-",
            help="Manifests to send; - is standard input.  [repeatable]",
        ),
        click.option("--recursive", "-R", is_flag=True, help="Also the folders within a folder."),
        click.option(
            "--dry-run", type=click.Choice(["none", "client", "server"]), default="none",
            is_flag=False, flag_value="client",
            help="client: check and print only. server: let the cluster check, keep nothing.",
        ),
        click.option(
            "--output", "-o", type=click.Choice(["yaml", "json", "name"]), default=None,
            help="Print the objects instead of a line each.",
        ),
    ):  # fmt: skip
        command = option(command)
    return command


def send_manifests(
    order: SendOptions, where: Target, send: Callable[[BlockingClient, Kind[Raw], Raw], SendResult]
) -> None:
    """Read, check and send all objects, and say what became of each."""
    items = _read(order, where)
    if order.dry_run == "client":
        word = "applied" if order.verb == "apply" else "created"
        _show(order, [SendResult(word, item) for item in items])
        return
    cluster = find_or_start_cluster(where, note)
    if order.dry_run == "none":
        note(str(cluster))
    namespace = where.namespace_in(cluster)
    with cluster.connect() as client:
        sent, failures = _send_all(order, client, items, namespace, send)
    _show(order, sent if order.output else [])
    failures.end(len(items), "objects")


def _read(order: SendOptions, where: Target) -> list[Raw]:
    found = [
        (item, source)
        for place in order.files
        for source, text in reader.texts(place, recursive=order.recursive)
        for document in reader.documents(text, source)
        for item in reader.objects(document, source)
    ]
    if not found:
        raise UsageError(f"no objects to {order.verb} in {', '.join(order.files)}")
    # Jobs first: what goes with one is named after it, and it is its name that is to be mended.
    for item, source in sorted(
        found, key=lambda row: str(row[0].get("kind")) not in JOB_KIND_BY_NAME
    ):
        reader.check(item, source, generate=order.verb == "create")
    return [check_namespace(item, where.namespace) for item, _ in found]


def check_namespace(item: Raw, wanted: str) -> Raw:
    """The object unless it names another namespace than `-n` does."""
    own = item["metadata"].get("namespace", "")
    if wanted and own and own != wanted:
        raise UsageError(
            f"{object_name(item)} is for the namespace {own}, -n says {wanted}",
            hint=f"Use -n {own}, or take the namespace out of the manifest.",
        )
    return item


def _send_all(
    order: SendOptions,
    client: BlockingClient,
    items: Sequence[Raw],
    namespace: str,
    send: Callable[[BlockingClient, Kind[Raw], Raw], SendResult],
) -> tuple[list[SendResult], Failures]:
    resources = ServedKinds(client)
    sent: list[SendResult] = []
    failures = Failures()
    for item in items:
        with failures.kept():
            kind = resources.find(item["apiVersion"], item["kind"])
            done = send(client, kind, _in_namespace(kind, item, namespace))
            if item["kind"] == CRD and order.dry_run == "none":
                resources.expect(item)
            sent.append(done)
            if not order.output:
                _show(order, [done])
    return sent, failures


def _in_namespace(kind: Kind[Raw], item: Raw, namespace: str) -> Raw:
    if not kind.namespaced or item["metadata"].get("namespace"):
        return item
    return {**item, "metadata": {**item["metadata"], "namespace": namespace}}


def _show(order: SendOptions, sent: Sequence[SendResult]) -> None:
    if not sent:
        return
    if order.output in ("yaml", "json"):
        items = [one.item for one in sent]
        shown = items[0] if len(items) == 1 else as_list(items)
        print(json_or_yaml(shown, order.output))
        return
    for one in sent:
        end = (
            "" if order.output == "name" else f" {one.word}{DRY_RUN_SUFFIX.get(order.dry_run, '')}"
        )
        print(f"{object_name(one.item)}{end}")


def as_list(items: Sequence[Raw]) -> Raw:
    """The objects as one `List`."""
    return {"kind": "List", "apiVersion": "v1", "metadata": {}, "items": list(items)}
