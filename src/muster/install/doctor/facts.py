"""What the checks know: the state of a cluster, read once.

A list that the user may not read is empty, and `unread` names it; the checks that need it then find
nothing, and a warning says so.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from kubekit.client.request import Request
from kubekit.objects.kinds import CONFIG_MAPS, CRDS, DEPLOYMENTS, LEASES, NODES, PODS
from kubekit.objects.meta import Key, Raw, mapping
from kubekit.request_errors import ApiError, Forbidden, NotFound
from kubekit.rights import MissingRight, Right, Rule, account_name
from muster.contract import waiting_line_format
from muster.contract.crds import PART_OF
from muster.contract.gang_dialects import DIALECT_BY_NAME, DIALECTS, gang_named_by, single_pod_gang
from muster.contract.job_kinds import JOB_KINDS
from muster.contract.other_schedulers import is_alive
from muster.contract.scheduler_rights import LEASE, NAMES
from muster.contract.unserved_fields import Unserved, of_gang, of_job, told_once
from muster.install.existing_objects import Reader, seconds_ahead, words_for
from muster.install.objects.values import COMPONENTS
from muster.jobs.quota_line import Standing, standing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kubekit.client.blocking_client import BlockingClient
    from kubekit.objects.core import Lease, Node, Pod
    from kubekit.objects.kinds import Kind

PENDING = "spec.nodeName=,status.phase=Pending"
LIVING = "spec.schedulerName={},status.phase!=Succeeded,status.phase!=Failed"
LINE = Key(waiting_line_format.NAMESPACE, waiting_line_format.CONFIG_MAP)


class Component(msgspec.Struct, frozen=True):
    """A component that is installed as a Deployment."""

    name: str
    deployment: Raw
    pods: list[Raw]

    @property
    def key(self) -> Key:
        meta = self.deployment["metadata"]
        return Key(meta["namespace"], meta["name"])

    @property
    def image(self) -> str:
        return str(self._container.get("image", ""))

    @property
    def account(self) -> str:
        """Its user name on the cluster."""
        spec = self.deployment["spec"]["template"]["spec"]
        name = spec.get("serviceAccountName", "default")
        return f"system:serviceaccount:{self.key.namespace}:{name}"

    def argument(self, flag: str) -> list[str]:
        """The values of a flag of its command line."""
        words = [str(word) for word in self._container.get("args") or []]
        return [word.partition("=")[2] for word in words if word.startswith(f"{flag}=")]

    @property
    def served_namespace(self) -> str:
        """The one namespace that it serves; empty: all."""
        return next(iter(self.argument("--namespace")), "")

    @property
    def _container(self) -> Raw:
        containers = self.deployment["spec"]["template"]["spec"]["containers"]
        row: Raw = containers[0]
        return row


class BrokenRole(msgspec.Struct, frozen=True):
    """A role or a binding that is gone or names nobody, and the rights that it should give."""

    problem: str
    rights: frozenset[Right] = frozenset()


class Facts(msgspec.Struct, frozen=True):
    """The state of a cluster."""

    local: bool
    now: datetime
    """By the clock of this machine."""
    skew: float
    """Seconds by which this machine's clock is ahead of the server's."""
    version: str
    failed_checks: dict[str, str] = {}
    crds: dict[str, Raw] = {}
    deployments: list[Raw] = []
    components: list[Component] = []
    leases: list[Any] = []
    nodes: list[Any] = []
    pending: list[Any] = []
    groups: dict[str, set[str]] = {}
    """The groups of each resource that the cluster serves, as NAMESPACE/NAME."""
    unserved: dict[str, list[Unserved]] = {}
    """What gangs of Muster's scheduler, as NAMESPACE/NAME, name and it does not serve."""
    line: dict[str, str] = {}
    in_quotas: list[tuple[Standing, str]] = []
    """The jobs that wait for a ResourceQuota, by their place, and why."""
    missing: dict[str, list[Rule]] = {}
    """Rights that are missing, by component as in `name_of` (`you` is the user), as rules."""
    broken_roles: dict[str, list[BrokenRole]] = {}
    """Roles and bindings that give their rights to nobody, by component; `users` have some too."""
    reported: dict[MissingRight, str] = {}
    """Missing rights that components reported by events, and the objects of these events."""
    local_problems: list[str] = []
    """What the daemon of a local cluster says of its machine."""
    unread: list[str] = []
    """Resources that the user may not list, and objects that the user may not get."""

    def is_unread(self, kind: Kind[Any], key: Key | None = None) -> bool:
        """Whether the user may not list objects of a kind, or not get one of them."""
        return words_for(kind, key) in self.unread

    @property
    def server_now(self) -> datetime:
        return self.now - timedelta(seconds=self.skew)

    @property
    def live_names(self) -> set[str]:
        """The names in the live leases of Muster's schedulers, wherever they run."""
        return _live_names(self.leases, self.server_now)

    def name_of(self, component: Component) -> str:
        """The name of a component's account; where several have it, with the namespace."""
        name = account_name(component.account)
        same = [row for row in self.components if account_name(row.account) == name]
        return f"{name} in the namespace {component.key.namespace}" if len(same) > 1 else name


