"""Which part of a log `job.logs` reads: its arguments are the options of `arena logs`."""

from __future__ import annotations

from typing import TypedDict

from kubekit.errors import UsageError, no_such
from muster.client.logs.pod_log import LogOptions
from muster.sdk.duration import Duration, seconds_of


class LogArguments(TypedDict, total=False):
    """The arguments that choose the container and the part of its log."""

    container: str
    tail: int | None
    since: Duration | None
    timestamps: bool
    previous: bool


def log_options(given: LogArguments, *, follow: bool) -> LogOptions:
    """The options with which the log is read."""
    if unknown := given.keys() - LogArguments.__annotations__.keys():
        known = ["follow", "replica", "all_replicas", *LogArguments.__annotations__]
        raise UsageError(f"logs() has {no_such('argument', min(unknown), known)}")
    since, tail = given.get("since"), given.get("tail")
    if tail is not None and not isinstance(tail, int):
        raise UsageError(f"tail is {tail!r}; write a whole number")
    return LogOptions(
        follow=follow,
        container=given.get("container", ""),
        tail=tail,
        since=None if since is None else seconds_of("since", since),
        timestamps=given.get("timestamps", False),
        previous=given.get("previous", False),
    )
