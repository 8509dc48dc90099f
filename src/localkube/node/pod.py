"""A pod as the node reads it: only the fields that are needed to run it.

The scheduler decodes other fields (`core.Pod`). With thousands of pods, the scheduler should not
pay for environment and volumes, nor the node for affinity.
"""

from __future__ import annotations

from kubekit.objects import core
from kubekit.objects.kinds import PODS
from kubekit.objects.limits import EVICTED
from kubekit.objects.meta import Object, ObjectMeta
from localkube.node.volumes.volume_sources import (
    FieldRef,
    ObjectRef,
    ResourceRef,
    Volume,
)

Port = int | str
"""A number, or the name of one of the container's ports."""
DEFAULT_GRACE = 30
"""Seconds between SIGTERM and SIGKILL of a pod that does not name them."""


class Exec(Object, frozen=True):
    command: tuple[str, ...] = ()


class Header(Object, frozen=True):
    name: str = ""
    value: str = ""


class HttpGet(Object, frozen=True):
    port: Port = 0
    path: str = "/"
    host: str = ""
    scheme: str = "HTTP"
    http_headers: tuple[Header, ...] = ()


class TcpSocket(Object, frozen=True):
    port: Port = 0
    host: str = ""


class Sleep(Object, frozen=True):
    seconds: float = 0


class Handler(Object, frozen=True):
    """One of these is set. For gRPC only the port is checked, not the health service."""

    exec: Exec | None = None
    http_get: HttpGet | None = None
    tcp_socket: TcpSocket | None = None
    grpc: TcpSocket | None = None
    sleep: Sleep | None = None


class Probe(Handler, frozen=True):
    """A handler that runs periodically, and how many equal results in a row change the state."""

    initial_delay_seconds: float = 0
    timeout_seconds: float = 1
    period_seconds: float = 10
    success_threshold: int = 1
    failure_threshold: int = 3
    termination_grace_period_seconds: int | None = None


class Lifecycle(Object, frozen=True):
    post_start: Handler | None = None
    pre_stop: Handler | None = None


class KeyRef(ObjectRef, frozen=True):
    """One key of a ConfigMap or Secret."""

    key: str = ""


class EnvSource(Object, frozen=True):
    field_ref: FieldRef | None = None
    resource_field_ref: ResourceRef | None = None
    config_map_key_ref: KeyRef | None = None
    secret_key_ref: KeyRef | None = None


class EnvVar(Object, frozen=True):
    name: str = ""
    value: str = ""
    value_from: EnvSource | None = None


class EnvFrom(Object, frozen=True):
    prefix: str = ""
    config_map_ref: ObjectRef | None = None
    secret_ref: ObjectRef | None = None


class VolumeMount(Object, frozen=True):
    name: str = ""
    mount_path: str = ""
    sub_path: str = ""
    sub_path_expr: str = ""
    read_only: bool = False


class SecurityContext(Object, frozen=True):
    run_as_user: int | None = None


class Container(core.Container, frozen=True):
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str = ""
    env: tuple[EnvVar, ...] = ()
    env_from: tuple[EnvFrom, ...] = ()
    volume_mounts: tuple[VolumeMount, ...] = ()
    stdin: bool = False
    stdin_once: bool = False
    tty: bool = False
    startup_probe: Probe | None = None
    readiness_probe: Probe | None = None
    liveness_probe: Probe | None = None
    lifecycle: Lifecycle | None = None
    security_context: SecurityContext | None = None
    termination_message_path: str = "/dev/termination-log"
    termination_message_policy: str = "File"


class HostAlias(Object, frozen=True):
    ip: str = ""
    hostnames: tuple[str, ...] = ()


class PodSpec(Object, frozen=True):
    node_name: str = ""
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    ephemeral_containers: tuple[Container, ...] = ()
    volumes: tuple[Volume, ...] = ()
    restart_policy: str = "Always"
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None
    host_network: bool = False
    enable_service_links: bool = True
    host_aliases: tuple[HostAlias, ...] = ()
    hostname: str = ""
    subdomain: str = ""
    service_account_name: str = ""
    automount_service_account_token: bool | None = None
    security_context: SecurityContext | None = None


class Pod(Object, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: core.PodStatus = core.PodStatus()

    @property
    def finished(self) -> bool:
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def evicted(self) -> bool:
        return self.finished and self.status.reason == EVICTED

    @property
    def all_containers(self) -> tuple[Container, ...]:
        """Init containers, then the ordinary ones."""
        return (*self.spec.init_containers, *self.spec.containers)

    @property
    def with_ephemeral(self) -> tuple[Container, ...]:
        """All containers, and those that `kubectl debug` added to the running pod."""
        return (*self.all_containers, *self.spec.ephemeral_containers)

    @property
    def terminating(self) -> bool:
        return self.metadata.deletion_timestamp is not None

    @property
    def grace(self) -> int:
        """Seconds between SIGTERM and SIGKILL."""
        seconds = self.spec.termination_grace_period_seconds
        return DEFAULT_GRACE if seconds is None else seconds

    @property
    def hostname(self) -> str:
        # Linux allows 64 bytes; Kubernetes cuts a longer pod name at 63, the limit of DNS.
        return (self.spec.hostname or self.metadata.name)[:63].rstrip("-.")


PODS_TO_RUN = PODS.read_as(Pod)


def is_sidecar_container(container: Container) -> bool:
    """Whether this is an init container that keeps running while the pod runs."""
    return container.restart_policy == "Always"
