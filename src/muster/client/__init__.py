"""Jobs and manifests on a cluster, for programs: the CLI is one of them.

Functions take a client or a cluster, return values and raise a MusterError: no click
and no print. A function that has something to report while it works (reconnected, still waiting)
takes `notify`, which receives one sentence at a time; without it nothing is reported.
"""

from __future__ import annotations

from collections.abc import Callable

Notify = Callable[[str], None]


def ignore(_message: str) -> None:
    """Drop a message: the default of every `notify`."""
