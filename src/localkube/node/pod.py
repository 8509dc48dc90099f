"""A pod as the node reads it: only the fields that are needed to run it.

The scheduler decodes other fields (`core.Pod`). With thousands of pods, the scheduler should not
pay for environment and volumes, nor the node for affinity.

Volumes that this node cannot mount are read too, so that the pod's status can name them: an empty
directory in their place would look like the real volume, and files written to it would be lost.
"""

from __future__ import annotations

import msgspec

from kubekit.errors import MusterError
from kubekit.objects import core
from kubekit.objects.core import PvcSource, Quantity  # noqa: TC001 - read when volumes are decoded
from kubekit.objects.enforced_limits import EVICTED
from kubekit.objects.kinds import PODS
from kubekit.objects.meta import Object, ObjectMeta, Raw

Port = int | str
"""A number, or the name of one of the container's ports."""
DEFAULT_GRACE = 30
"""Seconds between SIGTERM and SIGKILL of a pod that does not name them."""
Unsupported = Raw | None
"""The source of a volume that this node cannot mount."""


class MissingReference(MusterError):
    """A pod refers to an object, a key or a path that does not exist (yet)."""


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


class FieldRef(Object, frozen=True):
    field_path: str = ""


class ResourceRef(Object, frozen=True):
    container_name: str = ""
    resource: str = ""
    divisor: Quantity = "0"


class ObjectRef(Object, frozen=True):
    """A ConfigMap or Secret in the pod's namespace."""

    name: str = ""
    optional: bool = False

    @property
    def object_name(self) -> str:
        return self.name


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


class KeyPath(Object, frozen=True):
    key: str = ""
    path: str = ""
    mode: int | None = None


class ConfigMapFiles(ObjectRef, frozen=True):
    items: tuple[KeyPath, ...] = ()
    default_mode: int = 0o644


class SecretFiles(ConfigMapFiles, frozen=True):
    """`secretName` names the Secret of a volume, `name` that of a projected source."""

    secret_name: str = ""

    @property
    def object_name(self) -> str:
        return self.secret_name or self.name


class DownwardFile(Object, frozen=True):
    path: str = ""
    mode: int | None = None
    field_ref: FieldRef | None = None
    resource_field_ref: ResourceRef | None = None


class DownwardFiles(Object, frozen=True):
    items: tuple[DownwardFile, ...] = ()
    default_mode: int = 0o644


class ServiceAccountToken(Object, frozen=True):
    """A file with a token of the pod's service account."""

    path: str = ""
    audience: str = ""
    expiration_seconds: int = 3600


class FileSource(Object, frozen=True):
    """The API objects and pod fields that a volume shows as files."""

    config_map: ConfigMapFiles | None = None
    secret: SecretFiles | None = None
    downward_api: DownwardFiles | None = None


class ProjectedSource(FileSource, frozen=True):
    """One part of a projected volume."""

    service_account_token: ServiceAccountToken | None = None
    cluster_trust_bundle: Unsupported = None
    pod_certificate: Unsupported = None


class ProjectedFiles(Object, frozen=True):
    sources: tuple[ProjectedSource, ...] = ()
    default_mode: int = 0o644


class EmptyDir(Object, frozen=True):
    medium: str = ""
    size_limit: Quantity | None = None


class HostPath(Object, frozen=True):
    path: str = ""
    type: str = ""


class Volume(FileSource, frozen=True):
    name: str = ""
    empty_dir: EmptyDir | None = None
    host_path: HostPath | None = None
    projected: ProjectedFiles | None = None
    persistent_volume_claim: PvcSource | None = None
    aws_elastic_block_store: Unsupported = None
    azure_disk: Unsupported = None
    azure_file: Unsupported = None
    cephfs: Unsupported = None
    cinder: Unsupported = None
    csi: Unsupported = None
    ephemeral: Unsupported = None
    fc: Unsupported = None
    flex_volume: Unsupported = None
    flocker: Unsupported = None
    gce_persistent_disk: Unsupported = None
    git_repo: Unsupported = None
    glusterfs: Unsupported = None
    image: Unsupported = None
    iscsi: Unsupported = None
    nfs: Unsupported = None
    photon_persistent_disk: Unsupported = None
    portworx_volume: Unsupported = None
    quobyte: Unsupported = None
    rbd: Unsupported = None
    scale_io: Unsupported = None
    storageos: Unsupported = None
    vsphere_volume: Unsupported = None

    @property
    def file_sources(self) -> tuple[FileSource, ...]:
        """The volume's own sources, and the parts of a projected volume."""
        return (self, *(self.projected.sources if self.projected is not None else ()))


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


def unsupported_kind(source: FileSource) -> str:
    """The name of an unsupported source in the volume; empty if there is none."""
    for field in msgspec.structs.fields(source):
        if field.type == Unsupported and getattr(source, field.name) is not None:
            return field.encode_name
    return ""
