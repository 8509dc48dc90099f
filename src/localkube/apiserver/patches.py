"""Patches: JSON patch, merge patch, strategic merge patch; the body of an apply is checked too.

Neither the object nor the patch is changed. A patched object may share parts with the old one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from localkube.apiserver import causes, codec
from localkube.apiserver.api_errors import bad_request, invalid, too_large, unprocessable
from localkube.apiserver.http import bodies
from localkube.apiserver.http.bodies import check_depth

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
        """The object after a patch that is not an apply; it may share parts with the old one."""
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
    if patch.is_apply and not call.query.get("fieldManager"):
        cause = causes.required("fieldManager", "is required for apply patch")
        raise invalid("meta.k8s.io", "PatchOptions", "", [cause])
    if patch.is_apply and not (patch.body.get("apiVersion") and patch.body.get("kind")):
        raise bad_request("apiVersion and kind must be set in an applied object")
    return patch


# -- JSON patch ------------------------------------------------------------------------------------


MAX_OPERATIONS = 10_000  # as with kube-apiserver
MAX_COPIED = 3 * 1024 * 1024  # bytes of JSON in all copies of a patch, as with kube-apiserver
MAX_MOVED = 500_000_000
"""Items of lists that one patch may move, about 0.2 s: 10,000 operations on a list of 50,000."""
_sorted = msgspec.json.Encoder(order="sorted")
_INDEX = re.compile("[+-]?[0-9]{1,9}")


def json_patch(target: Raw, patch: Any) -> Raw:
    """Apply the operations in order; a failed `test` or a missing path fails them all.

    RFC 6902, read as generously as Kubernetes reads it: a missing field of a map counts as null, so
    it can be replaced, tested for null, and copied. Indexes may be signed, and the part of a path
    before its first slash is ignored.

    A patch that copies a value into itself doubles it with every operation. So the copied bytes are
    counted, as kube-apiserver counts them, and the depth of the copies is bounded. An item that is
    inserted into a list or removed from it moves the items behind it: these are counted too,
    because nobody else is answered until it ends.
    """
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
        for name in ("op", "path", "from"):
            if not isinstance(operation.get(name), str | None):
                raise bad_request(f"json patch: the {name} of an operation must be text")
        if operation.get("op") != "replace" or operation.get("path") != "":
            _apply(document, operation, work)
        elif isinstance(operation.get("value"), dict):
            document = codec.copy(operation["value"])
        else:
            raise unprocessable()
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


def _apply(document: Raw, operation: Raw, work: _Work) -> None:
    """Apply one operation in place, and count its work."""
    place, value = _place(document, operation.get("path")), operation.get("value")
    if operation.get("op") not in ("replace", "test"):
        work.count_moved(place)
    match operation.get("op"):
        case "add":
            place.add(codec.copy(value))
        case "replace":
            place.put(codec.copy(value))
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


# -- merge patch -----------------------------------------------------------------------------------


def merge(target: Any, patch: Any) -> Any:
    """Maps are merged, null removes, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


# -- strategic merge patch -------------------------------------------------------------------------


_ORDER = "$setElementOrder/"
_DROP = "$deleteFromPrimitiveList/"
_RETAIN = "$retainKeys"


def strategic_merge(target: Any, patch: Any, schema: Schema | None) -> Any:
    """Like `merge`, but lists that the schema calls mergeable are patched item by item.

    The schema says which lists are sets or maps, and by which key.
    """
    if not isinstance(patch, dict):
        return patch
    _check_directives(patch)
    if "$patch" in patch and patch["$patch"] != "merge":
        return _plain(patch) if patch["$patch"] == "replace" else {}
    result = dict(target) if isinstance(target, dict) else {}
    if _RETAIN in patch:
        result = {k: v for k, v in result.items() if k in patch[_RETAIN]}
    for key, value in patch.items():
        if key.startswith(_DROP):
            field = key.removeprefix(_DROP)
            if isinstance(result.get(field), list):
                result[field] = [v for v in result[field] if v not in value]
        elif not key.startswith("$"):
            _merge_field(result, key, value, schema.field(key) if schema else None)
    # Orders last: they apply to the lists after all items were merged.
    for key, order in patch.items():
        field = key.removeprefix(_ORDER)
        if field != key and isinstance(result.get(field), list):
            known = schema.field(field) if schema else None
            before = target.get(field) if isinstance(target, dict) else None
            merge_key = known.merge_key if known else ""
            result[field] = _ordered(result[field], order, before or [], merge_key)
    return result


def _check_directives(patch: Raw) -> None:
    for key, value in patch.items():
        if key.startswith((_ORDER, _DROP, _RETAIN)) and not isinstance(value, list):
            raise bad_request(f"strategic merge patch: {key} must be a list")


def _merge_field(result: Raw, key: str, value: Any, schema: Schema | None) -> None:
    if value is None:
        result.pop(key, None)
    elif isinstance(value, list) and schema is not None and schema.merges:
        result[key] = _merge_list(result.get(key) or [], value, schema)
    elif isinstance(value, list):
        result[key] = _plain(value)
    else:
        result[key] = strategic_merge(result.get(key), value, schema)


def _merge_list(target: list[Any], patch: list[Any], schema: Schema) -> list[Any]:
    key = schema.merge_key
    if not key:  # a set of plain values
        whole = target + [value for value in patch if value not in target]
        return _ordered(whole, patch, target, key)
    if any(isinstance(item, dict) and item.get("$patch") == "replace" for item in patch):
        return [_plain(i) for i in patch if i.get("$patch") != "replace"]
    result = list(target)
    for item in patch:
        if not isinstance(item, dict) or key not in item:
            raise bad_request(f"map: {item} does not contain declared merge key: {key}")
        places = [i for i, old in enumerate(result) if old.get(key) == item[key]]
        if item.get("$patch") == "delete":
            result = [old for i, old in enumerate(result) if i not in places]
        elif places:
            result[places[0]] = strategic_merge(result[places[0]], item, schema.items())
        else:
            result.append(strategic_merge({}, item, schema.items()))
    return _ordered(result, patch, target, key)


def _ordered(merged: list[Any], order: list[Any], before: list[Any], key: str) -> list[Any]:
    """Items in the order of the patch; the others in their old order.

    As in Kubernetes, the two sequences are merged: of their next items, the item of the patch comes
    first, unless the old list had the other item before it.
    """

    def names(items: list[Any]) -> list[Any]:
        return [item.get(key) if key and isinstance(item, dict) else item for item in items]

    patch_order, old_order = names(order), names(before)
    # Items may be maps, which cannot be keys of a dict.
    by_name = dict(zip(map(repr, names(merged)), merged, strict=True))
    patched = [(w, by_name[repr(w)]) for w in patch_order if repr(w) in by_name]
    others = [(n, m) for n, m in zip(names(merged), merged, strict=True) if n not in patch_order]
    result = []
    while patched and others:
        own, other = patched[0][0], others[0][0]
        both_old = own in old_order and other in old_order
        other_first = both_old and old_order.index(other) < old_order.index(own)
        result.append((others if other_first else patched).pop(0)[1])
    return result + [item for _, item in patched + others]


def _plain(value: Any) -> Any:
    """The value without directives and without the nulls that only mean "remove"."""
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items() if v is not None and not k.startswith("$")}
    return [_plain(v) for v in value] if isinstance(value, list) else value
