"""The daemon of the local cluster: `localkube`, the operator, the scheduler and the dashboard.

This is the composition root, the only module of Muster that knows `localkube` and the only one
besides the CLI that combines components; they communicate only through the Kubernetes API, with one
client. `client.daemon_start` starts it as a separate process.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kubekit.errors import MusterError
from muster.client.daemon_start import STOP_TIMEOUT, wait_until
from muster.client.home import Home

if TYPE_CHECKING:
    import asyncio
    import socket
    from asyncio import AbstractEventLoop
    from collections.abc import Awaitable, Callable, Iterator
    from contextlib import AbstractContextManager

    from kubekit.client.client import Client
    from kubekit.objects.meta import Raw
    from localkube.apiserver.store.check import CheckReport as CheckReport
    from localkube.cluster import Cluster, Extensions, Options
    from muster.client import Notify

_DASHBOARD_PORT_FILE = "dashboard-port"
_MODELS_FILE = "models.json"
STOP_NOW = signal.SIGUSR1
"""Tells the daemon to stop without waiting for the pods' grace periods."""
MINIMUM_DESCRIPTORS = 256
"""Descriptors for an idle cluster, its API's clients and a few dozen pods."""
SENSIBLE_DESCRIPTORS = 1024


@dataclass(frozen=True)
class Settings:
    """The options of `arena up`."""

    home: Home
    nodes: int = 1
    gpus_per_node: int | None = None
    cpus_per_node: int | None = None
    memory_per_node: str | None = None
    data_dir: Path | None = None
    port: int | None = None
    python: str | None = None
    runtime: str = "auto"
    isolated: bool = False
    """Whether submitted jobs get private directories; `arena submit` reads it in the status."""
    dashboard: bool = True
    dashboard_port: int | None = None
    flags: str = ""
    """The options that were given, as a command line has them: another start can repeat them."""

    @property
    def data(self) -> Path:
        return (self.data_dir or self.home.data).absolute()

    def held(self) -> AbstractContextManager[None]:
        """Hold the home and the data directory, before anything is read, made or removed.

        From now on all files of this process, and of those that it starts, are private; programs of
        pods get the usual umask again (`spawn`).
        """
        from localkube.data_directory import claimed

        os.umask(0o077)
        return self.home.held(claimed(self.data, self.home.root))

    def options(self) -> Options:
        """The options of the cluster itself."""
        from localkube.cluster import Options

        return Options(
            data=self.data,
            nodes=self.nodes,
            gpus_per_node=self.gpus_per_node,
            cpus_per_node=self.cpus_per_node,
            memory_per_node=self.memory_per_node,
            port=self.port,
            python=self.python,
            runtime=self.runtime,
            images=self.home.images,
            visible=self._visible_directories(),
            hidden=self.home.hidden_directories(str(Path.home()), self.data),
            shared=(str(self.home.logs),),
        )

    def job_directory(self) -> str:
        """The directory of jobs that are submitted in the dashboard, unless they name another."""
        return next(iter(self._visible_directories()), str(Path.home()))

    def _visible_directories(self) -> tuple[str, ...]:
        """The directory where `up` was called, unless it is part of the cluster's state."""
        try:
            current = Path.cwd()
        except FileNotFoundError:  # it was deleted
            return ()
        state = (self.home.root.resolve(), self.data.resolve())
        return () if any(current.is_relative_to(folder) for folder in state) else (str(current),)


# -- checks before and after ---------------------------------------------------------------------


