"""Which cluster and namespace to use, the connection to it, and the user's name there.

The first of these that is set is used: --kubeconfig, $KUBECONFIG, --context (of ~/.kube/config),
the choice stored by `arena use`, in-cluster credentials, ~/.kube/config, the local cluster. With
the first two, --context names a context of their files. A $KUBECONFIG that cannot be read is an
error, never a silent local run.

`arena use kube:CONTEXT` reads the files that kubectl reads, and stores them with the choice if
$KUBECONFIG names them: they are used when the variable is not set. While it names the same files,
the stored context is used instead of their current one.

This module does not import asyncio, so that quick verbs start quickly.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from kubekit.client.auth import kube_config
from kubekit.client.auth.endpoint import Endpoint, in_cluster
from kubekit.errors import ConfigError, MusterError, UsageError
from kubekit.objects.kinds import SELF_SUBJECT_ACCESS_REVIEWS, SELF_SUBJECT_REVIEWS
from muster.client import Notify, config_file
from muster.client.home import Home

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubekit.client.blocking_client import BlockingClient
    from kubekit.rights import Right


_started: list[object] = []
"""The daemons that this program has started; Python warns about one that is forgotten."""


class NoCluster(MusterError):
    """No cluster is configured and none is running."""

    cli_exit_code = 5


class Cluster(msgspec.Struct, frozen=True):
    """A cluster that was found, and where it was configured."""

    endpoint: Endpoint
    name: str
    source: str
    local: bool
    request_log: Callable[[str], None] | None = None
    home: Home | None = None
    """Of a local cluster that is not the user's own."""

    def __str__(self) -> str:
        return f"cluster: {self.name} (from {self.source})"

    def connect(self) -> BlockingClient:
        if self.request_log is not None:
            from muster.client.request_log import LoggingClient

            return LoggingClient(self.endpoint, self.request_log)
        from kubekit.client.blocking_client import BlockingClient

        return BlockingClient(self.endpoint, user_agent="arena")


class Target(msgspec.Struct, frozen=True):
    """The user's choice of cluster and namespace, before any cluster is found."""

    kubeconfig: Path | None = None
    context: str | None = None
    namespace: str = ""
    request_log: Callable[[str], None] | None = None
    """Receives a line for each request; None logs nothing."""
    choice: str = ""
    """A cluster as `arena use` names it, before all other choices."""
    home: Home | None = None
    """The local cluster of this home and no other."""

    def find(self) -> Cluster | None:
        """The cluster to use, or None when none is configured anywhere."""
        cluster = _configured(self)
        return cluster and msgspec.structs.replace(cluster, request_log=self.request_log)

    def cluster(self) -> Cluster:
        cluster = self.find()
        if cluster is None:
            raise no_cluster(self.home)
        return cluster

    def namespace_in(self, cluster: Cluster) -> str:
        """`-n`, arena's config file, the kubeconfig's context, default: in this order."""
        chosen = self.namespace
        if not chosen and self.home is None:
            chosen = config_file.read().get("namespace", "")
        return chosen or cluster.endpoint.namespace or "default"


def no_cluster(home: Home | None = None, *, hint: str = "") -> NoCluster:
    """The error of a command that needs a cluster and has none: what became of the local one."""
    state, then, pid = (home or Home.of_user()).absence()
    hint = hint or f"{then[:1].upper()}{then[1:]}."
    if state == "starting":
        hint = "Try again in a moment; `arena status` shows when it is up."
        return NoCluster(f"the local cluster is starting or stopping (pid {pid})", hint=hint)
    if state == "killed":
        return NoCluster("the daemon of the local cluster was killed", hint=hint)
    return NoCluster("no cluster is configured, and the local cluster is not running", hint=hint)


def _configured(target: Target) -> Cluster | None:
    if target.home is not None:
        return _running_local_cluster(target.home, str(target.home.root))
    if target.choice:
        return cluster_of_choice(target.choice)
    if target.kubeconfig is not None:
        return _from_files((target.kubeconfig,), target.context, "--kubeconfig")
    if files := _environment_files():
        return _of_environment(files, target.context)
    own_file = Path.home() / ".kube" / "config"
    if target.context:
        if not own_file.exists():
            raise ConfigError(
                f"--context {target.context}: there is no {own_file}",
                hint="--kubeconfig names another file. The local cluster needs no --context.",
            )
        return _from_files((own_file,), target.context, "--context")
    home = Home.of_user()
    if choice := home.choice():
        return cluster_of_choice(choice, home.choice_files())
    endpoint = in_cluster()
    if endpoint is not None:
        return Cluster(endpoint, "in-cluster", "the service account", local=False)
    if own_file.exists():
        return _from_files((own_file,), None, "~/.kube/config")
    return _running_local_cluster(home, "the local cluster")


