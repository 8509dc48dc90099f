"""Webhooks and policies for requests: the objects as they see them, and the changes back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from localkube.apiserver import codec
from localkube.apiserver.access.authentication import INTERNAL_USER
from localkube.apiserver.admission import admit
from localkube.apiserver.admission.attributes import (
    CONNECT,
    CREATE,
    DELETE,
    UPDATE,
    attributes_of,
)
from localkube.apiserver.cel.evaluator import EVALUATOR

if TYPE_CHECKING:
    from kubekit.objects.meta import Raw
    from localkube.apiserver.admission.attributes import Attributes
    from localkube.apiserver.http.requests import Answer, Call
    from localkube.apiserver.webhooks.dispatch import AdmissionWebhooks, Complete

_GROUP = "admissionregistration.k8s.io"
PolicyCheck = Callable[["Attributes"], Awaitable[None]]
"""Raises if an admission policy denies the request."""


class View(NamedTuple):
    """A subresource with a kind of its own: the Scale of an object."""

    show: Callable[[Raw], Raw]
    take: Callable[[Raw, Raw], Raw]
    """From the object and its changed view to the changed object."""
    kind: Raw
    subresource: str


class WriteReviews:
    """Sends requests to the webhooks and policies that they concern; without any, all pass.

    Mutating webhooks come first, then policies, then validating webhooks.
    """

    def __init__(self, webhooks: AdmissionWebhooks | None = None) -> None:
        self._webhooks = webhooks
        self.check_policies: PolicyCheck | None = None

    def concern(self, call: Call) -> bool:
        """Whether a webhook or a policy may have to be asked: mostly not."""
        return self._policies_for(call) is not None or self._webhooks_for(call) is not None

    def _policies_for(self, call: Call) -> PolicyCheck | None:
        # Otherwise a policy could forbid its own removal. The same holds for webhooks.
        return None if call.resource.group == _GROUP else self.check_policies

    def _webhooks_for(self, call: Call) -> AdmissionWebhooks | None:
        webhooks = self._webhooks
        if webhooks is None or not webhooks.configured or call.resource.group == _GROUP:
            return None
        # The server's own writes go past webhooks: a failure would fail the request of another.
        return None if call.user is INTERNAL_USER else webhooks

    async def _mutate(self, request: Attributes, complete: Complete | None = None) -> Raw | None:
        webhooks = self._webhooks_for(request.call)
        return await webhooks.mutate(request, complete) if webhooks else request.obj

    async def _validate(self, request: Attributes) -> None:
        if check := self._policies_for(request.call):
            await check(request)
        if webhooks := self._webhooks_for(request.call):
            await webhooks.validate(request)

    async def _admit(self, request: Attributes) -> Raw | None:
        """Both steps at once, for requests whose object is not stored itself."""
        obj = await self._mutate(request)
        await self._validate(replace(request, obj=obj))
        return obj

    # -- create ----------------------------------------------------------------------------------

    async def mutate_new(self, call: Call, new: Raw, complete: Complete) -> Raw:
        """A new object after the mutating webhooks; it has neither a uid nor a generated name."""
        if self._webhooks_for(call) is None:
            return new
        strategy, shown = call.resource.strategy, _shown(call, new)
        changed = await self._mutate(attributes_of(call, CREATE, codec.copy(shown)), complete)
        if changed is None or changed == shown:
            return new
        owners = new["metadata"].get("managedFields")
        new = strategy.to_stored(changed)
        _set_owners(new, owners)
        new["metadata"]["namespace"] = call.route.namespace
        if not call.resource.namespaced:
            del new["metadata"]["namespace"]
        admit.drop_status(call.resource, new)
        await strategy.apply_schema(call.resource, new, None, EVALUATOR.run)
        return new

    async def check_new(self, call: Call, new: Raw) -> None:
        """Ask policies and validating webhooks about a new object."""
        await self._validate(attributes_of(call, CREATE, _shown(call, new)))

    async def admit_body(self, call: Call, body: Raw, kind: Raw) -> Raw:
        """The body of a subresource that is created, such as a Binding, after all webhooks."""
        if not self.concern(call):
            return body
        return await self._admit(attributes_of(call, CREATE, codec.copy(body), kind=kind)) or body

    # -- update ----------------------------------------------------------------------------------

    async def mutate_changed(self, call: Call, new: Raw, old: Raw, view: View | None) -> Raw:
        """A changed object after the mutating webhooks."""
        if self._webhooks_for(call) is None:
            return new
        request = _update(call, new, old, view)
        shown = request.obj
        changed = await self._mutate(replace(request, obj=codec.copy(shown or {})))
        if changed is None or changed == shown:
            return new
        if view is not None:
            return view.take(new, changed)
        owners = new["metadata"].get("managedFields")
        new = call.resource.strategy.to_stored(changed)
        new = admit.protect(call.resource, new, old, call.route.subresource)
        _set_owners(new, owners)
        await call.resource.strategy.apply_schema(call.resource, new, old, EVALUATOR.run)
        return new

    async def check_changed(self, call: Call, new: Raw, old: Raw, view: View | None) -> None:
        """Ask policies and validating webhooks about a changed object."""
        if "resourceVersion" not in new["metadata"]:  # the client overwrites any revision
            revision = {"resourceVersion": old["metadata"].get("resourceVersion")}
            new = {**new, "metadata": {**new["metadata"], **revision}}
        await self._validate(_update(call, new, old, view))

    # -- delete and connect ----------------------------------------------------------------------

    async def check_deletion(
        self, call: Call, old: Callable[[], Awaitable[Answer]], options: Raw, *, named: bool
    ) -> None:
        """Ask policies and webhooks about a deletion; that of a collection names no object."""
        if not self.concern(call):
            return
        shown = codec.decode((await old()).body)
        head = {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"}
        request = attributes_of(call, DELETE, None, shown)
        request = replace(request, options={**options, **head})
        await self._admit(request if named else replace(request, name=""))

    async def check_connection(self, call: Call, options: Raw) -> None:
        """Ask webhooks and policies about a connection to a pod; `options` say what for."""
        if self.concern(call):
            kind = {"group": "", "version": "v1", "kind": options["kind"]}
            await self._admit(attributes_of(call, CONNECT, options, kind=kind))


def _shown(call: Call, obj: Raw) -> Raw:
    return call.resource.strategy.from_stored(obj, call.resource.api_version)


def _update(call: Call, new: Raw, old: Raw, view: View | None) -> Attributes:
    if view is not None:
        request = attributes_of(call, UPDATE, view.show(new), view.show(old), view.kind)
        return replace(request, subresource=view.subresource)
    return attributes_of(call, UPDATE, _shown(call, new), _shown(call, old))


def _set_owners(obj: Raw, owners: list[Raw] | None) -> None:
    """Owners follow the requests of clients, not the changes of webhooks."""
    obj["metadata"].pop("managedFields", None)
    if owners:
        obj["metadata"]["managedFields"] = owners
