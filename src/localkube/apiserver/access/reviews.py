"""Reviews: questions about permissions, users and tokens.

A client creates a review (may this user do this? which rules apply to me? whose token is this?) and
gets it back with the status filled in. Nothing is stored. The status comes from the evaluation that
every request goes through.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubekit.objects.meta import timestamp
from localkube.apiserver import api_errors, causes, codec
from localkube.apiserver.access.authentication import User
from localkube.apiserver.access.authorization import AccessQuery, joined_errors
from localkube.apiserver.access.service_account_tokens import ISSUER
from localkube.apiserver.http import bodies
from localkube.apiserver.http.requests import Answer, Call, json_answer
from localkube.apiserver.schema.decoding import check_kind, check_shape, ensure_metadata

if TYPE_CHECKING:
    from datetime import datetime

    from kubekit.objects.meta import Raw
    from kubekit.request_errors import StatusError
    from localkube.apiserver.access.authorization import Authorizer
    from localkube.apiserver.access.service_account_tokens import Tokens

GROUPS = frozenset({"authorization.k8s.io", "authentication.k8s.io"})
_ONE_OF = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
_RESOURCE = ("verbs", "apiGroups", "resources", "resourceNames")
_PATH = ("verbs", "nonResourceURLs")


def answer(call: Call, authorizer: Authorizer, tokens: Tokens, now: datetime) -> Answer:
    """The review that a client sent, with its status filled in."""
    review = bodies.read(call.body, call.content_type)
    check_kind(call.resource, review)
    check_shape(call.resource.api_version, call.resource.kind, review)
    meta, spec = ensure_metadata(review), review.get("spec") or {}
    match call.resource.plural:
        case "selfsubjectaccessreviews":
            review["status"] = _access(authorizer, call.user, spec)
        case "subjectaccessreviews":
            review["status"] = _access(authorizer, _subject(spec), spec)
        case "localsubjectaccessreviews":
            meta.setdefault("namespace", call.route.namespace)
            namespace = (spec.get("resourceAttributes") or {}).get("namespace", "")
            if namespace != call.route.namespace:
                path, why = "spec.resourceAttributes.namespace", "must match metadata.namespace"
                raise _invalid(path, namespace, why)
            review["status"] = _access(authorizer, _subject(spec), spec)
        case "selfsubjectrulesreviews":
            review["status"] = _rules(authorizer, call.user, spec)
            review["spec"] = {}  # the real server does not repeat the namespace
        case "tokenreviews":
            review["status"] = _token(tokens, spec)
        case _:  # selfsubjectreviews
            meta["creationTimestamp"] = timestamp(now)
            review["status"] = {"userInfo": call.user.info()}
    return json_answer(review, 201)


def _access(authorizer: Authorizer, user: User, spec: Raw) -> Raw:
    allowed, reason = authorizer.decide(user, _access_of(spec))
    return {"allowed": allowed} | ({"reason": reason} if reason else {})


def _rules(authorizer: Authorizer, user: User, spec: Raw) -> Raw:
    if not spec.get("namespace"):
        raise api_errors.bad_request("no namespace on request")
    rules, errors = authorizer.rules(user, spec["namespace"])
    status: Raw = {
        "resourceRules": [_only(r, _RESOURCE) for r in rules if r.get("resources")],
        "nonResourceRules": [_only(r, _PATH) for r in rules if r.get("nonResourceURLs")],
        "incomplete": False,
    }
    return status | ({"evaluationError": joined_errors(errors)} if errors else {})


def _token(tokens: Tokens, spec: Raw) -> Raw:
    if not spec.get("token"):
        raise api_errors.bad_request("token is required for TokenReview in authentication")
    if not spec.get("audiences"):
        spec.pop("audiences", None)
    requested = spec.get("audiences") or [ISSUER]
    of_token = tokens.audiences(spec["token"])
    user = tokens.user(spec["token"], requested)
    if user is not None:
        both = [audience for audience in requested if audience in of_token]
        return {"authenticated": True, "user": user.info(), "audiences": both}
    error = "invalid bearer token"
    # The second reason, only for a token of this server: others have no readable audiences.
    if of_token and not set(requested) & set(of_token):
        mismatch = f"token audiences {_listed(of_token)} is invalid for the target audiences"
        error = f"[{error}, {mismatch} {_listed(requested)}]"
    return {"user": {}, "error": error}


def _listed(words: list[str]) -> str:
    return f"[{' '.join(codec.dump(word).decode() for word in words)}]"


def _only(rule: Raw, fields: tuple[str, ...]) -> Raw:
    return {field: rule[field] for field in fields if rule.get(field)}


def _access_of(spec: Raw) -> AccessQuery:
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is not None and path is not None:
        attributes = {"Path": path.get("path", ""), "Verb": path.get("verb", "")}
        why = "cannot be specified in combination with resourceAttributes"
        # The real server shows the Go struct as JSON, with its field names, and not quoted again.
        value = codec.dump(attributes).decode()
        cause = causes.invalid("spec.nonResourceAttributes", value, why)
        message = f"Invalid value: {value}: {why}"
        raise api_errors.invalid("authorization.k8s.io", "", "", [cause._replace(message=message)])
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


def _invalid(field: str, value: object, why: str) -> StatusError:
    cause = causes.invalid(field, value, why)
    return api_errors.invalid("authorization.k8s.io", "", "", [cause])
