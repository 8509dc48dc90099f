"""The body of a patch request: JSON patch, merge patch, strategic merge patch or apply."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from localkube.apiserver.api_errors import bad_request, invalid, required
from localkube.apiserver.http import bodies
from localkube.apiserver.patch.json_patch import json_patch
from localkube.apiserver.patch.merge_patch import merge, strategic_merge

if TYPE_CHECKING:
    from kubekit.objects.meta import Raw
    from kubekit.schemas import Schema
    from localkube.apiserver.http.requests import Call


class Patch(NamedTuple):
    """A decoded patch."""

    media_type: str
    body: Any

    @property
    def is_apply(self) -> bool:
        return self.media_type == bodies.APPLY

    @property
    def is_strategic(self) -> bool:
        return self.media_type == bodies.STRATEGIC_MERGE_PATCH

    def patched(self, old: Raw, schema: Schema | None) -> Raw:
        """The object after a patch that is no apply; it may share parts with the old one."""
        match self.media_type:
            case bodies.JSON_PATCH:
                new = json_patch(old, self.body)
            case bodies.STRATEGIC_MERGE_PATCH:
                new = strategic_merge(old, self.body, schema)
            case _:
                new = merge(old, self.body)
        return new


def read_patch(call: Call) -> Patch:
    """The patch in the body of a request."""
    # Kubernetes has no strategic merge patch for custom kinds, except for their Scale.
    strategic = not call.resource.custom or call.route.subresource == "scale"
    media_type = bodies.media_type(call.content_type)
    patch = Patch(media_type, bodies.read_patch(call.body, media_type, strategic=strategic))
    if patch.is_apply:
        _check_apply(call, patch.body)
    return patch


def _check_apply(call: Call, body: Raw) -> None:
    """An apply needs a field manager, a version and a kind."""
    if not call.query.get("fieldManager"):
        cause = required("fieldManager", "is required for apply patch")
        raise invalid("meta.k8s.io", "PatchOptions", "", [cause])
    if not body.get("apiVersion") or not body.get("kind"):
        raise bad_request("apiVersion and kind must be set in an applied object")
