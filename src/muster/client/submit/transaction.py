"""Creating a job and its companions: all of them, or nothing.

The server first checks every companion in a dry run: a job must not start and then lack its
companions. Then the job is created before its companions, since it owns them: whatever happens in
between, deleting the job deletes everything.

After an error or Ctrl-C the objects that were created are deleted. An object may exist although its
creation was never answered. So every object carries an annotation with the id of the submission; an
object is looked for by name and deleted only if it carries that id.
"""

from __future__ import annotations

import secrets
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from kubekit.client import request
from kubekit.errors import MusterError
from kubekit.objects import kinds
from kubekit.objects.meta import Key, Raw, object_name
from kubekit.request_errors import AlreadyExists, ApiError, Forbidden, NotFound, ServerError
from muster.client import Notify, ignore
from muster.client.interrupts import Interrupts
from muster.client.manifests import yaml_writer
from muster.client.manifests.apply import send_strictly
from muster.client.manifests.served_kinds import ServedKinds
from muster.contract.job_kinds import JOB_KIND_BY_NAME, JOB_KINDS

if TYPE_CHECKING:
    from kubekit.client.blocking_client import BlockingClient
    from kubekit.objects.kinds import Kind
    from muster.jobs.build.job_manifest import Bundle


_COMPANIONS: tuple[Kind[Any], ...] = (
    kinds.CONFIG_MAPS, kinds.SERVICES, kinds.DEPLOYMENTS, kinds.SECRETS, kinds.SERVICE_ACCOUNTS,
    kinds.ROLES, kinds.ROLE_BINDINGS,
)  # fmt: skip
COMPANION_KINDS = {kind.kind: kind for kind in _COMPANIONS}
"""Kinds of a job's companions."""

SUBMISSION_ANNOTATION = "muster.dev/submission"
"""The annotation by which a submission recognises its own objects."""
LOOKS, LOOK_SECONDS = 10, 0.1
"""Number of looks for an object whose creation was not answered, and the seconds between them."""


@dataclass
class CreatedObject:
    """An object that was sent. Its UID is empty until the server has responded."""

    kind: Kind[Any]
    key: Key
    uid: str = ""


@dataclass(frozen=True)
class Submitted:
    """The objects of a submission as the server has them."""

    job: Raw
    record: Raw
    """The ConfigMap that records the submitted job."""
    companions: tuple[Raw, ...] = ()

    @property
    def items(self) -> list[Raw]:
        return [self.record, *self.companions, self.job]


