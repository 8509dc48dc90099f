"""Whom a pod and its containers may not run as, and what contradicts itself there.

Pure; called by `pods.py` and `containers.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.local.apiserver import status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from muster.api.meta import Raw
    from muster.local.apiserver.status import Cause

_MOST = 2**31 - 1
_MOUNTS = ("Default", "Unmasked")
_IDS = ("runAsUser", "runAsGroup")


def check_pod(context: Raw, path: str) -> Iterator[Cause]:
    """What is wrong with the security context of a pod."""
    yield from _ids(context, ("fsGroup", *_IDS), path)
    for i, group in enumerate(context.get("supplementalGroups") or ()):
        yield from _id(group, f"{path}.supplementalGroups[{i}]")


def check_container(context: Raw, path: str) -> Iterator[Cause]:
    """What is wrong with the security context of a container."""
    yield from _ids(context, _IDS, path)
    mount = context.get("procMount")
    if mount and mount not in _MOUNTS:
        yield status.not_supported(f"{path}.procMount", mount, _MOUNTS)
    if context.get("allowPrivilegeEscalation") is not False:
        return
    if context.get("privileged"):
        told = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
        yield status.bad_value(path, context, told)
    if "CAP_SYS_ADMIN" in ((context.get("capabilities") or {}).get("add") or ()):
        told = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
        yield status.bad_value(path, context, told)


def _ids(context: Raw, fields: tuple[str, ...], path: str) -> Iterator[Cause]:
    for field in fields:
        if context.get(field) is not None:
            yield from _id(context[field], f"{path}.{field}")


def _id(number: int, path: str) -> Iterator[Cause]:
    if not 0 <= number <= _MOST:
        yield status.bad_value(path, number, f"must be between 0 and {_MOST}, inclusive")
