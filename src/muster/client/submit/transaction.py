"""Creating a job and what comes with it: all of it, or nothing.

The server first says of everything besides the job whether it would take it, so that nothing trains
unless all is accepted. Then the job comes first, since the rest belongs to it: whatever happens to
us in between, deleting the job takes everything away. Leaving the block early, by an error or
Ctrl-C, takes back what was made, also where the answer never came: everything carries a mark of
this submission, and nothing without it is ever deleted.

Ctrl-C and SIGTERM, held back while a request is under way.

Used by `transaction`: a write that is torn apart leaves nobody knowing whether it happened. The
first signal is kept until `heed` is called between two requests; a second one, from somebody who
does not want to wait for the answer, interrupts at once. While `deaf`, none does.
"""

from __future__ import annotations

import secrets
import signal
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from muster.api.kinds import CONFIG_MAPS, DEPLOYMENTS, SERVICES, Kind
from muster.api.meta import Key, Raw, object_name
from muster.cli.show.messages import note
from muster.client.manifests import yaml_writer
from muster.client.manifests.apply import SendOptions
from muster.client.manifests.served_kinds import ServedKinds
from muster.errors import AlreadyExists, ApiError, MusterError, NotFound, ServerError, UsageError
from muster.jobs.job_kinds import JOB_KIND_BY_NAME
from muster.kube import request

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from muster.jobs.submission import Bundle
    from muster.kube.blocking_client import BlockingClient


SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """Whether somebody wants us to stop."""

    def __init__(self) -> None:
        self.heard = False
        self.deaf = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        while self._before:
            signal.signal(*self._before.popitem())

    def heed(self) -> None:
        """Stop here, if somebody wants us to."""
        if self.heard:
            raise KeyboardInterrupt

    def _hear(self, *_: object) -> None:
        again, self.heard = self.heard, True
        if again and not self.deaf:
            raise KeyboardInterrupt


COMPANION_KINDS: dict[str, Kind[Any]] = {
    "ConfigMap": CONFIG_MAPS,
    "Service": SERVICES,
    "Deployment": DEPLOYMENTS,
}
"""What can come with a job."""

SERVER_DRY_RUN = SendOptions("create", (), dry_run="server")
SUBMISSION_ANNOTATION = "muster.dev/submission"
"""The annotation by which a submission knows its own objects."""
LOOKS, BETWEEN = 10, 0.1
"""How often, and how many seconds apart, to look for what was sent and never answered."""


@dataclass
class CreatedObject:
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
        self._order = SendOptions("create", (), dry_run="server" if dry else "none")
        self._mark = secrets.token_hex(8)
        self._undo: list[CreatedObject] = []
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
        extras = (submission_record(job), *bundle.extras)
        kind = self._job_kind(job)
        self._refuse_taken(kind, name, extras[0]["metadata"]["name"])
        for item in extras:
            self._rehearse(item)
        try:
            self.job = self._create(kind, job)
        except AlreadyExists:
            raise _name_taken(name) from None
        for item in extras:
            self.extras.append(self._create(COMPANION_KINDS[item["kind"]], self._owned(item)))

    def _rehearse(self, item: Raw) -> None:
        """Let the server refuse now what it would refuse when the job runs already."""
        try:
            self._send(COMPANION_KINDS[item["kind"]], item, SERVER_DRY_RUN)
        except AlreadyExists as error:
            error.hint = (
                "Nothing was created. Choose another --name, or, if it is not needed: "
                f"kubectl delete -n {self._namespace} {object_name(item)}"
            )
            raise
        except ApiError as error:
            error.hint = f"Nothing was created: {object_name(item)} goes with the job."
            raise

    def _job_kind(self, job: Raw) -> Kind[Raw]:
        resource = JOB_KIND_BY_NAME[job["kind"]].resource
        if job["apiVersion"] == resource.api_version:
            return resource
        return ServedKinds(self._client).find(job["apiVersion"], job["kind"])

    def _refuse_taken(self, kind: Kind[Raw], name: str, record: str) -> None:
        if self._exists(kind, name):
            raise _name_taken(name)
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
        marked = {**(metadata.get("annotations") or {}), SUBMISSION_ANNOTATION: self._mark}
        body = {**body, "metadata": {**metadata, "annotations": marked}}
        # Noted before it is sent: whatever becomes of the answer, the object may be there.
        written = CreatedObject(kind, Key(self._namespace, metadata["name"]))
        self._undo.append(written)
        try:
            made = self._send(kind, body, self._order)
        except ApiError as error:
            if not isinstance(error, ServerError):
                self._undo.remove(written)  # refused: what has that name is somebody else's
            raise
        written.uid = made["metadata"]["uid"]
        return made

    def _send(self, kind: Kind[Any], body: Raw, order: SendOptions) -> Raw:
        self._interrupts.heed()
        ask = request.create(kind, body, namespace=self._namespace)
        made: Raw = msgspec.json.decode(self._client.send(order.asked(ask)).body, type=dict)
        return {"apiVersion": body["apiVersion"], "kind": body["kind"], **made}

    def _owned(self, item: Raw) -> Raw:
        """The object as the job's, so that it goes when the job goes."""
        job = self.job["metadata"]
        owner = {
            "apiVersion": JOB_KIND_BY_NAME[self.job["kind"]].resource.api_version,
            "kind": self.job["kind"],
            "name": job["name"],
            "uid": job["uid"],
        }
        return {**item, "metadata": {**item["metadata"], "ownerReferences": [owner]}}

    def _take_back(self) -> list[CreatedObject]:
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

    def _look_for(self, written: CreatedObject) -> str:
        """The UID of what was sent and never answered, if it is there and ours.

        The server may still be at it, so one look that finds nothing is not enough.
        """
        for _ in range(LOOKS):
            try:
                found = self._client.get(written.kind.read_as(dict), written.key)["metadata"]
            except NotFound:
                time.sleep(BETWEEN)
                continue
            mine = (found.get("annotations") or {}).get(SUBMISSION_ANNOTATION) == self._mark
            return str(found["uid"]) if mine else ""
        return ""


def _name_taken(name: str) -> UsageError:
    return UsageError(
        f"the job {name} is already exist, please delete it first. use 'arena delete {name}'"
    )


def submission_record(job: Raw) -> Raw:
    """What was submitted, as arena records it."""
    kept = {key: job[key] for key in ("apiVersion", "kind", "spec")}
    name = f"{job['metadata']['name']}-{job['kind'].lower()}"
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"createdBy": "arena"}},
        "data": {"app": object_name(job), "values": yaml_writer.dump(kept)},
    }
