"""Creating a job and what comes with it: all of it, or nothing.

The server first says of everything besides the job whether it would take it, so that nothing trains
unless all is accepted. Then the job comes first, since the rest belongs to it: whatever happens to
us in between, deleting the job takes everything away. Leaving the block early, by an error or
Ctrl-C, takes back what was made, also where the answer never came: everything carries a mark of
this submission, and nothing without it is ever deleted.
"""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from muster.api.kinds import CONFIG_MAPS, SERVICES, Kind
from muster.api.meta import Key, Raw
from muster.cli.output import called, note, structured
from muster.cli.resources import Resources
from muster.cli.send import Order
from muster.cli.submit.interrupts import Interrupts
from muster.errors import AlreadyExists, ApiError, MusterError, NotFound, ServerError, UsageError
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
MARK = "muster.dev/submission"
"""The annotation by which a submission knows its own objects."""
LOOKS, BETWEEN = 10, 0.1
"""How often, and how many seconds apart, to look for what was sent and never answered."""


@dataclass
class Written:
    """An object that was sent. Its UID is empty until the server has answered."""

    kind: Kind[Any]
    key: Key
    uid: str = ""


class Transaction:
    """What has been created so far."""

    def __init__(self, client: BlockingClient, namespace: str, *, dry: bool = False) -> None:
        self.job: Raw = {}
        self.extras: list[Raw] = []
        self._client = client
        self._namespace = namespace
        self._order = Order("create", (), dry_run="server" if dry else "none")
        self._mark = secrets.token_hex(8)
        self._undo: list[Written] = []
        self._interrupts = Interrupts()

    def __enter__(self) -> Self:
        self._interrupts.__enter__()
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        interrupts = self._interrupts
        interrupts.deaf = True
        stopped = isinstance(error, KeyboardInterrupt) or (error is None and interrupts.heard)
        try:
            if error is not None or stopped:
                left = self._take_back()
            if stopped:
                rest = ", ".join(f"{one.kind.kind.lower()}/{one.key.name}" for one in left)
                note(f"interrupted: {f'left behind: {rest}' if rest else 'nothing was submitted'}")
                raise KeyboardInterrupt
        finally:
            interrupts.__exit__()

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
        if self._order.dry_run != "none":
            return self._send(kind, body, self._order)
        metadata = body["metadata"]
        marked = {**(metadata.get("annotations") or {}), MARK: self._mark}
        body = {**body, "metadata": {**metadata, "annotations": marked}}
        # Noted before it is sent: whatever becomes of the answer, the object may be there.
        written = Written(kind, Key(self._namespace, metadata["name"]))
        self._undo.append(written)
        try:
            made = self._send(kind, body, self._order)
        except ApiError as error:
            if not isinstance(error, ServerError):
                self._undo.remove(written)  # refused: what has that name is somebody else's
            raise
        written.uid = made["metadata"]["uid"]
        return made

    def _send(self, kind: Kind[Any], body: Raw, order: Order) -> Raw:
        self._interrupts.heed()
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

    def _take_back(self) -> list[Written]:
        """Delete what was made, the last first; what could not be deleted is told and returned."""
        self._client.close()  # an interrupted call leaves half an answer on the connection
        left = []
        while self._undo:
            written = self._undo.pop()
            try:
                if uid := written.uid or self._look_for(written):
                    self._client.delete(
                        written.kind, written.key, uid=uid, propagation="Background"
                    )
            except NotFound:
                continue
            except MusterError as error:
                note(f"could not take back {written.kind.kind.lower()}/{written.key.name}: {error}")
                left.append(written)
        return left

    def _look_for(self, written: Written) -> str:
        """The UID of what was sent and never answered, if it is there and ours.

        The server may still be at it, so one look that finds nothing is not enough.
        """
        for _ in range(LOOKS):
            try:
                found = self._client.get(written.kind.read_as(dict), written.key)["metadata"]
            except NotFound:
                time.sleep(BETWEEN)
                continue
            mine = (found.get("annotations") or {}).get(MARK) == self._mark
            return str(found["uid"]) if mine else ""
        return ""


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
