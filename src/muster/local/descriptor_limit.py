"""The limit of descriptors that a local cluster needs, checked before it starts."""

from __future__ import annotations

import resource

from muster.errors import MusterError

MINIMUM = 256
"""Descriptors for an idle cluster, its API's clients and a few dozen pods."""
SENSIBLE = 1024


def check_limit() -> str:
    """Refuse a hard limit that is too low for any pod; returns a warning about a low one, or ""."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY or hard >= SENSIBLE:
        return ""
    if hard < MINIMUM:
        raise MusterError(
            f"the local cluster needs at least {MINIMUM} descriptors, and this shell allows {hard}",
            hint=f"Allow more with `ulimit -n {SENSIBLE}` (as root), then `arena up`.",
        )
    return (
        f"this shell allows {hard} descriptors, so not many connections and streams can be open; "
        f"`ulimit -n {SENSIBLE}` (as root) before `arena up` allows more"
    )
