"""`arena models`: the models that jobs exported, newest first; download one, or try it.

The list comes from ConfigMaps. `download` and `try` run in a pod of the job that made the model,
with the user's rights.
"""

from __future__ import annotations

import os
import sys
from contextlib import aclosing
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click
import msgspec

from kubekit.errors import MusterError, UsageError
from muster.cli.options import Target, all_namespaces_option, cluster_options, output_option
from muster.cli.show.messages import note, printable
from muster.cli.show.table import json_or_yaml, table
from muster.cli.verb_groups import AliasGroup, now
from muster.client.models import catalog
from muster.jobs.view.units import age, size_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
    from datetime import datetime

    from kubekit.client.client import Client
    from muster.client.models.catalog import PublishedModel
    from muster.client.target import Cluster
    from muster.contract.exported_models import Version

    Chunks = Callable[[Client], AsyncGenerator[bytes, None]]

_COLUMNS = ("NAME", "VERSION", "FORMAT", "SIZE", "JOB", "AGE")
_version_option = click.option(
    "--version", "version", default="", help="The version  [default: the newest]"
)
_name_argument = click.argument("name", metavar="MODEL")


@click.group(
    name="models", cls=AliasGroup, aliases={"ls": "list", "get": "list"},
    invoke_without_command=True,
)  # fmt: skip
@click.option("--all-versions", is_flag=True, help="All versions, not only the newest.")
@all_namespaces_option
@output_option("wide", "json", "yaml", "name")
@cluster_options
@click.pass_context
def command(ctx: click.Context, /, target: Target, **given: Any) -> None:
    """List the models that jobs exported, newest first.

    A job exports models into the directory of `submit --model-dir`: numbered folders with a
    SavedModel, an ONNX, safetensors or npz file. They are listed as soon as they are complete.

    \b
    Examples:
      arena models
      arena models download mnist --version 2 -o mnist.tar
      arena models try mnist --input '{"inputs": [[0.1, 0.2]]}'
    """
    if ctx.invoked_subcommand is None:
        _list(target, **given)


@command.command(name="list")
@click.option("--all-versions", is_flag=True, help="All versions, not only the newest.")
@all_namespaces_option
@output_option("wide", "json", "yaml", "name")
@cluster_options
def list_(target: Target, **given: Any) -> None:
    """List the models that jobs exported, newest first."""
    _list(target, **given)


def _list(target: Target, *, all_namespaces: bool, all_versions: bool, output: str) -> None:
    cluster = target.cluster()
    namespace = "" if all_namespaces else target.namespace_in(cluster)
    with cluster.connect() as client:
        rows = catalog.list_models(client, namespace)
    if output == "name":
        for row in rows:
            print(printable(row.model.name))
    elif output == "wide":
        print(_table(rows, all_versions=all_versions, all_namespaces=all_namespaces))
        _note_unlisted(row for row in rows if all_versions or row.model.truncated)
    else:
        data = [{"namespace": row.namespace, **msgspec.to_builtins(row.model)} for row in rows]
        print(json_or_yaml(data, output))


def _table(rows: list[PublishedModel], *, all_versions: bool, all_namespaces: bool) -> str:
    moment = now()
    lines: list[tuple[str, ...]] = [("NAMESPACE", *_COLUMNS) if all_namespaces else _COLUMNS]
    for row in rows:
        versions = row.model.versions if all_versions else row.model.versions[:1]
        for version in versions:
            cells = tuple(map(printable, _cells(row, version, moment)))
            lines.append((row.namespace, *cells) if all_namespaces else cells)
    return table(lines)


def _note_unlisted(rows: Iterable[PublishedModel]) -> None:
    for row in rows:
        if unlisted := row.model.unlisted:
            note(f"{printable(row.model.name)}: {printable(unlisted)}", "warn")


def _cells(row: PublishedModel, version: Version, now: datetime) -> tuple[str, ...]:
    job = row.model.job
    maker = f"{job.kind.lower()}/{job.name}"
    size = f"> {size_of(version.size)}" if version.truncated else size_of(version.size)
    return (row.model.name, version.version, version.format, size, maker, age(version.created, now))


@command.command(name="try")
@_name_argument
@click.option(
    "--input", "-i", "text", default="{}", help="JSON, e.g. '{\"inputs\": [[1, 2]]}'; - is stdin."
)
@_version_option
@cluster_options
def try_(target: Target, name: str, text: str, version: str) -> None:
    """Ask a model for a prediction, in a pod with the image and volumes of its job.

    npz needs numpy in the job's environment, SavedModel TensorFlow, ONNX onnxruntime; of
    safetensors, and without an input of npz, the tensors are listed.

    \b
    Example:
      arena models try mnist --input '{"inputs": [[0.1, 0.2]]}'
    """
    from muster.client.models import model_runs

    if text == "-":
        text = sys.stdin.read(model_runs.MAX_INPUT + 1)
    cluster, model, row = _chosen(target, name, version)
    note(f"trying version {row.version} of {model.model.name} in a pod of its job")
    result = _run(cluster, lambda client: model_runs.predict(client, model, row, text))
    print(json_or_yaml(result, "json"))


