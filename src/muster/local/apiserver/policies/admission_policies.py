"""The policies and bindings of a store, applied to writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from muster.errors import StatusError
from muster.local.apiserver import api_errors, codec
from muster.local.apiserver.access.authentication import User
from muster.local.apiserver.access.authorization import AccessQuery
from muster.local.apiserver.kinds.access.admission_policy import BINDINGS, POLICIES
from muster.local.apiserver.policies.attributes import of_write
from muster.local.apiserver.policies.evaluation import Denial, denials, visible_namespace
from muster.local.apiserver.policies.matching import is_exempt, matched_version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from muster.api.meta import Raw
    from muster.local.apiserver.access.authorization import Authorizer
    from muster.local.apiserver.cel.functions.authorizer import Question
    from muster.local.apiserver.http.requests import Call
    from muster.local.apiserver.policies.attributes import Attributes
    from muster.local.apiserver.resource import Resource
    from muster.local.apiserver.resource_registry import Registry
    from muster.local.apiserver.store.changes import Change
    from muster.local.apiserver.store.store import Store

_CODES = {"Forbidden": 403, "RequestEntityTooLarge": 413, "Invalid": 422}


class _ConfigurationError(Exception):
    """A binding whose parameters cannot be found."""


class AdmissionPolicies:
    """Applies policies as soon as their write is durable."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        authorizer: Authorizer,
        on_change: Callable[[AdmissionPolicies], None],
    ) -> None:
        self._store = store
        self._registry = registry
        self._authorizer = authorizer
        self._policies: dict[str, Raw] = {}
        self._bindings: dict[str, Raw] = {}
        self._on_change = on_change
        store.subscribe(self._changed, POLICIES.collection, BINDINGS.collection)

    def _changed(self, change: Change) -> None:
        key = change.entry.key
        collection, _, name = key.split("/")
        known = self._policies if collection == POLICIES.collection else self._bindings
        known.pop(name, None)
        if not change.deleted:
            known[name] = codec.decode(change.entry.value)
        self._on_change(self)

    @property
    def are_bound(self) -> bool:
        """Whether a policy can be in effect: without any, writes do not ask."""
        return bool(self._policies) and bool(self._bindings)

    def check_write(self, call: Call, operation: str, new: Raw | None, old: Raw | None) -> None:
        """Raise if a policy denies a write; warn if one only warns."""
        if not is_exempt(call.resource):
            self._check(call, of_write(call, operation, new, old))

    def _check(self, call: Call, write: Attributes) -> None:
        denied: list[tuple[str, str, Denial]] = []
        for name, policy in sorted(self._policies.items()):
            for binding, denial in self._judge(policy, write):
                for action in binding["spec"].get("validationActions") or ():
                    if action == "Deny":
                        denied.append((name, binding["metadata"]["name"], denial))
                    elif action == "Warn":
                        call.warn(
                            f"Validation failed for ValidatingAdmissionPolicy '{name}' with "
                            f"binding '{binding['metadata']['name']}': {denial.message}"
                        )
        if denied:
            raise _denied(write, *denied[0])

    def _judge(self, policy: Raw, write: Attributes) -> Iterator[tuple[Raw, Denial]]:
        namespace = self._namespace(write)
        labels = (namespace["metadata"].get("labels") or {}) if namespace else None
        versions = self._versions(write.resource)
        matched = matched_version(policy["spec"].get("matchConstraints"), write, versions, labels)
        if matched is None:
            return
        for _, binding in sorted(self._bindings.items()):
            spec = binding["spec"]
            if spec.get("policyName") != policy["metadata"]["name"]:
                continue
            if matched_version(spec.get("matchResources"), write, versions, labels) is None:
                continue
            yield from self._with_params(policy, binding, write, matched, namespace)

    def _with_params(
        self, policy: Raw, binding: Raw, write: Attributes, matched: Resource, namespace: Raw | None
    ) -> Iterator[tuple[Raw, Denial]]:
        try:
            params = self._params(policy["spec"], binding["spec"], write.namespace)
        except _ConfigurationError as error:
            if policy["spec"].get("failurePolicy", "Fail") == "Fail":
                yield binding, Denial(f"failed to configure binding: {error}")
            return
        for param in params:
            values = {
                "object": _in_version(write.obj, write, matched),
                "oldObject": _in_version(write.old, write, matched),
                "request": write.request(matched),
                "params": param,
                "namespaceObject": visible_namespace(namespace),
                "authorizer": {"user": "request"},
            }
            for denial in denials(policy, values, lambda q: self._answer(write.user, q)):
                yield binding, denial

    def _namespace(self, write: Attributes) -> Raw | None:
        if not write.namespace or write.resource.plural == "namespaces":
            # Its own labels decide about a namespace.
            return write.obj or write.old if write.resource.plural == "namespaces" else None
        entry = self._store.get(f"namespaces//{write.namespace}")
        return None if entry is None else codec.decode(entry.value)

    def _versions(self, resource: Resource) -> list[Resource]:
        return [r for r in self._registry.all() if r.collection == resource.collection]

    def _params(self, policy: Raw, binding: Raw, namespace: str) -> list[Raw | None]:
        """The parameters that a policy is evaluated with, one after the other."""
        kind, ref = policy.get("paramKind"), binding.get("paramRef")
        if not kind or not ref:
            return [None]
        found = self._found_params(kind, ref, namespace)
        if not found and ref.get("parameterNotFoundAction") == "Deny":
            raise _ConfigurationError(
                "no params found for policy binding with `Deny` parameterNotFoundAction"
            )
        return [*found]

    def _found_params(self, kind: Raw, ref: Raw, namespace: str) -> list[Raw]:
        resource = next(
            (
                r
                for r in self._registry.all()
                if (r.api_version, r.kind) == (kind["apiVersion"], kind["kind"])
            ),
            None,
        )
        if resource is None:
            raise _ConfigurationError(
                f"failed to find resource referenced by paramKind: '{_gvk_text(kind)}'"
            )
        where = (ref.get("namespace") or namespace) if resource.namespaced else ""
        if resource.namespaced and not where:
            raise _ConfigurationError("cannot use namespaced paramRef in policy binding that "
                                      "matches cluster-scoped resources")  # fmt: skip
        if ref.get("name"):
            entry = self._store.get(codec.key(resource, where, ref["name"]))
            entries = [entry] if entry else []
        else:
            prefix = f"{resource.collection}/{where}/"
            entries = list(self._store.scan(prefix))
        objects = [codec.decode(codec.in_version(entry.value, resource)) for entry in entries]
        selector = ref.get("selector") or {}
        return [
            obj
            for obj in objects
            if codec.selector_matches(selector, obj["metadata"].get("labels") or {})
        ]

    def _answer(self, user: User, question: Question) -> tuple[bool, str]:
        """Whether the caller, or a service account, has an access."""
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
        verdict = self._authorizer.decide(user, access)
        return verdict.allowed, verdict.reason


def _in_version(obj: Raw | None, write: Attributes, matched: Resource) -> Any:
    if obj is None or write.subresource or matched is write.resource:
        return obj
    return {**obj, "apiVersion": matched.api_version}


def _gvk_text(kind: Raw) -> str:
    group, _, version = kind["apiVersion"].rpartition("/")
    return f"{group}/{version}, Kind={kind['kind']}"


def _denied(write: Attributes, policy: str, binding: str, denial: Denial) -> StatusError:
    message = (
        f"ValidatingAdmissionPolicy '{policy}' with binding '{binding}' denied request: "
        f"{denial.message}"
    )
    resource = write.resource
    error = api_errors.forbidden(
        resource.group, resource.plural, write.name, message, causes=[{"message": message}]
    )
    return StatusError(
        str(error),
        status=_CODES[denial.reason],
        reason=denial.reason,
        details=error.details,
    )
