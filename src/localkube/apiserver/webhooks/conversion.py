"""Objects in another version of their kind.

Most custom kinds convert by name alone: the version is replaced, and fields that the other version
does not have are dropped (`codec.in_version`). A definition with the strategy `Webhook` asks its
webhook, for all objects of a list at once. The stored object keeps its metadata; a webhook changes
labels and annotations only.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from kubekit.errors import StatusError
from localkube.apiserver import codec
from localkube.apiserver.admission import names
from localkube.apiserver.schema import structural
from localkube.apiserver.webhooks.client import CallError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kubekit.objects.meta import Raw
    from localkube.apiserver.resource import Resource
    from localkube.apiserver.webhooks.client import WebhookClient

GROUP = "apiextensions.k8s.io"
_KNOWN = ("v1", "v1beta1")
_SECONDS = 30


class Converter:
    """Converts objects between versions."""

    def __init__(self, client: WebhookClient | None = None) -> None:
        self._client = client

    async def shown(self, values: Sequence[bytes], resource: Resource) -> list[bytes]:
        """Stored bytes as the version of `resource` shows them."""
        if not resource.conversion:
            return [codec.in_version(value, resource) for value in values]
        objects = [codec.decode(value) for value in values]
        for obj in objects:
            schema = resource.storage_schema or resource.walkable_schema
            if schema is not None and obj["apiVersion"] == resource.stored_api_version:
                structural.reshape(obj, schema)
        api_version = resource.api_version
        converted = await self._converted(objects, resource, api_version)
        return [codec.in_version(codec.as_stored(obj, api_version), resource) for obj in converted]

    async def to_storage(self, obj: Raw, resource: Resource) -> Raw:
        """An object of this version in the storage version, for a kind with a webhook."""
        source = {**obj, "apiVersion": resource.api_version}
        return (await self._converted([source], resource, resource.stored_api_version))[0]

    async def as_if_stored(self, obj: Raw, resource: Resource) -> Raw:
        """An object of this version as it would be read after it was stored."""
        stored = await self.to_storage(obj, resource)
        return (await self._converted([stored], resource, resource.api_version))[0]

    async def shown_as(self, objects: list[Raw], source: Resource, target: Resource) -> list[Raw]:
        """Objects of one version as another version shows them."""
        if source.conversion:
            values = [codec.as_stored(obj, source.api_version) for obj in objects]
        else:
            stored = source.stored_api_version
            values = [codec.as_stored(source.strategy.to_stored(obj), stored) for obj in objects]
        return [codec.decode(value) for value in await self.shown(values, target)]

    async def _converted(self, objects: list[Raw], resource: Resource, version: str) -> list[Raw]:
        """The objects in a version; those that have another one are sent to the webhook."""
        others = [obj for obj in objects if obj["apiVersion"] != version]
        if not others:
            return objects
        group, _, number = others[0]["apiVersion"].rpartition("/")
        what = f"conversion webhook for {group}/{number}, Kind={resource.kind}"
        try:
            answer = iter(await self._ask(others, resource.conversion, version))
            return [
                _checked(obj, next(answer), version) if obj["apiVersion"] != version else obj
                for obj in objects
            ]
        except CallError as error:
            raise StatusError(f"{what} {error}", status=500) from error

    async def _ask(self, objects: list[Raw], conversion: Raw, version: str) -> list[Any]:
        assert self._client is not None
        known = [v for v in conversion.get("conversionReviewVersions") or () if v in _KNOWN]
        uid = str(uuid.uuid4())
        request = {"uid": uid, "desiredAPIVersion": version, "objects": objects}
        head = {"kind": "ConversionReview", "apiVersion": f"{GROUP}/{(known or _KNOWN)[0]}"}
        try:
            answer = await self._client.post(
                conversion["clientConfig"], {**head, "request": request}, _SECONDS
            )
        except CallError as error:
            raise CallError(f"failed: {error}") from error
        converted = _converted_objects(head, uid, answer)
        if len(converted) != len(objects):
            raise CallError(f"returned {len(converted)} objects, expected {len(objects)}")
        return converted


def _converted_objects(head: Raw, uid: str, answer: Any) -> list[Any]:
    """The objects in an answer."""
    received = answer if isinstance(answer, dict) else {}
    strict = head["apiVersion"] == f"{GROUP}/v1"
    kind, version = received.get("kind"), received.get("apiVersion")
    if strict and (kind, version) != (head["kind"], head["apiVersion"]):
        expected = f"{GROUP}/v1, Kind=ConversionReview"
        raise CallError(
            f"failed: expected webhook response of {expected}, got {version}, Kind={kind}"
        )
    response = received.get("response")
    if not isinstance(response, dict):
        raise CallError("failed: no response provided")
    if strict and response.get("uid") != uid:
        raise CallError(f'failed: expected response.uid="{uid}", got "{response.get("uid") or ""}"')
    result = response.get("result") or {}
    if result.get("status") != "Success":
        unnamed = f"response.result.status was '{result.get('status') or ''}', not 'Success'"
        raise CallError(f"failed: {result.get('message') or unnamed}")
    converted = response.get("convertedObjects") or []
    return converted if isinstance(converted, list) else []


def _checked(original: Raw, converted: Any, version: str) -> Raw:
    """A converted object, which must be the same object, with the metadata of the original."""
    problem = _problem(original, converted, version)
    if problem:
        raise CallError(f"returned invalid object: {problem}")
    metadata = {k: v for k, v in original["metadata"].items() if k not in ("labels", "annotations")}
    for field in ("labels", "annotations"):
        values = converted["metadata"].get(field)
        if values:
            metadata[field] = values
    return {**converted, "metadata": metadata}


def _problem(original: Raw, converted: Any, version: str) -> str:
    if not isinstance(converted, dict) or not isinstance(converted.get("metadata"), dict):
        return "missing metadata in converted object"
    if converted.get("apiVersion") != version:
        got = converted.get("apiVersion") or ""
        return f"invalid groupVersion (expected {version}, received {got})"
    if converted.get("kind") != original["kind"]:
        return f"invalid kind (expected {original['kind']}, received {converted.get('kind')})"
    for field, word in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
        before, after = original["metadata"].get(field, ""), converted["metadata"].get(field, "")
        if before != after:
            return f"must have the same {word}: {before} != {after}"
    for field in ("labels", "annotations"):
        values = converted["metadata"].get(field) or {}
        if not isinstance(values, dict) or not all(isinstance(v, str) for v in values.values()):
            return f"invalid metadata.{field} in converted object"
    causes = names.check_labels(converted["metadata"].get("labels") or {})
    return "; ".join(map(str, causes))
