"""The form of an answer, from the Accept header: JSON or YAML; the object, a Table, or metadata.

A client that asks for protobuf gets JSON: every such client accepts JSON too.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from kubekit.errors import StatusError

JSON, YAML = "application/json", "application/yaml"
_OFFERED = (JSON, YAML, "application/vnd.kubernetes.protobuf")
_STREAMED = ", ".join(f"{media};stream=watch" for media in _OFFERED if media != YAML)
_ONE = frozenset({"Table", "PartialObjectMetadata"})
_MANY = frozenset({"Table", "PartialObjectMetadataList"})
_FORMS = {"watch": _ONE | _MANY, "list": _MANY, "deletecollection": _MANY}


class Form(NamedTuple):
    """Media type and shape of an answer."""

    media: str = JSON
    shape: str = ""
    """Table, PartialObjectMetadata, PartialObjectMetadataList, or nothing for the object itself."""


PLAIN_JSON = Form()


def _choices(accept: str) -> list[tuple[str, dict[str, str]]]:
    """Media types and their parameters, by preference; q=0 excludes a type."""
    choices = []
    for choice in accept.split(","):
        media, *options = [part.strip() for part in choice.split(";")]
        parameters = dict(option.partition("=")[::2] for option in options)
        try:
            quality = float(parameters.get("q", 1))
        except ValueError:
            quality = 1.0
        if quality > 0:
            choices.append((-quality, media, parameters))
    return [choice[1:] for choice in sorted(choices, key=lambda choice: choice[0])]


def media_of(accept: str) -> str:
    """The media type of an error: the preferred one, or JSON if none is possible."""
    try:
        return negotiate(accept).media
    except StatusError:
        return JSON


def _fits(verb: str, media: str, shape: str) -> bool:
    """Whether a form is possible for a verb."""
    if verb == "watch" and media == YAML:  # a stream without end is no YAML document
        return False
    return not shape or shape in _FORMS.get(verb, _ONE)


# Clients send the same few headers with every request.
@lru_cache(maxsize=256)
def negotiate(accept: str, verb: str = "") -> Form:
    """The preferred form that is possible for a verb; 406 if there is none."""
    if not accept:
        return PLAIN_JSON
    any_offered = False
    for media, parameters in _choices(accept):
        if media not in (*_OFFERED, "*/*"):
            continue
        any_offered = True
        shape = parameters.get("as", "")
        if not shape or (shape in _ONE | _MANY and parameters.get("v") == "v1"):
            if not _fits(verb, media, shape):
                break  # as with a real server, the next choice is not tried
            return Form(YAML if media == YAML else JSON, shape)
    offered = _STREAMED if verb == "watch" else ", ".join(_OFFERED)
    if any_offered:
        message = f"only the following media types are accepted: {offered}"
        raise StatusError(message, status=406, reason="NotAcceptable")
    message = f"406: Not Acceptable\n\nAvailable representations: {offered}"
    raise StatusError(message, status=406, reason="NotAcceptable", details={})
