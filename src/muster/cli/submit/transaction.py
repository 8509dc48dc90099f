"""Creating a job and what comes with it: all of it, or nothing.

The server first says of everything besides the job whether it would take it, so that nothing trains
unless all is accepted. Then the job comes first, since the rest belongs to it: whatever happens to
us in between, deleting the job takes everything away. Leaving the block early, by an error or
Ctrl-C, takes back what was made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from muster.api.kinds import CONFIG_MAPS, SERVICES, Kind
from muster.api.meta import Key, Raw
from muster.cli.output import called, note, structured
from muster.cli.resources import Resources
from muster.cli.send import Order
from muster.errors import AlreadyExists, ApiError, MusterError, NotFound, UsageError
from muster.jobs.shapes import SHAPES
from muster.kube import request

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from muster.jobs.build import Bundle
    from muster.kube.blocking import BlockingClient

DEPLOYMENTS: Kind[Raw] = Kind("apps", "v1", "deployments", "Deployment", dict)
COMPANIONS: dict[str, Kind[Any]] = {
    "ConfigMap": CONFIG_MAPS,
    "Service": SERVICES,
    "Deployment": DEPLOYMENTS,
}
"""What can come with a job."""

REHEARSAL = Order("create", (), dry_run="server")


class Transaction:
    """What has been created so far."""

    def __init__(self, client: BlockingClient, namespace: str, *, dry: bool = False) -> None:
        self.job: Raw = {}
        self.extras: list[Raw] = []
        self._client = client
        self._namespace = namespace
        self._order = Order("create", (), dry_run="server" if dry else "none")
        self._undo: list[tuple[Kind[Any], Key, str]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self._take_back()

    def submit(self, bundle: Bundle) -> None:
        """Create everything, beginning with what records the submission."""
        job = bundle.job
        name = job["metadata"]["name"]
        extras = (record(job), *bundle.extras)
        kind = self._job_kind(job)
        self._refuse_taken(kind, name, extras[0]["metadata"]["name"])
        for item in extras:
            self._rehearse(item)
        try:
            self.job = self._create(kind, job)
        except AlreadyExists:
            raise _taken(name) from None
        for item in extras:
            self.extras.append(self._create(COMPANIONS[item["kind"]], self._owned(item)))

    def _rehearse(self, item: Raw) -> None:
        """Let the server refuse now what it would refuse when the job runs already."""
        try:
            self._send(COMPANIONS[item["kind"]], item, REHEARSAL)
        except AlreadyExists as error:
            error.hint = (
                "Nothing was created. Choose another --name, or, if it is not needed: "
                f"kubectl delete -n {self._namespace} {called(item)}"
            )
            raise
        except ApiError as error:
            error.hint = f"Nothing was created: {called(item)} goes with the job."
            raise

    def _job_kind(self, job: Raw) -> Kind[Raw]:
        resource = SHAPES[job["kind"]].resource
        if job["apiVersion"] == resource.api_version:
            return resource
        return Resources(self._client).find(job["apiVersion"], job["kind"])

    def _refuse_taken(self, kind: Kind[Raw], name: str, record: str) -> None:
        if self._exists(kind, name):
            raise _taken(name)
        if self._exists(CONFIG_MAPS, record):
            raise UsageError(
                f"the job configmap {record} is already exist, please delete it first",
                hint=f"`arena delete {name}` does that, also where the job itself is gone.",
            )

    def _exists(self, kind: Kind[Any], name: str) -> bool:
        try:
            self._client.get(kind.read_as(dict), Key(self._namespace, name))
        except NotFound:
            return False
        return True

    def _create(self, kind: Kind[Any], body: Raw) -> Raw:
        made = self._send(kind, body, self._order)
        if self._order.dry_run == "none":
            metadata = made["metadata"]
            self._undo.append((kind, Key(self._namespace, metadata["name"]), metadata["uid"]))
        return made

    def _send(self, kind: Kind[Any], body: Raw, order: Order) -> Raw:
        ask = request.create(kind, body, namespace=self._namespace)
        made: Raw = msgspec.json.decode(self._client.send(order.asked(ask)).body, type=dict)
        return {"apiVersion": body["apiVersion"], "kind": body["kind"], **made}

    def _owned(self, item: Raw) -> Raw:
        """The object as the job's, so that it goes when the job goes."""
        job = self.job["metadata"]
        owner = {
            "apiVersion": SHAPES[self.job["kind"]].resource.api_version,
            "kind": self.job["kind"],
            "name": job["name"],
            "uid": job["uid"],
        }
        return {**item, "metadata": {**item["metadata"], "ownerReferences": [owner]}}

    def _take_back(self) -> None:
        while self._undo:
            kind, key, uid = self._undo.pop()
            try:
                self._client.delete(kind, key, uid=uid, propagation="Background")
            except NotFound:
                continue
            except MusterError as error:
                note(f"could not take back {kind.kind.lower()}/{key.name}: {error}")


def _taken(name: str) -> UsageError:
    return UsageError(
        f"the job {name} is already exist, please delete it first. use 'arena delete {name}'"
    )


def record(job: Raw) -> Raw:
    """What was submitted, as arena records it."""
    kept = {key: job[key] for key in ("apiVersion", "kind", "spec")}
    name = f"{job['metadata']['name']}-{job['kind'].lower()}"
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"createdBy": "arena"}},
        "data": {"app": called(job), "values": structured(kept, "yaml")},
    }
