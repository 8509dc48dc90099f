"""Options of `apply` and `create`, and the report of every object that they send."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from kubekit.errors import MusterError
from kubekit.objects.meta import object_name
from muster.cli import options
from muster.cli.each_name import Failures
from muster.cli.show.messages import note, note_cluster, warn_of_unknown_fields
from muster.cli.show.table import json_or_yaml
from muster.client.manifests import apply
from muster.client.manifests.apply import SendResult
from muster.client.manifests.reader import as_list
from muster.client.target import find_cluster, start_cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kubekit.objects.meta import Raw
    from muster.client.manifests.apply import Send
    from muster.client.target import Target

DRY_RUN_SUFFIX = {"none": "", "client": " (dry run)", "server": " (server dry run)"}


def manifest_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of both verbs."""
    for option in (
        click.option(
            "--filename", "-f", "files", multiple=True, required=True, metavar="FILE|DIR|-",
            help="Manifests to send; - is standard input.  [repeatable]",
        ),
        click.option("--recursive", "-R", is_flag=True, help="Also the folders within a folder."),
        options.dry_run_option,
        options.objects_option,
    ):  # fmt: skip
        command = option(command)
    return command


def send_manifests(
    target: Target, verb: str, send: Send, *, dry_run: str, output: str | None, **given: Any
) -> None:
    """Read, check and send all objects, and print the outcome of each."""
    objects = apply.read_objects(stdin=sys.stdin, verb=verb, namespace=target.namespace, **given)
    items = [item for item, _ in objects]
    for item in items:
        warn_of_unknown_fields(item, object_name(item) if items[1:] else "")
    if dry_run == "client":
        outcome = "applied" if verb == "apply" else "created"
        _print_results([SendResult(outcome, item) for item in items], dry_run, output)
        return
    cluster = find_cluster(target) or start_cluster(target, note)
    if dry_run == "none":
        note_cluster(cluster)
    namespace = target.namespace_in(cluster)
    results, failures = [], Failures()
    with cluster.connect() as client:
        for result in apply.send_all(client, objects, namespace, send, dry_run=dry_run != "none"):
            if isinstance(result, MusterError):
                failures.errors.append(result)
            elif output:
                results.append(result)  # JSON and YAML are one document, printed at the end
            else:
                _print_results([result], dry_run, output)
    _print_results(results, dry_run, output)
    failures.raise_if_any(len(items), "objects")


def _print_results(results: Sequence[SendResult], dry_run: str, output: str | None) -> None:
    if output:
        print_objects([result.item for result in results], output)
        return
    for result in results:
        print(f"{object_name(result.item)} {result.outcome}{DRY_RUN_SUFFIX[dry_run]}")


def print_objects(items: Sequence[Raw], output: str) -> None:
    """The objects by name, or as JSON or YAML: one by itself, several as a List."""
    if output == "name":
        for item in items:
            print(object_name(item))
    elif items:
        print(json_or_yaml(items[0] if len(items) == 1 else as_list(items), output))
