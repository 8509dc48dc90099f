"""Questions instead of objects: may I, may they, what may I, who am I, whose token is this?

Called by `serve.py` for creates of the review kinds; nothing is stored. The answers come from the
same evaluation that every request goes through.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from muster.api.meta import timestamp
from muster.local.apiserver import api_errors, objects
from muster.local.apiserver.access.authentication import User
from muster.local.apiserver.access.authorization import AccessQuery, joined_errors
from muster.local.apiserver.access.service_account_tokens import ISSUER
from muster.local.apiserver.http import bodies
from muster.local.apiserver.http.requests import Answer, Call, json_answer
from muster.local.apiserver.schema.decoding import check_kind, check_shape

if TYPE_CHECKING:
    from datetime import datetime

    from muster.api.meta import Raw
    from muster.errors import StatusError
    from muster.local.apiserver.access.authorization import Rbac
    from muster.local.apiserver.access.service_account_tokens import Tokens

GROUPS = frozenset({"authorization.k8s.io", "authentication.k8s.io"})
_ONE_OF = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
_RESOURCE = ("verbs", "apiGroups", "resources", "resourceNames")
_PATH = ("verbs", "nonResourceURLs")


class Reviews(NamedTuple):
    """What answers are made from."""

    roles: Rbac
    tokens: Tokens

    def answer(self, call: Call, now: datetime) -> Answer:
        """The review a client sent, with its answer filled in."""
        review = bodies.read(call.body, call.content_type)
        check_kind(call.resource, review)
        check_shape(call.resource.api_version, call.resource.kind, review)
        if review.get("metadata") is None:
            review["metadata"] = {}
        spec = review.get("spec") or {}
        match call.resource.plural:
            case "selfsubjectaccessreviews":
                review["status"] = self._access(call.user, spec)
            case "subjectaccessreviews":
                review["status"] = self._access(_subject(spec), spec)
            case "localsubjectaccessreviews":
                review["metadata"].setdefault("namespace", call.route.namespace)
                _check_local(spec, call.route.namespace)
                review["status"] = self._access(_subject(spec), spec)
            case "selfsubjectrulesreviews":
                review["status"] = self._rules(call.user, spec)
                review["spec"] = {}
            case "tokenreviews":
                review["status"] = self._token(spec)
            case _:
                review["metadata"]["creationTimestamp"] = timestamp(now)
                review["status"] = {"userInfo": call.user.info()}
        return json_answer(review, 201)

    def _access(self, user: User, spec: Raw) -> Raw:
        allowed, reason = self.roles.decide(user, _asked(spec))
        return {"allowed": allowed} | ({"reason": reason} if reason else {})

    def _rules(self, user: User, spec: Raw) -> Raw:
        if not spec.get("namespace"):
            raise api_errors.bad_request("no namespace on request")
        found = self.roles.rules(user, spec["namespace"])
        shown: Raw = {
            "resourceRules": [_only(r, _RESOURCE) for r in found.rules if r.get("resources")],
            "nonResourceRules": [_only(r, _PATH) for r in found.rules if r.get("nonResourceURLs")],
            "incomplete": False,
        }
        return shown | ({"evaluationError": joined_errors(found.errors)} if found.errors else {})

    def _token(self, spec: Raw) -> Raw:
        if not spec.get("token"):
            raise api_errors.bad_request("token is required for TokenReview in authentication")
        if not spec.get("audiences"):
            spec.pop("audiences", None)
        asked = spec.get("audiences") or [ISSUER]
        meant = self.tokens.audiences(spec["token"])
        user = self.tokens.user(spec["token"], asked)
        if user is not None:
            both = [audience for audience in asked if audience in meant]
            return {"authenticated": True, "user": user.info(), "audiences": both}
        why = "invalid bearer token"
        if meant and not set(asked) & set(meant):
            told = f"token audiences {_listed(meant)} is invalid for the target audiences"
            why = f"[{why}, {told} {_listed(asked)}]"
        return {"user": {}, "error": why}


def _listed(words: list[str]) -> str:
    return f"[{' '.join(objects.dump(word).decode() for word in words)}]"


def _only(rule: Raw, fields: tuple[str, ...]) -> Raw:
    return {field: rule[field] for field in fields if rule.get(field)}


def _asked(spec: Raw) -> AccessQuery:
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is not None and path is not None:
        shown = {"Path": path.get("path", ""), "Verb": path.get("verb", "")}
        why = "cannot be specified in combination with resourceAttributes"
        value = objects.dump(shown).decode()
        cause = api_errors.invalid_value("spec.nonResourceAttributes", value, why)
        told = f"Invalid value: {value}: {why}"
        raise api_errors.invalid("authorization.k8s.io", "", "", [cause._replace(message=told)])
    if path is not None:
        return AccessQuery(path.get("verb", ""), path=path.get("path", ""))
    if resource is None:
        raise _invalid("spec.resourceAttributes", None, _ONE_OF)
    fields = ("verb", "group", "resource", "subresource", "namespace", "name")
    return AccessQuery(*(resource.get(field, "") for field in fields))


def _subject(spec: Raw) -> User:
    if not spec.get("user") and not spec.get("groups"):
        raise _invalid("spec.user", "", "at least one of user or group must be specified")
    return User(spec.get("user", ""), tuple(spec.get("groups") or ()), spec.get("uid", ""))


def _check_local(spec: Raw, namespace: str) -> None:
    asked = (spec.get("resourceAttributes") or {}).get("namespace", "")
    if asked != namespace:
        why = "must match metadata.namespace"
        raise _invalid("spec.resourceAttributes.namespace", asked, why)


def _invalid(field: str, value: object, why: str) -> StatusError:
    cause = api_errors.invalid_value(field, value, why)
    return api_errors.invalid("authorization.k8s.io", "", "", [cause])
