"""Keeping watch of one job, without a gap: also an end that is deleted a moment later is seen.

Used by `submit --wait` and `wait`. Time is let pass by asking the server for what happens to the
job in the next second, from the version on that was seen last; so nothing is missed between two
looks. Where watching is not possible (no right to, history gone), the job is looked up instead.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from muster.api.meta import key_of
from muster.client.jobs import lookup
from muster.errors import ApiError, InvalidJob, MusterError, NotFound, Unreachable
from muster.jobs import parse
from muster.jobs.summary import summarize
from muster.kube import request

if TYPE_CHECKING:
    from collections.abc import Callable

    from muster.api.kinds import Kind
    from muster.api.meta import Raw
    from muster.jobs.summary import JobSummary
    from muster.kube.blocking_client import BlockingClient

SOON = 60
"""A job that is deleted so many seconds after its end is no place to send anybody to."""


class JobWatch:
    """One job from a version of it on."""

    def __init__(
        self,
        client: BlockingClient,
        kind: Kind[Raw],
        raw: Raw,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client, self._kind, self._sleep = client, kind, sleep
        self._key, self._uid = key_of(raw), raw["metadata"]["uid"]
        self._raw = raw
        self._since = str(raw["metadata"]["resourceVersion"])
        self._gone = False

    def look(self) -> JobSummary:
        """How the job is, or how it ended; NotFound if it was deleted before its end."""
        if self._gone and not summarize(self._raw, []).over:
            raise NotFound(f"the job {self._key.name} was deleted", status=404)
        pods = lookup.pods_of(self._client, self._key)
        return summarize(self._raw, pods, datetime.now(UTC))

    def keeps_logs(self, job: JobSummary) -> bool:
        """Whether a log is left of the job that has ended: its end takes pods away, and so itself.

        A pod that ran to its end stays unless all go; of those, a launcher's stays all the same.
        """
        try:
            policy = parse.parse_job(self._raw).policy
        except InvalidJob:
            return False
        if self._gone or (policy.ttl_seconds is not None and policy.ttl_seconds < SOON):
            return False
        done = [one for one in job.instances if one.phase in ("Succeeded", "Failed")]
        return any(
            policy.clean_pod_policy != "All" or one.role.lower() == "launcher" for one in done
        )

    def wait(self, seconds: float) -> None:
        """Let about that time pass, and see what happens to the job meanwhile."""
        if self._gone:
            self._sleep(seconds)
            return
        try:
            self._watch(max(1, round(seconds)))
        except Unreachable:
            self._sleep(seconds)
        except ApiError:
            self._sleep(seconds)
            self._look_up()

    def _watch(self, seconds: int) -> None:
        from muster.kube.watch.watch_stream import event_reader

        ask = request.watch(
            self._kind,
            self._key.namespace,
            since=self._since,
            fields=f"metadata.name={self._key.name}",
            seconds=seconds,
        )
        read = event_reader(self._kind, ask)
        for line in self._client.send(ask).body.splitlines():
            event = read(line)
            self._since = str(event.object["metadata"]["resourceVersion"])
            if event.type in ("ADDED", "MODIFIED", "DELETED"):
                self._saw(event.object)
                self._gone = self._gone or event.type == "DELETED"

    def _saw(self, raw: Raw) -> None:
        """Another job of the name is not ours; nor does an end that was seen change any more."""
        if raw["metadata"]["uid"] == self._uid and not self._gone:
            self._raw = {"kind": self._kind.kind, **raw}

    def _look_up(self) -> None:
        try:
            found = self._client.get(self._kind, self._key)
        except NotFound:
            self._gone = True
        except MusterError:
            return  # the next look tells
        else:
            self._since = str(found["metadata"]["resourceVersion"])
            self._gone = found["metadata"]["uid"] != self._uid
            self._saw(found)
