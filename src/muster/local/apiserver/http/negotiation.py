"""In which form a client wants its answer: JSON or YAML; as it is, as a table, or metadata only.

Pure; asked by `serve.py` before anything is done. Clients that ask for protobuf get JSON, which
they all accept.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from muster.errors import StatusError

JSON, YAML = "application/json", "application/yaml"
_OFFERED = (JSON, YAML, "application/vnd.kubernetes.protobuf")
_STREAMED = ", ".join(f"{media};stream=watch" for media in _OFFERED if media != YAML)
_ONE = frozenset({"Table", "PartialObjectMetadata"})
_MANY = frozenset({"Table", "PartialObjectMetadataList"})
_FORMS = {"watch": _ONE | _MANY, "list": _MANY, "deletecollection": _MANY}


class Form(NamedTuple):
    """What is sent, and how."""

    media: str = JSON
    shape: str = ""
    """Table, PartialObjectMetadata, PartialObjectMetadataList, or nothing for the object itself."""


def _choices(accept: str) -> list[tuple[str, dict[str, str]]]:
    """Media types and their parameters, the most wanted first; what is not wanted is left out."""
    found = []
    for choice in accept.split(","):
        media, *options = [part.strip() for part in choice.split(";")]
        chosen = dict(option.partition("=")[::2] for option in options)
        try:
            wanted = float(chosen.get("q", 1))
        except ValueError:
            wanted = 1.0
        if wanted > 0:
            found.append((-wanted, media, chosen))
    return [(media, chosen) for _, media, chosen in sorted(found, key=lambda choice: choice[0])]


def media_of(accept: str) -> str:
    """How a refusal is sent: as the client wants it, if that can be."""
    try:
        return negotiate(accept).media
    except StatusError:
        return JSON


def _fits(verb: str, media: str, shape: str) -> bool:
    """Whether what a client likes best goes with what it wants; then it is not asked again."""
    if verb == "watch" and media == YAML:  # a watch has no end, and so is no document
        return False
    return not shape or shape in _FORMS.get(verb, _ONE)


@lru_cache(maxsize=256)
def negotiate(accept: str, verb: str = "") -> Form:
    """The form that the client likes best and the verb has; 406 if there is none."""
    if not accept:
        return Form()
    known = False
    for media, chosen in _choices(accept):
        if media not in (*_OFFERED, "*/*"):
            continue
        known = True
        shape = chosen.get("as", "")
        if not shape or (shape in _ONE | _MANY and chosen.get("v") == "v1"):
            if not _fits(verb, media, shape):
                break
            return Form(YAML if media == YAML else JSON, shape)
    listed = _STREAMED if verb == "watch" else ", ".join(_OFFERED)
    if known:
        told = f"only the following media types are accepted: {listed}"
        raise StatusError(told, status=406, reason="NotAcceptable")
    told = f"406: Not Acceptable\n\nAvailable representations: {listed}"
    raise StatusError(told, status=406, reason="NotAcceptable", details={})
