"""Objects in another version of their kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.local.apiserver import codec

if TYPE_CHECKING:
    from muster.api.meta import Raw
    from muster.local.apiserver.resource import Resource


class Converter:
    """Converts objects between versions."""

    async def shown_as(self, objects: list[Raw], source: Resource, target: Resource) -> list[Raw]:
        """Objects of one version as another version shows them."""
        return [
            codec.decode(
                codec.in_version(
                    codec.as_stored(source.strategy.to_stored(obj), source.stored_api_version),
                    target,
                )
            )
            for obj in objects
        ]