def _of_environment(files: tuple[Path, ...], context: str | None) -> Cluster | None:
    """The cluster of $KUBECONFIG's files: of the context, or of the choice among them."""
    home = Home.of_user()
    if not context and home.choice_files() == files:
        return cluster_of_choice(home.choice(), files)
    return _from_files(files, context, "$KUBECONFIG")


def cluster_of_choice(choice: str, files: tuple[Path, ...] = ()) -> Cluster | None:
    """The cluster that `arena use CHOICE` means, in these kubeconfigs or those of kubectl.

    None if the local cluster is down; ConfigError if the kubeconfig cannot be used.
    """
    if choice not in ("local", "kube") and not choice.startswith("kube:"):
        raise UsageError(f"{choice!r} is not a choice: write local, kube or kube:CONTEXT")
    if choice == "local":
        # If the local cluster is down, there is no cluster: using another would be a surprise.
        return _running_local_cluster(
            Home.of_user(), "arena up or arena use"
        )  # both store the choice
    try:
        context = choice.partition(":")[2] or None
        return _from_files(files or kube_config.default_files(), context, "arena use")
    except ConfigError as error:
        hint = "`arena use local` chooses the local cluster, `arena use kube:CONTEXT` another."
        raise ConfigError(f"arena use {choice}: {error}", hint=hint) from None


def choose(choice: str) -> None:
    """Store a choice for later commands; an unusable one is an error and is not stored."""
    cluster_of_choice(choice)
    Home.of_user().choose(choice, () if choice == "local" else _environment_files())


def _environment_files() -> tuple[Path, ...]:
    """The files of $KUBECONFIG; none if it is not set."""
    if not os.environ.get("KUBECONFIG"):
        return ()
    return tuple(path.absolute() for path in kube_config.default_files())


def start_cluster(target: Target, notify: Notify) -> Cluster:
    """The local cluster, started because no cluster is configured."""
    if os.environ.get("CI"):
        raise no_cluster(hint="In CI the local cluster is not started by itself.")
    import shlex  # not for every command

    from muster.client.daemon_start import start  # imports subprocess

    home = Home.of_user()
    if home.absence().state == "killed":
        notify(f"{no_cluster(home)}: starting it again (`arena down` stops it)")
        flags = shlex.split(home.last_flags())  # other nodes, or other data, would lose its jobs
    else:
        notify("no cluster is configured: using a local cluster here (`arena down` stops it)")
        flags = []
    _started.append(start(flags, notify))
    started = _running_local_cluster(home, "the local cluster")
    if started is None:
        raise no_cluster()  # it was stopped at once
    return msgspec.structs.replace(started, request_log=target.request_log)


def _running_local_cluster(home: Home, source: str) -> Cluster | None:
    """The local cluster of this home; None if it is down."""
    if home.status() is None:
        return None
    endpoint = kube_config.load(home.trusted_kubeconfig())
    own = None if home == Home.of_user() else home
    return Cluster(endpoint, "local", source, local=True, home=own)


def _from_files(files: tuple[Path, ...], context: str | None, source: str) -> Cluster:
    endpoint = kube_config.load_files(files, context)
    home = Home.of_user()
    own = files == (home.kubeconfig,)
    if own and home.was_killed():
        raise no_cluster(home)
    # Compare the address too: $KUBECONFIG may name a copy of the local cluster's file.
    local = own or (home.status() or {}).get("url") == endpoint.url
    return Cluster(endpoint, "local" if local else endpoint.name, source, local=local)


def user_name(client: BlockingClient) -> str:
    """The user's name on the server."""
    review = client.create(SELF_SUBJECT_REVIEWS, {})
    return str(((review.get("status") or {}).get("userInfo") or {}).get("username") or "")


def may(client: BlockingClient, right: Right, namespace: str = "") -> bool:
    """Whether the user has a right in a namespace; without one, everywhere."""
    spec = {"resourceAttributes": right.attributes(namespace)}
    review = client.create(SELF_SUBJECT_ACCESS_REVIEWS, {"spec": spec})
    return bool((review.get("status") or {}).get("allowed"))


def may_do_everything(client: BlockingClient) -> bool:
    """Whether the user may use every verb on every resource."""
    from kubekit.rights import Right  # not for every command

    return may(client, Right("*", "*", "*"))
