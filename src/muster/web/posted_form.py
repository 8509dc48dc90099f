"""The fields of a form that a page has sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubekit.errors import UsageError

if TYPE_CHECKING:
    from aiohttp import web

_CONTENT_TYPE = "application/x-www-form-urlencoded"


async def fields_of(request: web.Request) -> dict[str, str]:
    """The fields by name; none if the body is no form.

    No page of the dashboard sends files, so `multipart/form-data`, for which aiohttp writes
    temporary files, is never read.
    """
    if request.content_type != _CONTENT_TYPE:
        return {}
    try:
        fields = await request.post()
    except (UnicodeDecodeError, LookupError) as error:
        raise UsageError(f"The form cannot be read: {error}.") from None
    return {name: value for name, value in fields.items() if isinstance(value, str)}
