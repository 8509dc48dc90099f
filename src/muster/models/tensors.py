"""The tensors in `.safetensors` files, from their headers alone.

The files are hostile input: every size that they state is checked against the file and a limit, and
no array is read. `Damaged` means that the file is not complete, so that its version is not yet one.
"""

from __future__ import annotations

import os
import struct
from typing import Annotated

import msgspec

from kubekit.objects.kinds import decoder_of
from muster.contract.exported_models import Tensor

MAX_TENSORS = 200
MAX_TEXT = 200
_MAX_HEADER = 1 << 20
"""Bytes of a safetensors header, of some ten thousand tensors; a parsed one is far larger."""
_SAFE_NAMES = {"F": "float", "BF": "bfloat", "I": "int", "U": "uint"}


class Damaged(Exception):
    """The file is not complete, or not of its format."""


class TooLarge(Damaged):
    """The file may be complete, but has more parts than are read."""


def text(value: str) -> str:
    """A name from a file, short enough to publish."""
    return value if len(value) <= MAX_TEXT else f"{value[:MAX_TEXT]}…"


_Size = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class _SafeTensor(msgspec.Struct):
    dtype: str = ""
    shape: tuple[_Size, ...] = ()
    data_offsets: tuple[_Size, _Size] = (0, 0)


def safetensors(file: int) -> tuple[Tensor, ...]:
    """The tensors of a safetensors file: eight bytes of length, then JSON."""
    size = os.fstat(file).st_size
    head = os.pread(file, 8, 0)
    if len(head) < 8:
        raise Damaged
    (length,) = struct.unpack("<Q", head)
    if length > size - 8:
        raise Damaged
    if length > _MAX_HEADER:
        return ()
    try:
        rows = msgspec.json.decode(os.pread(file, length, 8), type=dict[str, msgspec.Raw])
        rows.pop("__metadata__", None)
        tensors = {
            name: decoder_of(_SafeTensor).decode(raw)
            for name, raw in sorted(rows.items())[:MAX_TENSORS]
        }
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Damaged from error
    if any(row.data_offsets[1] > size - 8 - length for row in tensors.values()):
        raise Damaged
    return tuple(
        Tensor(text(name), _safe_dtype(row.dtype), row.shape[:16]) for name, row in tensors.items()
    )


def _safe_dtype(name: str) -> str:
    letters = name.rstrip("0123456789")
    known = _SAFE_NAMES.get(letters)
    return text(f"{known}{name[len(letters) :]}" if known else name.lower())