def read(client: BlockingClient, *, local: bool) -> Facts:
    """Everything but rights."""
    reader = Reader(client)
    version, skew = _version(client)
    deployments: list[Raw] = reader.list(DEPLOYMENTS)
    leases: list[Lease] = reader.list(LEASES)
    nodes: list[Node] = reader.list(NODES)
    pending: list[Pod] = reader.list(PODS, fields=PENDING)
    crds = reader.list(CRDS.read_as(dict))
    groups, now = _groups(client), datetime.now(UTC)
    jobs: list[tuple[str, Raw]] = [
        (kind.kind, raw) for kind in JOB_KINDS for raw in reader.list(kind)
    ]
    names = _live_names(leases, now - timedelta(seconds=skew))
    return Facts(
        local=local,
        now=now,
        skew=skew,
        version=version,
        failed_checks=_failed_checks(client),
        crds={crd["metadata"]["name"]: crd for crd in crds},
        deployments=deployments,
        components=[
            found for name in COMPONENTS for found in _component(reader, deployments, name)
        ],
        leases=leases,
        nodes=nodes,
        pending=pending,
        groups={kind.resource: {str(key) for key in found} for kind, found in groups.items()},
        unserved=_unserved(reader, names, groups, jobs),
        line=_line(client, reader),
        in_quotas=_in_quotas(jobs),
        unread=reader.unread,
    )


def _version(client: BlockingClient) -> tuple[str, float]:
    before = datetime.now(UTC)
    response = client.send(Request("GET", "/version"))
    version = str(msgspec.json.decode(response.body).get("gitVersion", ""))
    return version, seconds_ahead(response, before)


def _failed_checks(client: BlockingClient) -> dict[str, str]:
    try:
        return {name: why for name, why in client.ready_checks().items() if why}
    except ApiError:
        return {}


def _component(reader: Reader, deployments: list[Raw], name: str) -> list[Component]:
    """The component, for each Deployment of it: a cluster may have an operator per namespace."""
    found = []
    for row in deployments:
        labels = row["metadata"].get("labels") or {}
        if labels.get("app.kubernetes.io/name") == f"muster-{name}" and PART_OF in labels:
            selector = f"app.kubernetes.io/name=muster-{name}"
            namespace = row["metadata"]["namespace"]
            pods = reader.list(PODS.read_as(dict), namespace, labels=selector)
            found.append(Component(name, row, pods))
    return found


def _live_names(leases: Iterable[Lease], now: datetime) -> set[str]:
    parts = (row.metadata.name.partition(".") for row in leases if is_alive(row, now))
    return {name for prefix, _, name in parts if prefix == LEASE and name}


def _groups(client: BlockingClient) -> dict[Kind[Any], dict[Key, Any]]:
    """The groups of each kind that the cluster serves and the user may list."""
    groups: dict[Kind[Any], dict[Key, Any]] = {}
    for kind in {kind for dialect in DIALECTS for kind in dialect.kinds}:
        try:
            items = client.list(kind).items
        except (NotFound, Forbidden):
            continue
        groups[kind] = {item.metadata.key: item for item in items}
    return groups


def _unserved(
    reader: Reader,
    names: Iterable[str],
    groups: Mapping[Kind[Any], Mapping[Key, Any]],
    all_jobs: Iterable[tuple[str, Raw]],
) -> dict[str, list[Unserved]]:
    """What the gangs of living pods for these schedulers name and Muster does not serve."""
    pods = [pod for name in sorted(names) for pod in reader.list(PODS, fields=LIVING.format(name))]
    gangs: dict[tuple[str, Key], list[Pod]] = {}
    for pod in pods:
        named = gang_named_by(pod) or single_pod_gang(pod)
        gangs.setdefault((named.dialect, Key(named.namespace, named.name)), []).append(pod)
    jobs = _policies(all_jobs)
    found: dict[str, list[Unserved]] = {}
    for (dialect, key), members in sorted(gangs.items()):
        kinds = DIALECT_BY_NAME[dialect].kinds
        group = next((groups[k][key] for k in kinds if key in groups.get(k, ())), None)
        owner = members[0].metadata.controller
        rows = of_job(jobs.get(owner.uid, {}) if owner else {}, dialect, NAMES)
        rows = told_once([*rows, *of_gang(dialect, group, members)])
        name = str(Key(key.namespace, owner.name) if owner and owner.uid in jobs else key)
        if rows and name not in found:
            found[name] = rows
    return found


def _policies(jobs: Iterable[tuple[str, Raw]]) -> dict[str, Raw]:
    """The scheduling policies of jobs that have one, by UID."""
    found: dict[str, Raw] = {}
    for _, raw in jobs:
        policy = mapping(mapping(raw.get("spec")).get("runPolicy")).get("schedulingPolicy")
        if policy := mapping(policy):
            found[raw["metadata"]["uid"]] = policy
    return found


def _line(client: BlockingClient, reader: Reader) -> dict[str, str]:
    try:
        found = client.find(CONFIG_MAPS, LINE)
    except Forbidden:
        reader.unread.append(words_for(CONFIG_MAPS, LINE))
        return {}
    return dict(found.data) if found is not None else {}


def _in_quotas(jobs: Iterable[tuple[str, Raw]]) -> list[tuple[Standing, str]]:
    rows = [
        (row, str(raw["status"]["waiting"].get("message") or ""))
        for kind, raw in jobs
        if (row := standing(kind, raw)) is not None
    ]
    return sorted(rows)
