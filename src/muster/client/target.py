"""Which cluster a verb talks to, and the connection to it.

Called by every verb that needs the API. The order is fixed: the flag, $KUBECONFIG, the choice kept
by `arena use`, in-cluster credentials, ~/.kube/config, the local cluster. A $KUBECONFIG that cannot
be read is an error, never a silent local run. Imports no asyncio: quick verbs stay quick.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from muster.cli.show.output import LEVELS, is_debug, note, set_loglevel
from muster.client import config_file
from muster.errors import ConfigError, NoCluster
from muster.kube.auth import kube_config
from muster.local.home import Home

if TYPE_CHECKING:
    from collections.abc import Callable

    from muster.kube.blocking_client import BlockingClient

F = TypeVar("F", bound="Callable[..., Any]")

STARTED_NOW = "started just now"


class Cluster(msgspec.Struct, frozen=True):
    """A cluster that was chosen, and why."""

    endpoint: kube_config.Endpoint
    name: str
    source: str
    local: bool

    def __str__(self) -> str:
        how = self.source if self.source == STARTED_NOW else f"from {self.source}"
        return f"cluster: {self.name} ({how})"

    def announce(self) -> None:
        """Say on stderr what is about to be changed; verbs that write call this first."""
        note(str(self))

    def connect(self) -> BlockingClient:
        from muster.kube.blocking_client import BlockingClient

        if is_debug():
            from muster.cli.show.request_log import LoggingClient

            return LoggingClient(self.endpoint, user_agent="arena")
        return BlockingClient(self.endpoint, user_agent="arena")


class Target(msgspec.Struct, frozen=True):
    """The flags a verb was given about the cluster and the namespace."""

    kubeconfig: Path | None = None
    context: str | None = None
    namespace: str = ""

    def cluster(self) -> Cluster:
        found = find_cluster(self)
        if found is None:
            raise no_cluster()
        return found

    def namespace_in(self, cluster: Cluster) -> str:
        """`-n`, arena's config file, the kubeconfig's context, default: in this order."""
        kept = self.namespace or config_file.read().get("namespace", "")
        return kept or cluster.endpoint.namespace or "default"


def no_cluster(hint: str = "`arena up --detach` starts one on this machine.") -> NoCluster:
    """What a verb says that needs a cluster and has none."""
    return NoCluster("no cluster: arena up", hint=hint)


def find_cluster(where: Target) -> Cluster | None:
    """The cluster by the fixed order, or None when none is configured anywhere."""
    if where.kubeconfig is not None:
        return _from_file(where.kubeconfig, where.context, "--kubeconfig")
    if os.environ.get("KUBECONFIG"):
        return _from_file(None, where.context, "$KUBECONFIG")
    home = Home.of_user()
    if kept := home.choice():
        return cluster_of_choice(kept, where.context)
    inside = kube_config.in_cluster()
    if inside is not None:
        return Cluster(inside, "in-cluster", "the service account", local=False)
    if _user_kubeconfig().exists():
        return _from_file(_user_kubeconfig(), where.context, "~/.kube/config")
    return local_cluster(home, "the local cluster") if home.facts() else None


def cluster_of_choice(choice: str, context: str | None = None) -> Cluster | None:
    """What `arena use CHOICE` means; an error if that cannot be used."""
    home = Home.of_user()
    if choice == "local":
        # Never fall through to a cluster that was not chosen: a local one that is down is none.
        return local_cluster(home, "arena use") if home.facts() else None
    try:
        context = context or choice.partition(":")[2] or None
        return _from_file(_user_kubeconfig(), context, "arena use")
    except ConfigError as error:
        undo = "`arena use local` chooses the local cluster, `arena use kube:CONTEXT` another."
        raise ConfigError(f"arena use {choice}: {error}", hint=undo) from None


def find_or_start_cluster(where: Target) -> Cluster:
    """The chosen cluster, or the local one started now: for the few verbs that may do so."""
    from muster.cli.verbs.up import start_automatically

    return find_cluster(where) or start_automatically()


def local_cluster(home: Home, source: str) -> Cluster:
    return Cluster(kube_config.load(home.kubeconfig), "local", source, local=True)


def _user_kubeconfig() -> Path:
    return Path.home() / ".kube" / "config"


def _from_file(path: Path | None, context: str | None, source: str) -> Cluster:
    endpoint = kube_config.load(path, context)
    home = Home.of_user()
    # Also by its address: $KUBECONFIG may name the local cluster's file, or a copy of it.
    local = path == home.kubeconfig or (home.facts() or {}).get("url") == endpoint.url
    return Cluster(endpoint, "local" if local else endpoint.name, source, local=local)


_OPTIONS = (
    click.option("--arena-namespace", "--arenaNamespace", hidden=True, help="Nothing lives there."),
    click.option(
        "--loglevel", type=click.Choice(LEVELS), help="Lines to show on stderr; debug: requests."
    ),
    click.option("--context", help="Context of the kubeconfig to use."),
    click.option("--kubeconfig", "--config", metavar="FILE", help="Kubeconfig file to use."),
    click.option("--namespace", "-n", help="Namespace to use."),
)
_SHARED = ("namespace", "kubeconfig", "context", "loglevel", "arena_namespace")


def cluster_options(command: F) -> F:
    """The options every verb shares; the verb receives one `where: Where`."""

    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        before = click.get_current_context().find_root().obj or {}
        own = {name: kwargs.pop(name) for name in _SHARED}
        given = {name: before.get(name) if own[name] is None else own[name] for name in _SHARED}
        set_loglevel(given["loglevel"] or "info")
        path = Path(given["kubeconfig"]).expanduser() if given["kubeconfig"] else None
        where = Target(path, given["context"], given["namespace"] or "")
        return command(*args, where=where, **kwargs)

    for option in _OPTIONS:
        wrapped = option(wrapped)
    return wrapped  # type: ignore[return-value]


def before_the_verb(group: click.Group) -> None:
    """Let the same options stand before the verb too: `arena -n team list`."""

    @click.pass_context
    def keep(ctx: click.Context, /, **given: Any) -> None:
        ctx.obj = given

    for option in reversed(_OPTIONS):
        option(group)
    group.callback = keep
