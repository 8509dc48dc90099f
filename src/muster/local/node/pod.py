"""What a container may be asked: the handlers of probes and of hooks, as the API has them.

Part of `spec`; carried out by `checks`.

A pod as the node reads it: only the fields that running it needs.

Decoded by the agent's informer (`PODS.read_as(Pod)`); read by every other module of the node.
"""

from __future__ import annotations

from datetime import datetime  # noqa: TC003 - msgspec resolves annotations at run time

from muster.api.core import (
    ContainerPort,
    ContainerStatus,
    Quantity,
    ResourceRequirements,
)
from muster.api.kinds import PODS
from muster.api.meta import Condition, Object, ObjectMeta
from muster.local.node.volumes.volume_sources import UnsupportedProjection, UnsupportedVolume

Port = int | str
"""A number, or the name of one of the container's ports."""


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
    """One of these. A gRPC service is only asked whether its port answers."""

    exec: Exec | None = None
    http_get: HttpGet | None = None
    tcp_socket: TcpSocket | None = None
    grpc: TcpSocket | None = None
    sleep: Sleep | None = None


class Probe(Handler, frozen=True):
    """A handler asked again and again, and how often it must agree with itself to be believed."""

    initial_delay_seconds: float = 0
    timeout_seconds: float = 1
    period_seconds: float = 10
    success_threshold: int = 1
    failure_threshold: int = 3
    termination_grace_period_seconds: int | None = None


class Lifecycle(Object, frozen=True):
    post_start: Handler | None = None
    pre_stop: Handler | None = None


_USUAL_GRACE = 30
_CAPITALS = {"pod_ip": "podIP", "downward_api": "downwardAPI"}


def _on_the_wire(name: str) -> str:
    """Camel case, but for the words that Kubernetes writes in capitals."""
    first, *rest = name.split("_")
    return _CAPITALS.get(name) or first + "".join(word.capitalize() for word in rest)


class KeyRef(Object, frozen=True):
    """One key of a ConfigMap or Secret."""

    name: str = ""
    key: str = ""
    optional: bool = False


class FieldRef(Object, frozen=True):
    field_path: str = ""


class ResourceRef(Object, frozen=True):
    container_name: str = ""
    resource: str = ""
    divisor: Quantity = "0"


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
    config_map_ref: KeyRef | None = None
    secret_ref: KeyRef | None = None


class VolumeMount(Object, frozen=True):
    name: str = ""
    mount_path: str = ""
    sub_path: str = ""
    sub_path_expr: str = ""
    read_only: bool = False


class SecurityContext(Object, frozen=True):
    run_as_user: int | None = None


class Container(Object, frozen=True):
    name: str = ""
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str = ""
    env: tuple[EnvVar, ...] = ()
    env_from: tuple[EnvFrom, ...] = ()
    ports: tuple[ContainerPort, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    volume_mounts: tuple[VolumeMount, ...] = ()
    restart_policy: str = ""
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


class KeyPath(Object, frozen=True):
    key: str = ""
    path: str = ""
    mode: int | None = None


class DownwardFile(Object, frozen=True):
    path: str = ""
    mode: int | None = None
    field_ref: FieldRef | None = None
    resource_field_ref: ResourceRef | None = None


class EmptyDir(Object, frozen=True):
    medium: str = ""
    size_limit: Quantity | None = None


class HostPath(Object, frozen=True):
    path: str = ""
    type: str = ""


class ConfigMapFiles(Object, frozen=True):
    name: str = ""
    items: tuple[KeyPath, ...] = ()
    default_mode: int = 0o644
    optional: bool = False


class SecretFiles(Object, frozen=True):
    secret_name: str = ""
    name: str = ""
    items: tuple[KeyPath, ...] = ()
    default_mode: int = 0o644
    optional: bool = False


class DownwardFiles(Object, frozen=True):
    items: tuple[DownwardFile, ...] = ()
    default_mode: int = 0o644


class ServiceAccountToken(Object, frozen=True):
    """A token of the pod's service account, kept fresh in a file."""

    path: str = ""
    audience: str = ""
    expiration_seconds: int = 3600


class ProjectedSource(UnsupportedProjection, frozen=True, rename=_on_the_wire):
    """One part of a projected volume."""

    config_map: ConfigMapFiles | None = None
    secret: SecretFiles | None = None
    downward_api: DownwardFiles | None = None
    service_account_token: ServiceAccountToken | None = None


class ProjectedFiles(Object, frozen=True):
    sources: tuple[ProjectedSource, ...] = ()
    default_mode: int = 0o644


class ClaimSource(Object, frozen=True):
    claim_name: str = ""
    read_only: bool = False


class Volume(UnsupportedVolume, frozen=True, rename=_on_the_wire):
    name: str = ""
    empty_dir: EmptyDir | None = None
    host_path: HostPath | None = None
    config_map: ConfigMapFiles | None = None
    secret: SecretFiles | None = None
    downward_api: DownwardFiles | None = None
    projected: ProjectedFiles | None = None
    persistent_volume_claim: ClaimSource | None = None


class HostAlias(Object, frozen=True):
    ip: str = ""
    hostnames: tuple[str, ...] = ()


class PodSpec(Object, frozen=True):
    node_name: str = ""
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    volumes: tuple[Volume, ...] = ()
    restart_policy: str = "Always"
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None
    host_network: bool = False
    host_aliases: tuple[HostAlias, ...] = ()
    hostname: str = ""
    subdomain: str = ""
    service_account_name: str = ""
    automount_service_account_token: bool | None = None
    security_context: SecurityContext | None = None


class PodStatus(Object, frozen=True, rename=_on_the_wire):
    phase: str = ""
    reason: str = ""
    message: str = ""
    pod_ip: str = ""
    start_time: datetime | None = None
    conditions: tuple[Condition, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(Object, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def finished(self) -> bool:
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def everyone(self) -> tuple[Container, ...]:
        """Init containers, then the ordinary ones."""
        return (*self.spec.init_containers, *self.spec.containers)

    @property
    def grace(self) -> int:
        """Seconds between being asked to end and being killed."""
        given = self.spec.termination_grace_period_seconds
        return _USUAL_GRACE if given is None else given

    @property
    def hostname(self) -> str:
        """What the pod's processes are told that their machine is called."""
        return (self.spec.hostname or self.metadata.name)[:63].rstrip("-.")


PODS_TO_RUN = PODS.read_as(Pod)


def is_sidecar_container(container: Container) -> bool:
    """An init container that is meant to keep running."""
    return container.restart_policy == "Always"
