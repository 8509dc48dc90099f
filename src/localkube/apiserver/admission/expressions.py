"""Expressions about a request: the values that they see, their questions, match conditions."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from localkube.apiserver.access.authentication import User
from localkube.apiserver.access.authorization import AccessQuery
from localkube.apiserver.cel.batches import Batch
from localkube.apiserver.cel.evaluator import EVALUATOR

if TYPE_CHECKING:
    from kubekit.objects.meta import Raw
    from localkube.apiserver.access.authorization import Authorizer
    from localkube.apiserver.admission.attributes import Attributes
    from localkube.apiserver.cel.functions.authorizer import Ask, Question
    from localkube.apiserver.resource import Resource

_NAMESPACE_FIELDS = (
    "name", "generateName", "namespace", "labels", "annotations", "creationTimestamp",
    "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "resourceVersion",
    "finalizers",
)  # fmt: skip


def values(
    request: Attributes,
    resource: Resource,
    params: Raw | None = None,
    namespace: Raw | None = None,
) -> Raw:
    """The variables of expressions; `resource` is the version that `request.resource` names."""
    original = request.call.resource
    asked = {
        "group": original.group,
        "resource": original.plural,
        "subresource": request.subresource,
        "namespace": request.namespace,
        "name": request.name,
    }
    return {
        "object": request.obj,
        "oldObject": request.old,
        "request": request.request(resource),
        "params": params,
        "namespaceObject": _visible(namespace),
        "authorizer": {"requestResource": asked},
    }


def _visible(namespace: Raw | None) -> Any:
    """The fields of a namespace that expressions see."""
    if namespace is None:
        return None
    meta = {k: v for k, v in namespace["metadata"].items() if k in _NAMESPACE_FIELDS}
    shown = {key: namespace[key] for key in ("spec", "status") if key in namespace}
    return {"metadata": meta, **shown}


# -- questions to the authorizer -----------------------------------------------------------------


def asking(authorizer: Authorizer, user: User) -> Ask:
    """Answers the questions of expressions about what a user may do."""
    return partial(_answer, authorizer, user)


def _answer(authorizer: Authorizer, user: User, question: Question) -> tuple[bool, str]:
    if account := question.get("serviceAccount"):
        namespace, _, name = account.partition("/")
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
        user = User(f"system:serviceaccount:{namespace}:{name}", groups)
    if "path" in question:
        access = AccessQuery(question["verb"], path=question["path"])
    else:
        access = AccessQuery(
            question["verb"],
            group=question.get("group", ""),
            resource=question.get("resource", ""),
            subresource=question.get("subresource", ""),
            namespace=question.get("namespace", ""),
            name=question.get("name", ""),
        )
    verdict = authorizer.decide(user, access)
    return verdict.allowed, verdict.reason


# -- match conditions ----------------------------------------------------------------------------


class Match(NamedTuple):
    """Whether all conditions hold; if that cannot be told, why."""

    holds: bool
    error: str = ""


async def match(
    conditions: list[Raw], request: Attributes, ask: Ask, params: Raw | None = None
) -> Match:
    """Evaluate match conditions. One that is false decides, whatever is wrong with the others.

    As on a real server, they do not see the namespace, and `request.resource` is as requested.
    """
    seen = values(request, request.call.resource, params)
    batch = Batch(seen, [row["expression"] for row in conditions])
    [results] = await EVALUATOR.run([batch], ask)
    if any(not result.error and result.value is False for result in results):
        return Match(False)
    errors = [
        f"expression '{row['expression']}' resulted in error: {result.error}"
        for row, result in zip(conditions, results, strict=True)
        if result.error
    ]
    if len(errors) > 1:
        return Match(False, f"[{', '.join(dict.fromkeys(errors))}]")
    return Match(not errors, "".join(errors))
