"""The address of the local cluster's dashboard, with a fresh one-time token.

Only the owner of the cluster can read its keys; the daemon is not asked.

Kept apart because verbs that have nothing else in common print it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubekit.errors import ConfigError, MusterError
from muster.client.home import Home

if TYPE_CHECKING:
    from muster.client.target import Cluster


def of_local_cluster(home: Home, path: str = "/") -> str:
    """The address of a page; empty if the cluster is not up or has no dashboard."""
    base = (home.status() or {}).get("dashboard")
    if not base:
        return ""
    from muster.web.access.keys import Keys, new_token  # hashes, which most commands do not need

    try:
        keys = Keys.read(home.dashboard_keys)
    except (OSError, ConfigError):  # of another user, who can make no token
        return f"{base}{path}"
    return f"{base}{path}?token={new_token(keys)}"


def of_cluster(cluster: Cluster, path: str = "/") -> str:
    """The address of a page about this cluster; MusterError if nobody serves it."""
    if not cluster.local:
        hint = "`muster dashboard` serves one for this cluster."
        raise MusterError(f"the cluster {cluster.name} does not serve a dashboard", hint=hint)
    url = of_local_cluster(Home.of_user(), path)
    if not url:
        hint = "`arena down`, then `arena up` without --no-dashboard; or `muster dashboard`."
        raise MusterError("the local cluster was started without its dashboard", hint=hint)
    return url
