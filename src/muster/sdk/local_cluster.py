"""A local cluster for one program: its own home, free ports, and nothing left afterwards.

The daemon is that of `arena up`, in another process. Its standard input is a pipe that this program
holds: when the program ends in whatever way, the pipe ends, and the daemon stops its pods and
deletes its home. So even `kill -9` leaves nothing behind.
"""

from __future__ import annotations

import os
import re
import secrets
import tempfile
from abc import ABC, abstractmethod
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypedDict, Unpack

from kubekit.errors import UsageError, no_such
from kubekit.objects.kinds import NAMESPACES
from kubekit.objects.meta import Key
from kubekit.request_errors import NotFound
from muster import local_daemon
from muster.client import daemon_start
from muster.client.home import Home
from muster.client.target import Target
from muster.sdk import calls, note
from muster.sdk.cluster_choice import default_cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from subprocess import Popen

    from muster.sdk.flag_types import RunArguments, SubmitArguments
    from muster.sdk.job import Job


class LocalClusterSettings(TypedDict, total=False):
    """The options of `arena up`."""

    nodes: int
    gpus_per_node: int
    cpus_per_node: int
    memory_per_node: str
    port: int
    runtime: Literal["auto", "namespaces", "plain"]
    python: str | Path
    isolated: bool
    dashboard: bool
    """Also serve the dashboard; off by default."""


class ClusterAddress(ABC):
    """Where a local cluster is, and how other programs use it."""

    @property
    @abstractmethod
    def home(self) -> Home:
        """Where the cluster keeps its state."""

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig for kubectl and for the clients of other languages."""
        return self.home.kubeconfig

    @property
    def url(self) -> str:
        """The address of the Kubernetes API."""
        return str((self.home.status() or {}).get("url", ""))

    @property
    def environment(self) -> dict[str, str]:
        """The variables with which commands (arena, kubectl) use this cluster."""
        return {"MUSTER_HOME": str(self.home.root), "KUBECONFIG": str(self.kubeconfig)}


class LocalCluster(ClusterAddress):
    """A local cluster that lives as long as the `with` block, or from `start` to `stop`."""

    def __init__(self, settings: LocalClusterSettings) -> None:
        unknown = settings.keys() - LocalClusterSettings.__annotations__.keys()
        if unknown:
            known = LocalClusterSettings.__annotations__
            raise UsageError(f"local_cluster() has {no_such('argument', min(unknown), known)}")
        self._settings = settings
        self._home: Home | None = None
        self._daemon: Popen[bytes] | None = None
        self._lifeline = -1
        self._default = ExitStack()

    @property
    def home(self) -> Home:
        """Where the cluster keeps its state."""
        if self._home is None:
            raise UsageError("the local cluster is not running", hint="Use it in a `with` block.")
        return self._home

    def start(self) -> Self:
        """Start the cluster and wait until it is ready; `stop` must follow.

        >>> cluster = muster.local_cluster().start()
        >>> cluster.submit("tf", "true", name="doc-start").wait().status()
        'SUCCEEDED'
        >>> cluster.stop()
        """
        if self._home is not None:
            raise UsageError("the local cluster is started already")
        home = Home(Path(tempfile.mkdtemp(prefix="muster-cluster-")))
        read_end, self._lifeline = os.pipe()
        try:
            self._daemon = daemon_start.start(
                _flags(self._settings), note, home=home, lifeline=read_end
            )
        except BaseException as error:
            os.close(self._lifeline)
            local_daemon.remove_home(home)
            if isinstance(error, UsageError):
                raise _about_arguments(error) from None
            raise
        finally:
            os.close(read_end)
        self._home = home
        return self

    def stop(self) -> None:
        """Stop the pods at once, stop the cluster, and delete its files."""
        home, self._home = self.home, None
        try:
            _outside_event_loop(lambda: local_daemon.stop(note, now=True, home=home))
        finally:
            os.close(self._lifeline)
            if self._daemon is not None:
                self._daemon.wait(daemon_start.STOP_TIMEOUT)  # so that no zombie stays
            local_daemon.remove_home(home)

    def __enter__(self) -> Self:
        self.start()
        self._default.enter_context(default_cluster(self.home))
        return self

    def __exit__(self, *_: object) -> None:
        self._default.close()
        self.stop()

    def __repr__(self) -> str:
        return f"<LocalCluster {self.url if self._home else 'not running'}>"

    def submit(
        self, kind: str, command: str | Sequence[str], **arguments: Unpack[SubmitArguments]
    ) -> Job:
        """`muster.submit` on this cluster."""
        arguments["cluster"] = self
        return calls.submit(kind, command, **arguments)

    def run(
        self,
        function: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        **arguments: Unpack[RunArguments],
    ) -> Job:
        """`muster.run` on this cluster."""
        from muster.sdk.functions.run import run

        arguments["cluster"] = self
        return run(function, args, kwargs, **arguments)

    @contextmanager
    def new_namespace(self) -> Iterator[str]:
        """A namespace for a `with` block, deleted afterwards with everything in it.

        >>> with muster.local_cluster() as cluster, cluster.new_namespace() as name:
        ...     job = cluster.submit("tf", "true", name="doc-namespace", namespace=name)
        ...     job.namespace == name
        True
        """
        name = f"test-{secrets.token_hex(4)}"
        target = Target(home=self.home)
        try:
            with target.cluster().connect() as client:
                client.create(NAMESPACES, {"metadata": {"name": name}})
            yield name
        finally:
            with target.cluster().connect() as client, suppress(NotFound):
                client.delete(NAMESPACES, Key("", name))

    def get_job(self, name: str, type: str = "", *, namespace: str = "") -> Job:
        """`muster.get_job` on this cluster."""
        return calls.get_job(name, type, namespace=namespace, cluster=self)

    def list_jobs(self, type: str = "", *, namespace: str = "", labels: str = "") -> list[Job]:
        """`muster.list_jobs` on this cluster."""
        return calls.list_jobs(type, labels=labels, namespace=namespace, cluster=self)


def local_cluster(**settings: Unpack[LocalClusterSettings]) -> LocalCluster:
    """A local cluster for a `with` block: the default cluster inside it, and gone afterwards.

    >>> with muster.local_cluster(nodes=4, gpus_per_node=2) as cluster:
    ...     job = cluster.submit("tf", "true", name="doc-cluster", workers=8, gpus=1, gang=True)
    ...     job.wait(timeout="1m").status()
    'SUCCEEDED'
    """
    return LocalCluster(settings)


def _flags(settings: LocalClusterSettings) -> list[str]:
    """The settings as words of `arena up`."""
    flags = ["--temporary", f"--port={settings.get('port', 0)}"]
    if not settings.get("dashboard"):
        flags.append("--no-dashboard")
    if settings.get("isolated"):
        flags.append("--isolated")
    for name, value in settings.items():
        if name not in ("port", "dashboard", "isolated") and value is not None:
            flags.append(f"--{name.replace('_', '-')}={value}")
    return flags


def _about_arguments(error: UsageError) -> UsageError:
    """The error about a flag of `arena up` as one about the argument of the same name."""
    text = re.sub(r"--([a-z][a-z-]+)", lambda flag: flag[1].replace("-", "_"), str(error))
    return UsageError(f"local_cluster(): {text}", hint=error.hint)


def _outside_event_loop(call: Callable[[], None]) -> None:
    """Make a call that may run an event loop, even where one is running."""
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        call()
        return
    with ThreadPoolExecutor(1) as thread:
        thread.submit(call).result()
