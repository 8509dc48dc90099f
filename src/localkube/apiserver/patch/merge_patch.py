"""Merge patch and strategic merge patch.

Neither the object nor the patch is changed. A strategic merge must know which lists are sets or
maps, and by which key; the schema of the kind says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from localkube.apiserver.api_errors import bad_request

if TYPE_CHECKING:
    from kubekit.objects.meta import Raw
    from kubekit.schemas import Schema

# -- merge patch (RFC 7396) ----------------------------------------------------------------------


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


# -- strategic merge patch -----------------------------------------------------------------------

_ORDER = "$setElementOrder/"
_DROP = "$deleteFromPrimitiveList/"
_RETAIN = "$retainKeys"


def strategic_merge(target: Any, patch: Any, schema: Schema | None) -> Any:
    """Like `merge`, but lists that the schema calls mergeable are patched item by item."""
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
    elif isinstance(value, list):
        if schema is not None and schema.merges:
            result[key] = _merge_list(result.get(key) or [], value, schema)
        else:
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
