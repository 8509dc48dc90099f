"""Questions instead of objects: may I do this, what may I do, who am I?

Called by `serve.py` for creates of the review kinds; nothing is stored. The admin may do
everything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.local.apiserver import bodies
from muster.local.apiserver.call import Answer, Call, raw
from muster.local.apiserver.screening import check_kind

if TYPE_CHECKING:
    from muster.api.meta import Raw

GROUPS = frozenset({"authorization.k8s.io", "authentication.k8s.io"})
_ALL = ["*"]


def answer(call: Call) -> Answer:
    """The review a client sent, with its answer filled in."""
    review = bodies.read(call.body, call.content_type)
    check_kind(call.resource, review)
    review.setdefault("metadata", {})
    review["status"] = _status(call)
    return raw(review, 201)


def _status(call: Call) -> Raw:
    match call.resource.plural:
        case "selfsubjectrulesreviews":
            return {
                "resourceRules": [{"verbs": _ALL, "apiGroups": _ALL, "resources": _ALL}],
                "nonResourceRules": [{"verbs": _ALL, "nonResourceURLs": _ALL}],
                "incomplete": False,
            }
        case "selfsubjectreviews":
            groups = ["system:masters", "system:authenticated"]
            return {"userInfo": {"username": call.user, "groups": groups}}
        case _:
            return {"allowed": True}
