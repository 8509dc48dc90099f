"""Names of images, checked as the kubelet does: a name is not a path."""

from __future__ import annotations

import re

from kubekit.errors import InvalidImageName

# The grammar of an image reference: [host[:port]/]component[/component …][:tag][@digest]
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_HOST = rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[A-Fa-f0-9:]+\])(?::[0-9]+)?"
_COMPONENT = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_TAG = r":[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}"
_DIGEST = r"@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}"
_NAME = re.compile(
    rf"(?:{_HOST}/)?{_COMPONENT}(?:/{_COMPONENT})*(?:{_TAG})?(?:{_DIGEST})?", re.ASCII
)
_MAX_LENGTH = 4096


def check_image_name(image: str) -> None:
    """Raise InvalidImageName, with the kubelet's words, for a name that no image can have."""
    if image and (len(image) > _MAX_LENGTH or not _NAME.fullmatch(image)):
        shown = image[:100]
        raise InvalidImageName(
            f'Failed to apply default image tag "{shown}": '
            f'couldn\'t parse image name "{shown}": invalid reference format'
        )