def check_descriptor_limit() -> str:
    """Refuse a hard limit that is too low for any pod; returns a warning about a low one, or ""."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY or hard >= SENSIBLE_DESCRIPTORS:
        return ""
    if hard < MINIMUM_DESCRIPTORS:
        raise MusterError(
            f"the local cluster needs at least {MINIMUM_DESCRIPTORS} descriptors, and this shell "
            f"allows {hard}",
            hint=f"Allow more with `ulimit -n {SENSIBLE_DESCRIPTORS}` (as root), then `arena up`.",
        )
    return (
        f"this shell allows {hard} descriptors, so not many connections and streams can be open; "
        f"`ulimit -n {SENSIBLE_DESCRIPTORS}` (as root) before `arena up` allows more"
    )


def check_database(data: Path) -> CheckReport:
    """What is damaged in the database of a data directory."""
    from localkube.apiserver.store.check import check
    from localkube.data_directory import DATABASE

    return check(data / DATABASE)


def restore_database(data: Path, backup: Path | None) -> tuple[Path, Path]:
    """Use the objects of a backup from now on; returns it and the folder with the files before."""
    from localkube.apiserver.store.check import restore
    from localkube.data_directory import DATABASE

    return restore(data / DATABASE, backup)


# -- running -----------------------------------------------------------------------------------


def extensions(data: Path) -> Extensions:
    """What `localkube` must know of training jobs."""
    from localkube.apiserver.kinds.custom_resources import KnownKinds
    from localkube.cluster import Extensions
    from localkube.node.log_archive import LogOwners
    from localkube.node.machine.python_interpreter import PodPrograms
    from muster.contract import crds, local_cluster_names
    from muster.contract.job_kinds import JOB_KINDS
    from muster.install.objects.roles import user_roles
    from muster.jobs.job_status import ended_at
    from muster.jobs.unknown_fields import unknown_field_paths
    from muster.models.watcher import ModelWatcher

    return Extensions(
        definitions=crds.load_all,
        kinds=KnownKinds(
            unknown_field_paths,
            crds.immutable_fields(),
            tuple(user_roles()),
        ),
        logs=LogOwners(JOB_KINDS, ended_at),
        programs=PodPrograms(
            local_cluster_names.FOLDER,
            local_cluster_names.PYTHON,
            {"tensorboard": "tensorboard.main"},
        ),
        machine_image=local_cluster_names.IMAGE,
        watchers={
            "models": lambda client, folders: ModelWatcher(client, folders, data / _MODELS_FILE).run
        },
    )


async def serve(
    settings: Settings,
    ready: Callable[[str], None],
    on_abandoned: Callable[[], None] | None = None,
) -> None:
    """Run the cluster until a signal, then stop its pods and leave nothing behind.

    SIGHUP stops it too: the terminal of a cluster in the foreground was closed. A second Ctrl-C
    and STOP_NOW do not wait for the pods' grace periods. With `on_abandoned`, the end of standard
    input stops it at once: the process at the other end, which needed the cluster, is gone.
    """
    from localkube.cluster import opened
    from localkube.node.runtime.processes import raise_descriptor_limit

    raise_descriptor_limit()
    # Before the lock is held: a signal that ends this process while it holds the lock looks like a
    # crash to the next command.
    stop, hurry = _handle_signals(on_abandoned)
    with _full_disk_explained(settings.data), settings.held():
        async with opened(settings.options(), extensions(settings.data)) as cluster:
            with _dashboard_listener(settings) as listener:
                home, server = settings.home, cluster.server

                def announce() -> None:
                    home.write_status(url=server.url, **_status(settings, cluster, listener))
                    ready(server.url)

                await cluster.run(
                    lambda client: _components(settings, cluster, client, listener, stop),
                    stop,
                    hurry,
                    prepared=lambda: server.credentials.write_kubeconfig(
                        home.kubeconfig, server.url, "local"
                    ),
                    ready=announce,
                    stopping=home.write_stopping,
                )


def _handle_signals(
    on_abandoned: Callable[[], None] | None,
) -> tuple[asyncio.Event, asyncio.Event]:
    """The events for an orderly stop, and for one that does not wait for the pods."""
    import asyncio

    stop, hurry = asyncio.Event(), asyncio.Event()

    def interrupted() -> None:
        (hurry if stop.is_set() else stop).set()

    def stop_now() -> None:
        stop.set()
        hurry.set()

    handlers = {signal.SIGINT: interrupted, STOP_NOW: stop_now}
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, STOP_NOW):
        if signal.getsignal(number) is not signal.SIG_IGN:  # `nohup arena up &`
            asyncio.get_running_loop().add_signal_handler(number, handlers.get(number, stop.set))
    if on_abandoned is not None:
        _watch_stdin(asyncio.get_running_loop(), on_abandoned, stop_now)
    return stop, hurry


def _watch_stdin(loop: AbstractEventLoop, *callbacks: Callable[[], None]) -> None:
    """Make the calls once, when standard input ends."""
    descriptor = sys.stdin.fileno()

    def read() -> None:
        if not os.read(descriptor, 1024):
            loop.remove_reader(descriptor)
            for callback in callbacks:
                callback()

    loop.add_reader(descriptor, read)


def _components(
    settings: Settings,
    cluster: Cluster,
    client: Client,
    listener: socket.socket | None,
    stop: asyncio.Event,
) -> dict[str, Callable[[], Awaitable[None]]]:
    from kubekit.objects.storage import CSI_NODES
    from muster.contract.scheduler_rights import NAMES
    from muster.operator import daemon as operator
    from muster.operator.decision_types import Settings as JobSettings
    from muster.scheduler import daemon as scheduler
    from muster.web import server as dashboard
    from muster.web.access.gate import Policy, own_users
    from muster.web.access.keys import Keys

    agent, listeners = cluster.agent, cluster.server.listeners
    # Plain pods share the host's network, so replicas need ports at one common address.
    address = agent.gateway if agent.choice.kind == "plain" else ""
    jobs = JobSettings(address=address, pod_scheduler=JobSettings().scheduler)
    names = (*NAMES, "volcano", "scheduler-plugins", "default-scheduler")
    options = scheduler.Options(names, unserved=(CSI_NODES,), one_user=True)
    components: dict[str, Callable[[], Awaitable[None]]] = {
        "operator": lambda: operator.run(client, operator.Options(settings=jobs), stop),
        "scheduler": lambda: scheduler.run(client, options, stop),
    }
    if listener is not None:
        policy = Policy(
            Keys.renew(settings.home.dashboard_keys),
            directory=settings.job_directory(),
            users=own_users(),
        )
        components["dashboard"] = lambda: dashboard.serve(
            listener, cluster.endpoint, policy, listeners.serve, listeners.connect
        )
    return components


def _status(settings: Settings, cluster: Cluster, listener: socket.socket | None) -> Raw:
    """The fields that `arena status` shows."""
    from muster.web import server as dashboard

    return {
        **cluster.status(),
        **({"dashboard": dashboard.url_of(listener)} if listener is not None else {}),
        **({"isolated": True} if settings.isolated else {}),
        **({"flags": settings.flags} if settings.flags else {}),
    }


@contextmanager
def _dashboard_listener(settings: Settings) -> Iterator[socket.socket | None]:
    """The socket of the dashboard; None without one."""
    from localkube.cluster import number_in
    from muster.web import server as dashboard

    if not settings.dashboard:
        yield None
        return
    file = settings.data / _DASHBOARD_PORT_FILE
    with dashboard.listen(settings.dashboard_port, number_in(file)) as listener:
        file.write_text(str(listener.getsockname()[1]))
        yield listener


@contextmanager
def _full_disk_explained(data: Path) -> Iterator[None]:
    """Name the full disk, which otherwise is the error of whatever was written first."""
    from localkube.cluster import is_of_full_disk

    try:
        yield
    except (OSError, BaseExceptionGroup) as error:
        if is_of_full_disk(error):
            raise MusterError(
                f"the disk of {data} is full",
                hint="Free some space on it, then `arena up`; `arena delete` then removes jobs.",
            ) from error
        raise


# -- stopping ----------------------------------------------------------------------------------


def stop(notify: Notify, *, now: bool = False, home: Home | None = None) -> None:
    """Stop the daemon, or the pods of a killed daemon; then restore the former choice.

    `now` does not wait for the pods' grace periods.
    """
    home = home or Home.of_user()
    pid = home.running()
    data = home.last_data()
    if pid is not None:
        _stop(home, pid, notify, now=now)
        _remove_rest(home, data, now=now)
        notify("local cluster is down; `arena up` starts it again, with its unfinished jobs")
    elif home.was_killed():
        _stop_killed(home, notify, now=now)
        _remove_rest(home, data, now=now)
        notify("no local cluster was up; the remains of a killed one are removed")
    else:
        notify("no local cluster was up")
    home.choose_former()


async def sweep(home: Home, data: Path, *, now: bool) -> None:
    """Stop the pods that a killed daemon left, without starting a cluster."""
    from localkube import cluster

    settings = Settings(home, data_dir=data)
    with _full_disk_explained(data), settings.held():
        await cluster.sweep(settings.options(), now=now)


def what_ends(home: Home) -> str:
    """The pods that a stopping cluster waits for, in words; empty if there are none."""
    from localkube.node.runtime.pod_records import read_ending

    ending = read_ending(home.last_data())
    return ending.text if ending.pods else ""


def remove_home(home: Home) -> None:
    """Delete all files of a cluster that is down."""
    from localkube.node.runtime.remove_tree import remove_tree

    remove_tree(home.root)


def _stop_killed(home: Home, notify: Notify, *, now: bool) -> None:
    import asyncio

    from localkube.node.runtime.pod_records import NOTICE_AFTER, read_ending

    async def stop_pods() -> None:
        def notice() -> None:
            notify(read_ending(home.last_data()).text)

        handle = asyncio.get_running_loop().call_later(NOTICE_AFTER, notice)
        await sweep(home, home.last_data(), now=now)
        handle.cancel()

    try:
        asyncio.run(stop_pods())
    except KeyboardInterrupt:
        notify("interrupted: pods of a killed cluster may still run; `arena down` stops them")
        raise


def _remove_rest(home: Home, data: Path, *, now: bool) -> None:
    """Remove what the daemon has left, for instance because it failed; say so if that fails."""
    from localkube.node.machine.teardown import find_leftovers

    if not find_leftovers(data) and not home.was_killed():
        return
    import asyncio

    with suppress(MusterError):  # the look below tells what it means
        asyncio.run(sweep(home, data, now=now))
    if left := find_leftovers(data):
        raise MusterError(
            f"the local cluster has stopped, but this is left of it: {left.text}",
            hint=f"`arena down` tries again. Its log: {home.log}",
        )


def _stop(home: Home, pid: int, notify: Notify, *, now: bool) -> None:
    from localkube.node.runtime.pod_records import read_ending

    def notice() -> None:
        notify(read_ending(home.last_data()).text)

    timeout = STOP_TIMEOUT + read_ending(home.last_data()).grace
    os.kill(pid, STOP_NOW if now else signal.SIGTERM)
    try:
        stopped = wait_until(lambda: not _is_alive(pid), timeout, notice)
    except KeyboardInterrupt:
        notify(
            "interrupted: the local cluster is still stopping; "
            "`arena down` waits for it again, `arena down --now` kills its pods"
        )
        raise
    if not stopped:
        raise MusterError(
            f"the daemon (pid {pid}) did not stop in {timeout:g} s",
            hint=f"Its log: {home.log}",
        )


def _is_alive(pid: int) -> bool:
    """Whether the process runs; a zombie, which waits only for its parent, does not."""
    import psutil

    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
