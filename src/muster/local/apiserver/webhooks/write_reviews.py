"""Webhooks and policies for writes: the objects as they see them, and the changes back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from muster.local.apiserver import codec
from muster.local.apiserver.admission import admit
from muster.local.apiserver.webhooks.attributes import (
    CONNECT,
    CREATE,
    DELETE,
    UPDATE,
    attributes_of,
)

if TYPE_CHECKING:
    from muster.api.meta import Raw
    from muster.local.apiserver.http.requests import Answer, Call
    from muster.local.apiserver.webhooks.attributes import Attributes
    from muster.local.apiserver.webhooks.dispatch import AdmissionWebhooks, Complete


PolicyCheck = Callable[["Call", str, "Raw | None", "Raw | None"], None]
"""Raises if an admission policy denies the operation on the new and the old object."""


class View(NamedTuple):
    """A subresource with a kind of its own: the Scale of an object."""

    show: Callable[[Raw], Raw]
    take: Callable[[Raw, Raw], Raw]
    """From the object and its changed view to the changed object."""
    kind: Raw
    subresource: str


class WriteReviews:
    """Sends writes to the policies and webhooks that they concern; without any, all pass."""

    def __init__(self, webhooks: AdmissionWebhooks | None = None) -> None:
        self._webhooks = webhooks
        self.check_policies: PolicyCheck | None = None

    def check(self, call: Call, operation: str, new: Raw | None, old: Raw | None) -> None:
        """Raise if an admission policy denies the write."""
        if self.check_policies is not None:
            self.check_policies(call, operation, new, old)

    def _concerned(self, call: Call) -> AdmissionWebhooks | None:
        webhooks = self._webhooks
        if webhooks is None or not webhooks.configured:
            return None
        return webhooks if webhooks.concern(call) else None

    # -- create ----------------------------------------------------------------------------------

    async def mutate_new(self, call: Call, new: Raw, complete: Complete) -> Raw:
        """A new object after the mutating webhooks; it has neither a uid nor a generated name."""
        webhooks = self._concerned(call)
        if webhooks is None:
            return new
        strategy, shown = call.resource.strategy, _shown(call, new)
        request = attributes_of(call, CREATE, codec.copy(shown))
        changed = await webhooks.mutate(request, complete)
        if changed is None or changed == shown:
            return new
        owners = new["metadata"].get("managedFields")
        new = strategy.to_stored(changed)
        _set_owners(new, owners)
        new["metadata"]["namespace"] = call.route.namespace
        if not call.resource.namespaced:
            del new["metadata"]["namespace"]
        admit.drop_status(call.resource, new)
        strategy.apply_schema(call.resource, new, None)
        return new

    async def check_new(self, call: Call, new: Raw) -> None:
        """Ask policies and validating webhooks about a new object."""
        self.check(call, CREATE, new, None)
        if webhooks := self._concerned(call):
            await webhooks.validate(attributes_of(call, CREATE, _shown(call, new)))

    async def admit_body(self, call: Call, body: Raw, kind: Raw) -> Raw:
        """The body of a subresource that is created, such as a Binding, after all webhooks."""
        if webhooks := self._concerned(call):
            request = attributes_of(call, CREATE, codec.copy(body), kind=kind)
            body = await webhooks.admit(request) or body
        self.check(call, CREATE, body, None)
        return body

    # -- update ----------------------------------------------------------------------------------

    async def mutate_changed(self, call: Call, new: Raw, old: Raw, view: View | None) -> Raw:
        """A changed object after the mutating webhooks."""
        webhooks = self._concerned(call)
        if webhooks is None:
            return new
        request = _update(call, new, old, view)
        shown = request.obj
        changed = await webhooks.mutate(replace(request, obj=codec.copy(shown or {})))
        if changed is None or changed == shown:
            return new
        if view is not None:
            return view.take(new, changed)
        owners = new["metadata"].get("managedFields")
        new = call.resource.strategy.to_stored(changed)
        new = admit.protect(call.resource, new, old, call.route.subresource)
        _set_owners(new, owners)
        call.resource.strategy.apply_schema(call.resource, new, old)
        return new

    async def check_changed(self, call: Call, new: Raw, old: Raw, view: View | None) -> None:
        """Ask policies and validating webhooks about a changed object.

        Policies have seen a `view` before: they need it as the client wrote it.
        """
        if view is None:
            self.check(call, UPDATE, new, old)
        webhooks = self._concerned(call)
        if webhooks is None:
            return
        if "resourceVersion" not in new["metadata"]:  # the client overwrites any revision
            revision = {"resourceVersion": old["metadata"].get("resourceVersion")}
            new = {**new, "metadata": {**new["metadata"], **revision}}
        await webhooks.validate(_update(call, new, old, view))

    # -- delete and connect ----------------------------------------------------------------------

    async def check_deletion(
        self, call: Call, old: Callable[[], Awaitable[Answer]], options: Raw, *, named: bool
    ) -> None:
        """Ask policies and webhooks about a deletion; that of a collection names no object."""
        webhooks = self._concerned(call)
        if webhooks is None and self.check_policies is None:
            return
        shown = codec.decode((await old()).body)
        self.check(call, DELETE, None, shown)
        if webhooks is None:
            return
        head = {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"}
        request = attributes_of(call, DELETE, None, shown)
        request = replace(request, options={**options, **head})
        await webhooks.admit(request if named else replace(request, name=""))

    async def check_connection(self, call: Call, options: Raw) -> None:
        """Ask all webhooks about a connection to a pod; `options` say what is asked for."""
        webhooks = self._concerned(call)
        if webhooks is not None:
            kind = {"group": "", "version": "v1", "kind": options["kind"]}
            await webhooks.admit(attributes_of(call, CONNECT, options, kind=kind))


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
