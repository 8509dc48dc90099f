"""What `apply` and `create` share: read everything, check everything, then send object by object.

Promises: nothing is sent unless every object could be read and has a possible name; then every
object is tried, and the exit code tells whether all went well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from muster.cli import manifests
from muster.cli.cluster import choose_or_start
from muster.cli.failures import Failures
from muster.cli.output import called, structured
from muster.cli.resources import CRD, Resources
from muster.errors import UsageError
from muster.jobs.shapes import SHAPES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from muster.api.kinds import Kind
    from muster.api.meta import Raw
    from muster.cli.cluster import Where
    from muster.kube.blocking import BlockingClient
    from muster.kube.request import Request

F = TypeVar("F", bound="Callable[..., Any]")

MANAGER = "arena"
DRY = {"client": " (dry run)", "server": " (server dry run)"}


class Sent(NamedTuple):
    """What became of one object: a word for the person, and the object as the server has it."""

    word: str
    item: Raw


@dataclass(frozen=True)
class Order:
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


def options(command: F) -> F:
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


def everything(
    order: Order, where: Where, send: Callable[[BlockingClient, Kind[Raw], Raw], Sent]
) -> None:
    """Read, check and send all objects, and say what became of each."""
    items = _read(order, where)
    if order.dry_run == "client":
        word = "applied" if order.verb == "apply" else "created"
        _show(order, [Sent(word, item) for item in items])
        return
    cluster = choose_or_start(where)
    if order.dry_run == "none":
        cluster.announce()
    namespace = where.namespace_in(cluster)
    with cluster.connect() as client:
        sent, failures = _send_all(order, client, items, namespace, send)
    _show(order, sent if order.output else [])
    failures.end(len(items), "objects")


def _read(order: Order, where: Where) -> list[Raw]:
    found = [
        (item, source)
        for place in order.files
        for source, text in manifests.texts(place, recursive=order.recursive)
        for document in manifests.documents(text, source)
        for item in manifests.objects(document, source)
    ]
    if not found:
        raise UsageError(f"no objects to {order.verb} in {', '.join(order.files)}")
    # Jobs first: what goes with one is named after it, and it is its name that is to be mended.
    for item, source in sorted(found, key=lambda row: str(row[0].get("kind")) not in SHAPES):
        manifests.check(item, source, generate=order.verb == "create")
    return [placed(item, where.namespace) for item, _ in found]


def placed(item: Raw, wanted: str) -> Raw:
    """The object unless it names another namespace than `-n` does."""
    own = item["metadata"].get("namespace", "")
    if wanted and own and own != wanted:
        raise UsageError(
            f"{called(item)} is for the namespace {own}, -n says {wanted}",
            hint=f"Use -n {own}, or take the namespace out of the manifest.",
        )
    return item


def _send_all(
    order: Order,
    client: BlockingClient,
    items: Sequence[Raw],
    namespace: str,
    send: Callable[[BlockingClient, Kind[Raw], Raw], Sent],
) -> tuple[list[Sent], Failures]:
    resources = Resources(client)
    sent: list[Sent] = []
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


def _show(order: Order, sent: Sequence[Sent]) -> None:
    if not sent:
        return
    if order.output in ("yaml", "json"):
        items = [one.item for one in sent]
        shown = items[0] if len(items) == 1 else as_list(items)
        print(structured(shown, order.output))
        return
    for one in sent:
        end = "" if order.output == "name" else f" {one.word}{DRY.get(order.dry_run, '')}"
        print(f"{called(one.item)}{end}")


def as_list(items: Sequence[Raw]) -> Raw:
    """The objects as one `List`."""
    return {"kind": "List", "apiVersion": "v1", "metadata": {}, "items": list(items)}
