"""The policies and bindings of a store, applied to requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubekit.errors import StatusError
from localkube.apiserver import api_errors, codec
from localkube.apiserver.admission.expressions import asking
from localkube.apiserver.kinds.access.admission_policy import BINDINGS, POLICIES
from localkube.apiserver.policies.evaluation import Denial, denials

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from kubekit.objects.meta import Raw
    from localkube.apiserver.access.authorization import Authorizer
    from localkube.apiserver.admission.attributes import Attributes
    from localkube.apiserver.admission.matching import Matcher
    from localkube.apiserver.resource_registry import Registry
    from localkube.apiserver.store.changes import Change
    from localkube.apiserver.store.store import Store

_CODES = {"Forbidden": 403, "RequestEntityTooLarge": 413, "Invalid": 422}


class _ConfigurationError(Exception):
    """A binding whose parameters cannot be found."""


class AdmissionPolicies:
    """Applies policies as soon as their write is durable."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        matcher: Matcher,
        authorizer: Authorizer,
        on_change: Callable[[AdmissionPolicies], None],
    ) -> None:
        self._store = store
        self._registry = registry
        self._matcher = matcher
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

    async def check(self, request: Attributes) -> None:
        """Raise if a policy denies a request; warn if one only warns."""
        denied: list[tuple[str, str, Denial]] = []
        for name, policy in sorted(self._policies.items()):
            async for binding, denial in self._judge(policy, request):
                bound = binding["metadata"]["name"]
                for action in binding["spec"].get("validationActions") or ():
                    if action == "Deny":
                        denied.append((name, bound, denial))
                    elif action == "Warn":
                        request.call.warn(
                            f"Validation failed for ValidatingAdmissionPolicy '{name}' with "
                            f"binding '{bound}': {denial.message}"
                        )
        if denied:
            raise _denied(request, *denied[0])

    async def _judge(self, policy: Raw, request: Attributes) -> AsyncIterator[tuple[Raw, Denial]]:
        matched = self._matcher.policy_version(policy["spec"].get("matchConstraints"), request)
        if matched is None:
            return
        shown = await self._matcher.in_version(request, matched)
        for _, binding in sorted(self._bindings.items()):
            spec = binding["spec"]
            if spec.get("policyName") != policy["metadata"]["name"]:
                continue
            if self._matcher.policy_version(spec.get("matchResources"), request):
                for denial in await self._denials(policy["spec"], spec, shown):
                    yield binding, denial

    async def _denials(self, policy: Raw, binding: Raw, request: Attributes) -> list[Denial]:
        """The denials of a policy with each of the binding's parameters."""
        try:
            params = self._params(policy, binding, request.namespace)
        except _ConfigurationError as error:
            fails = policy.get("failurePolicy", "Fail") == "Fail"
            return [Denial(f"failed to configure binding: {error}")] if fails else []
        namespace = None
        if request.namespace and not request.of_namespace:
            namespace = self._matcher.namespace(request.namespace)
        ask = asking(self._authorizer, request.call.user)
        found: list[Denial] = []
        for param in params:
            found += await denials(policy, request, param, namespace, ask)
        return found

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


def _gvk_text(kind: Raw) -> str:
    group, _, version = kind["apiVersion"].rpartition("/")
    return f"{group}/{version}, Kind={kind['kind']}"


def _denied(request: Attributes, policy: str, binding: str, denial: Denial) -> StatusError:
    message = (
        f"ValidatingAdmissionPolicy '{policy}' with binding '{binding}' denied request: "
        f"{denial.message}"
    )
    resource = request.resource
    error = api_errors.forbidden(
        resource.group, resource.plural, request.name, message, causes=[{"message": message}]
    )
    return StatusError(
        str(error),
        status=_CODES[denial.reason],
        reason=denial.reason,
        details=error.details,
    )