class Transaction:
    """The creation of one job's objects; an error or a signal deletes the created objects."""

    def __init__(
        self,
        client: BlockingClient,
        namespace: str,
        *,
        dry_run: bool = False,
        notify: Notify = ignore,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._dry_run, self._notify = dry_run, notify
        self._id = secrets.token_hex(8)
        self._created: list[CreatedObject] = []
        self._interrupts = Interrupts()

    def submit(self, bundle: Bundle) -> Submitted:
        """Create the job, the record of the submission and the companions, or nothing."""
        with self._interrupts:
            try:
                submitted = self._create_all(bundle)
                # A signal that came during the last request must not be lost.
                self._interrupts.raise_if_received()
            except BaseException as error:
                self._interrupts.ignored = True
                left = self._roll_back()
                if isinstance(error, KeyboardInterrupt):
                    names = f"left behind: {', '.join(left)}" if left else "nothing was submitted"
                    self._notify(f"interrupted: {names}")
                raise
        return submitted

    def _create_all(self, bundle: Bundle) -> Submitted:
        name = bundle.job["metadata"]["name"]
        items = (submission_record(bundle.job), *bundle.companions)
        kind, version = JOB_KIND_BY_NAME[bundle.job["kind"]].resource, bundle.job["apiVersion"]
        if version != kind.api_version:
            kind = ServedKinds(self._client).find(version, kind.kind)
        self._refuse_taken_name(kind, name)
        if not self._free_name(items[0], bundle.job):
            raise MusterError(
                f"{object_name(items[0])}, the record of a former job {name}, exists already",
                hint=f"`arena delete {name}` deletes it. Or choose another --name.",
            )
        for item in items:
            self._check(item, bundle.job)
        try:
            job = self._create(kind, bundle.job)
        except AlreadyExists:
            raise _name_taken(kind, name) from None
        record, *companions = (
            self._create(COMPANION_KINDS[item["kind"]], _owned(item, job)) for item in items
        )
        return Submitted(job, record, tuple(companions))

    def _refuse_taken_name(self, kind: Kind[Raw], name: str) -> None:
        """Refuse a name that a job of any kind has: verbs find a job by its name alone."""
        for other in (kind, *(row for row in JOB_KINDS if row.kind != kind.kind)):
            with suppress(Forbidden):  # a kind that the user may not read does not matter
                if self._client.find(other, Key(self._namespace, name)):
                    raise _name_taken(other, name)

    def _check(self, item: Raw, job: Raw) -> None:
        """Let the server reject a companion before the job exists."""
        if item["kind"] == "RoleBinding" and self._free_name(item, job):
            return  # The server would look for its Role, which a dry run does not create.
        try:
            self._send(COMPANION_KINDS[item["kind"]], item, dry_run=True)
        except AlreadyExists as error:
            if self._free_name(item, job):
                self._send(COMPANION_KINDS[item["kind"]], item, dry_run=True)
                return
            error.hint = (
                "Nothing was created. Choose another --name, or, if it is not needed: "
                f"kubectl delete -n {self._namespace} {object_name(item)}"
            )
            raise
        except ApiError as error:
            error.hint = f"Nothing was created: {object_name(item)} goes with the job."
            raise

    def _free_name(self, item: Raw, job: Raw) -> bool:
        """Delete a former job's object of this name; returns whether the name is free.

        `arena delete` returns while the garbage collector still works. An object whose only owner
        is a job of our job's name is garbage, since that job is gone: the submission does not wait
        for the collector.
        """
        kind = COMPANION_KINDS[item["kind"]]
        key = Key(self._namespace, item["metadata"]["name"])
        former = self._client.find(kind.read_as(dict), key)
        if former is None:
            return True
        metadata = former["metadata"]
        owners = [(o["kind"], o["name"]) for o in metadata.get("ownerReferences") or ()]
        if self._dry_run or owners != [(job["kind"], job["metadata"]["name"])]:
            return False
        with suppress(NotFound):
            self._client.delete(kind, key, uid=metadata["uid"], propagation="Background")
        return True

    def _create(self, kind: Kind[Any], body: Raw) -> Raw:
        if self._dry_run:
            return self._send(kind, body, dry_run=True)
        metadata = body["metadata"]
        annotations = {**(metadata.get("annotations") or {}), SUBMISSION_ANNOTATION: self._id}
        body = {**body, "metadata": {**metadata, "annotations": annotations}}
        # Recorded before it is sent: the object may exist although no response comes.
        created = CreatedObject(kind, Key(self._namespace, metadata["name"]))
        self._created.append(created)
        try:
            raw = self._send(kind, body)
        except ApiError as error:
            if not isinstance(error, ServerError):
                self._created.remove(created)  # rejected: an object of that name is not ours
            raise
        created.uid = raw["metadata"]["uid"]
        return raw

    def _send(self, kind: Kind[Any], body: Raw, *, dry_run: bool = False) -> Raw:
        self._interrupts.raise_if_received()
        ask = request.create(kind, body, namespace=self._namespace)
        response = send_strictly(self._client, ask, dry_run=dry_run)
        raw: Raw = msgspec.json.decode(response.body, type=dict)
        return {"apiVersion": body["apiVersion"], "kind": body["kind"], **raw}

    def _roll_back(self) -> list[str]:
        """Delete the created objects, the last first; returns the names of remaining objects."""
        self._client.close()  # an interrupted call leaves half a response on the connection
        left = []
        while self._created:
            created = self._created.pop()
            try:
                if uid := created.uid or self._find_uid(created):
                    self._client.delete(
                        created.kind, created.key, uid=uid, propagation="Background"
                    )
            except NotFound:
                continue  # the garbage collector deleted it with its job
            except MusterError as error:
                name = f"{created.kind.kind.lower()}/{created.key.name}"
                self._notify(f"could not delete {name}: {error}")
                left.append(name)
        return left

    def _find_uid(self, created: CreatedObject) -> str:
        """The UID of an object whose creation was not answered, if it is there and ours.

        The server may still be creating it, so one look that finds nothing is not enough.
        """
        for _ in range(LOOKS):
            if raw := self._client.find(created.kind.read_as(dict), created.key):
                metadata = raw["metadata"]
                is_ours = (metadata.get("annotations") or {}).get(SUBMISSION_ANNOTATION) == self._id
                return str(metadata["uid"]) if is_ours else ""
            time.sleep(LOOK_SECONDS)
        return ""


def _owned(item: Raw, job: Raw) -> Raw:
    """The object with the job as its owner, so that it is deleted with the job."""
    owner = {
        "apiVersion": JOB_KIND_BY_NAME[job["kind"]].resource.api_version,
        "kind": job["kind"],
        "name": job["metadata"]["name"],
        "uid": job["metadata"]["uid"],
    }
    return {**item, "metadata": {**item["metadata"], "ownerReferences": [owner]}}


def _name_taken(kind: Kind[Raw], name: str) -> AlreadyExists:
    type_ = kind.kind.lower()
    return AlreadyExists(
        f"a job named {name} exists already: {type_}/{name}",
        status=409,
        hint=f"Choose another --name, or delete it first: arena delete {type_}/{name}",
    )


def submission_record(job: Raw) -> Raw:
    """The ConfigMap in which arena records a submitted job."""
    values = {key: job[key] for key in ("apiVersion", "kind", "spec")}
    name = f"{job['metadata']['name']}-{job['kind'].lower()}"
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"createdBy": "arena"}},
        "data": {"app": object_name(job), "values": yaml_writer.dump(values)},
    }
