"""Which namespaces to show to a user who may not list objects of all namespaces.

Kubernetes has no question "where may I read?", only "what may I do in this namespace?". So there
are candidates: those that the user has named, the namespace of the kubeconfig, the one of a service
account, and all namespaces if the user may list those. Those where the user may list pods or jobs
are shown.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from kubekit.client.request import Request
from kubekit.errors import ApiError
from kubekit.objects.kinds import NAMESPACES, PODS
from muster.contract.job_resources import JOB_KINDS

if TYPE_CHECKING:
    from kubekit.client.client import Client

MAX_NAMESPACES = 20
"""Each has a watch per kind. A user with more of them has rights for all, or chooses one."""
_MAX_CANDIDATES = 500
_SHOWN = frozenset((PODS.plural, *(kind.plural for kind in JOB_KINDS), "*"))
_LIST = frozenset(("list", "*"))
_SERVICE_ACCOUNT = "system:serviceaccount:"


async def readable_namespaces(client: Client, named: tuple[str, ...]) -> tuple[str, ...]:
    """The namespaces with something that the user may list; the first named if there is none."""
    own, listed = await asyncio.gather(_own_namespace(client), _all_namespaces(client))
    candidates = list(dict.fromkeys((*named, *own, *listed)))[:_MAX_CANDIDATES]
    allowed = await asyncio.gather(*(_may_list(client, name) for name in candidates))
    readable = [name for name, may in zip(candidates, allowed, strict=True) if may]
    return tuple(readable[:MAX_NAMESPACES]) or named[:1]


async def _own_namespace(client: Client) -> list[str]:
    """The namespace of a service account; empty for other users."""
    status = await _review(client, "authentication.k8s.io/v1", "SelfSubjectReview", {})
    name = str(((status or {}).get("userInfo") or {}).get("username", ""))
    return [name.split(":")[2]] if name.startswith(_SERVICE_ACCOUNT) else []


async def _all_namespaces(client: Client) -> list[str]:
    try:
        listed = await client.list(NAMESPACES.read_as(dict))
    except ApiError:
        return []
    return [item["metadata"]["name"] for item in listed.items]


async def _may_list(client: Client, namespace: str) -> bool:
    spec = {"namespace": namespace}
    status = await _review(client, "authorization.k8s.io/v1", "SelfSubjectRulesReview", spec)
    if status is None or status.get("incomplete"):
        return True  # not known: the list itself tells
    return any(
        _LIST.intersection(rule.get("verbs") or ())
        and _SHOWN.intersection(rule.get("resources") or ())
        for rule in status.get("resourceRules") or ()
    )


async def _review(
    client: Client, api_version: str, kind: str, spec: dict[str, str]
) -> dict[str, Any] | None:
    """The status of a review; None if the server does not answer this kind of question."""
    body = {"apiVersion": api_version, "kind": kind, **({"spec": spec} if spec else {})}
    call = Request("POST", f"/apis/{api_version}/{kind.lower()}s", body=msgspec.json.encode(body))
    try:
        answer = await client.send(call)
    except ApiError:
        return None
    status: dict[str, Any] = msgspec.json.decode(answer.body).get("status") or {}
    return status
