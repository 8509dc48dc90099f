"""What every pod tolerates, whether it says so or not.

Pure; called by `policy.py` for new pods and by `pod_changes.py` for changed ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from muster.api.meta import Raw

_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def tolerate_short_outages(spec: Raw) -> None:
    """A pod stays five minutes on a node that is not ready or cannot be reached."""
    tolerations = spec["tolerations"] = spec.get("tolerations") or []
    for taint in _TAINTS:
        if not any(
            t.get("key") in (taint, None, "") and t.get("effect") in ("NoExecute", None, "")
            for t in tolerations
        ):
            tolerations.append(
                {
                    "key": taint,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 300,
                }
            )