@command.command(name="download")
@_name_argument
@_version_option
@click.option("--output", "-o", default="", help="File to write; - is stdout  [default: NAME.tar]")
@cluster_options
def download(target: Target, name: str, version: str, output: str) -> None:
    """Download the files of a version as a tar archive.

    \b
    Example:
      arena models download mnist -o - | tar -x
    """
    from muster.client.models import model_runs

    cluster, model, row = _chosen(target, name, version)
    path = output or f"{model.model.name}-{row.version}.tar".replace("/", "-")
    if path != "-" and not output and os.path.exists(path):
        raise UsageError(f"{path} exists", hint="Name another file with -o, or remove it.")
    _save(cluster, lambda client: model_runs.download(client, model, row), path)
    if path != "-":
        note(f"wrote {path}")


@command.command(name="read")
@click.argument("job", metavar="JOB")
@click.option("--image", default="", help="Image of Muster  [default: that of the installation]")
@cluster_options
def read(target: Target, job: str, image: str) -> None:
    """Read the model directory of a job in its volume, and list the models that are there.

    A small pod with Muster's image mounts the volume for reading, in the namespace of the job and
    with your rights, and is removed at the end. The local cluster lists models by itself.

    \b
    Example:
      arena models read mnist
    """
    from kubekit.objects.meta import Key
    from muster.client.jobs.lookup import get_job
    from muster.client.models import read_models
    from muster.client.models.reader_job import reader_image

    cluster = target.cluster()
    with cluster.connect() as client:
        found = get_job(client, Key(target.namespace_in(cluster), job))
    raw = {**found.raw, "kind": found.kind.kind, "apiVersion": found.kind.api_version}

    async def run(client: Client) -> PublishedModel:
        chosen = await reader_image(client, image, default="muster" if cluster.local else "")
        return await read_models.read_models(client, raw, chosen)

    published = _run(cluster, run)
    if not published.model.versions:
        note(f"there is no complete model in {published.model.directory} of {job}", "warn")
        return
    print(_table([published], all_versions=True, all_namespaces=False))
    _note_unlisted([published])


@command.command(name="print-versions", hidden=True)
@click.argument("top")
@click.argument("path")
def print_versions(top: str, path: str) -> None:
    """Print the versions in a directory of a mounted volume: the program of a reader's pod.

    No versions are printed after a look that is not complete: the list of the job's models would
    be deleted.
    """
    from muster.client.models.read_models import MARK
    from muster.contract.exported_models import MAX_ENTRIES, Model
    from muster.models.model_versions import WAIT, settled_look

    try:
        found = settled_look(top, path)
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from None
    if found.is_missing:
        raise MusterError(f"there is no directory {path} in the volume")
    if found.unread:
        name, why = next(iter(found.unread.items()))
        raise _unreadable(os.path.normpath(os.path.join(path, name)), why)
    if found.truncated and not found.versions:
        raise MusterError(f"no version is among the first {MAX_ENTRIES:,} entries of {path}")
    if found.versions or not found.unsettled:
        print(f"{MARK}{msgspec.json.encode(found.listed(Model())).decode()}", flush=True)
    if found.unsettled:
        names = ", ".join(os.path.normpath(os.path.join(path, row)) for row in found.unsettled)
        raise MusterError(f"not a complete model after {WAIT:.0f} s, or damaged: {names}")


def _unreadable(path: str, why: str) -> MusterError:
    return MusterError(
        f"user {os.geteuid()} cannot read {printable(path)} in the volume: {why}; the "
        "reader runs as the user of the job's container (securityContext.runAsUser)"
    )


def _save(cluster: Cluster, chunks: Chunks, path: str) -> None:
    """Write the file beside its place and rename it: a broken download leaves no file."""
    if path == "-":
        _run(cluster, lambda client: _write(chunks(client), sys.stdout.buffer))
        return
    draft = Path(f"{path}.part")

    async def write(client: Client) -> None:
        with draft.open("wb") as file:  # noqa: ASYNC230 - nothing else runs in this loop
            await _write(chunks(client), file)

    try:
        _run(cluster, write)
        draft.replace(path)
    except OSError as error:
        raise MusterError(f"{path} cannot be written: {error.strerror}") from None
    finally:
        draft.unlink(missing_ok=True)


async def _write(chunks: AsyncGenerator[bytes, None], file: IO[bytes]) -> None:
    async with aclosing(chunks):
        async for chunk in chunks:
            file.write(chunk)


def _chosen(target: Target, name: str, version: str) -> tuple[Cluster, PublishedModel, Version]:
    cluster = target.cluster()
    with cluster.connect() as client:
        model = catalog.find_model(catalog.list_models(client, target.namespace_in(cluster)), name)
    return cluster, model, catalog.find_version(model, version)


def _run(cluster: Cluster, call: Callable[[Client], Coroutine[Any, Any, Any]]) -> Any:
    """Run this call. A signal that asks us to stop cancels it, so that it removes its pod."""
    import asyncio
    import signal

    from kubekit.client.client import Client
    from muster.client.interrupts import SIGNALS

    async def connected() -> Any:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # `nohup` and the like
                loop.add_signal_handler(number, task.cancel)
        async with Client.connect(cluster.endpoint, user_agent="arena") as client:
            return await call(client)

    try:
        return asyncio.run(connected())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
