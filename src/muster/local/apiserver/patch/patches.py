"""The body of a patch request: JSON patch, merge patch, strategic merge patch or apply."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from muster.local.apiserver.http import bodies
from muster.local.apiserver.patch import merge_patch
from muster.local.apiserver.patch.json_patch import json_patch
from muster.local.apiserver.patch.server_side_apply import APPLY_MEDIA_TYPE, apply, check_apply

if TYPE_CHECKING:
    from muster.api.meta import Raw
    from muster.api.schemas import Schema
    from muster.local.apiserver.http.requests import Call


class Patch(NamedTuple):
    """A decoded patch."""

    media_type: str
    body: Any

    @property
    def is_apply(self) -> bool:
        return self.media_type == APPLY_MEDIA_TYPE

    @property
    def is_strategic(self) -> bool:
        return "strategic" in self.media_type

    def patched(self, old: Raw, schema: Schema | None) -> Raw:
        """The object after the patch; it may share parts with the old one."""
        if self.media_type == "application/json-patch+json":
            return json_patch(old, self.body)
        if self.is_apply:
            applied: Raw = apply(old, self.body, schema)
            return applied
        if self.is_strategic:
            merged: Raw = merge_patch.strategic_merge(old, self.body, schema)
        else:
            merged = merge_patch.merge(old, self.body)
        return merged


def read_patch(call: Call) -> Patch:
    """The patch in the body of a request; custom kinds have no strategic merge patch."""
    custom = call.resource.custom and call.route.subresource != "scale"
    accepted = tuple(p for p in bodies.PATCHES if "strategic" not in p or not custom)
    body = bodies.read_patch(call.body, call.content_type, accepted)
    patch = Patch(bodies.media_type(call.content_type), body)
    if patch.is_apply:
        check_apply(call, body)
    return patch
