"""JSON patch (RFC 6902), read as generously as Kubernetes reads it.

Neither the object nor the patch is changed. A missing field of a map counts as null: it can be
replaced, tested for null, and copied. Indexes may be signed, and the part of a path before its
first slash is ignored.

A patch that copies a value into itself doubles it with every operation. So the copied bytes are
counted, as kube-apiserver counts them, and the depth of the copies is bounded. An item that is
inserted into a list or removed from it moves the items behind it: these are counted too, because
nobody else is answered meanwhile.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from localkube.apiserver import codec
from localkube.apiserver.api_errors import bad_request, too_large, unprocessable
from localkube.apiserver.http.bodies import check_depth

if TYPE_CHECKING:
    from kubekit.objects.meta import Raw

MAX_OPERATIONS = 10_000  # as with kube-apiserver
MAX_COPIED = 3 * 1024 * 1024  # bytes of JSON in all copies of a patch, as with kube-apiserver
MAX_MOVED = 500_000_000
"""Items of lists that one patch may move, about 0.2 s: 10,000 operations on a list of 50,000."""
_sorted = msgspec.json.Encoder(order="sorted")
_INDEX = re.compile("[+-]?[0-9]{1,9}")


def json_patch(target: Raw, patch: Any) -> Raw:
    """Apply the operations in order; a failed `test` or a missing path fails them all."""
    operations = [] if patch is None else patch
    if not isinstance(operations, list):
        raise bad_request("json patch must be a list of operations")
    if len(operations) > MAX_OPERATIONS:
        raise too_large(f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}")
    if not all(operation is None or isinstance(operation, dict) for operation in operations):
        raise bad_request("json patch: an operation must be an object")
    try:
        document = _applied(target, operations)
    except RecursionError as error:  # a copy into itself is twice as deep every time
        raise unprocessable() from error
    check_depth(document, "the object after the patch")
    return document


def _applied(target: Raw, operations: list[Raw | None]) -> Raw:
    document, work = codec.copy(target), _Work()
    for operation in (operation or {} for operation in operations):
        _check_types(operation)
        if operation.get("op") == "replace" and operation.get("path") == "":
            document = _document(_copy(operation.get("value")))
        else:
            _apply(document, operation, work)
    return document


@dataclass
class _Work:
    """The work of one patch that its size does not bound."""

    copied: int = 0
    moved: int = 0

    def count_copied(self, encoded: bytes) -> None:
        self.copied += len(encoded)
        if self.copied > MAX_COPIED:
            raise unprocessable()

    def count_moved(self, place: _Place) -> None:
        """Count all items of the place's list, unless an item is added to its end."""
        if isinstance(place.parent, list) and place.key != "-":
            self.moved += len(place.parent)
        if self.moved > MAX_MOVED:
            raise too_large("The JSON patch has too many operations on a long list")


def _check_types(operation: Raw) -> None:
    for name in ("op", "path", "from"):
        if not isinstance(operation.get(name), str | None):
            raise bad_request(f"json patch: the {name} of an operation must be text")


def _document(value: Any) -> Raw:
    if not isinstance(value, dict):
        raise unprocessable()
    return value


def _apply(document: Raw, operation: Raw, work: _Work) -> None:
    """Apply one operation in place, and count its work."""
    place, value = _place(document, operation.get("path")), operation.get("value")
    if operation.get("op") not in ("replace", "test"):
        work.count_moved(place)
    match operation.get("op"):
        case "add":
            place.add(_copy(value))
        case "replace":
            place.put(_copy(value))
        case "remove":
            place.remove()
        case "test":
            # Compared as JSON: in Python, True == 1 and 1 == 1.0.
            if _sorted.encode(place.get()) != _sorted.encode(value):
                raise unprocessable()
        case "copy":
            encoded = codec.dump(_place(document, operation.get("from")).get())
            work.count_copied(encoded)
            place.add(codec.decode(encoded))
        case "move":
            source = _place(document, operation.get("from"))
            work.count_moved(source)
            moved = source.get()
            source.remove()
            # Resolved again: the removal may have shifted the items of the target's list.
            _place(document, operation["path"]).add(moved)
        case _:
            raise unprocessable()


def _copy(value: Any) -> Any:
    return codec.decode(codec.dump(value))


class _Place(NamedTuple):
    """A place in a map or a list, which may have no value yet."""

    parent: Any
    key: str

    def get(self) -> Any:
        """The value; a missing field of a map is null."""
        if isinstance(self.parent, dict):
            return self.parent.get(self.key)
        return self.parent[self._index(len(self.parent))]

    def add(self, value: Any) -> None:
        if isinstance(self.parent, dict):
            self.parent[self.key] = value
        elif self.key == "-":
            self.parent.append(value)
        else:
            self.parent.insert(self._index(len(self.parent) + 1), value)

    def put(self, value: Any) -> None:
        where = self.key if isinstance(self.parent, dict) else self._index(len(self.parent))
        self.parent[where] = value

    def remove(self) -> None:
        if isinstance(self.parent, list):
            del self.parent[self._index(len(self.parent))]
        elif self.key in self.parent:
            del self.parent[self.key]
        else:
            raise unprocessable()

    def _index(self, size: int) -> int:
        index = int(self.key) if _INDEX.fullmatch(self.key) else size
        if not -size <= index < size:
            raise unprocessable()
        return index % size


def _place(document: Raw, pointer: Any) -> _Place:
    """The place of a pointer; only its last part may be missing."""
    if not isinstance(pointer, str) or "/" not in pointer:
        raise unprocessable()
    # In this order (RFC 6901): `~01` is `~1`, not `/`.
    *parts, key = [p.replace("~1", "/").replace("~0", "~") for p in pointer.split("/")[1:]]
    parent: Any = document
    for part in parts:
        parent = _Place(parent, part).get()
        if not isinstance(parent, dict | list):
            raise unprocessable()
    return _Place(parent, key)
