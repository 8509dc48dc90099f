"""What one policy, with one binding and one parameter, says about a write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from muster.local.apiserver.cel.batches import Batch, Result
from muster.local.apiserver.cel.evaluator import EVALUATOR
from muster.local.apiserver.cel.rules import is_usable_message

if TYPE_CHECKING:
    from collections.abc import Iterator

    from muster.api.meta import Raw
    from muster.local.apiserver.cel.functions.authorizer import Ask

_NAMESPACE_FIELDS = (
    "name", "generateName", "namespace", "labels", "annotations", "creationTimestamp",
    "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "resourceVersion",
    "finalizers",
)  # fmt: skip


class Denial(NamedTuple):
    """A validation that does not hold, or that cannot be evaluated."""

    message: str
    reason: str = "Invalid"


def denials(policy: Raw, values: Raw, ask: Ask) -> list[Denial]:
    """The denials of a policy; `values` are the variables of its expressions."""
    spec = policy["spec"]
    fails = spec.get("failurePolicy", "Fail") == "Fail"
    conditions = [row["expression"] for row in spec.get("matchConditions") or ()]
    rows: list[Raw] = spec.get("validations") or []
    variables = [(row["name"], row["expression"]) for row in spec.get("variables") or ()]
    checks = Batch(values, [row["expression"] for row in rows], variables)
    messages = Batch(values, [row.get("messageExpression") or "''" for row in rows], variables)
    if conditions:
        matched, error = _match(EVALUATOR.run([Batch(values, conditions)], ask)[0], spec)
        if error:
            return [Denial(error)] if fails else []
        if not matched:
            return []
    results = EVALUATOR.run([checks], ask)[0]
    if all(result.value is True for result in results):
        return []
    texts = EVALUATOR.run([messages], ask)[0]
    return list(_judged(rows, results, texts, fails=fails))


def _match(results: list[Result], spec: Raw) -> tuple[bool, str]:
    """Whether all match conditions hold, and the error of those that cannot be evaluated."""
    if any(not result.error and result.value is False for result in results):
        return False, ""
    rows = spec.get("matchConditions") or ()
    errors = [
        f"expression '{row['expression']}' resulted in error: {result.error}"
        for row, result in zip(rows, results, strict=True)
        if result.error
    ]
    return not errors, errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]" if errors else ""


def _judged(
    rows: list[Raw], results: list[Result], texts: list[Result], *, fails: bool
) -> Iterator[Denial]:
    for row, result, text in zip(rows, results, texts, strict=True):
        if result.error:
            if fails:
                expression = row["expression"]
                yield Denial(f"expression '{expression}' resulted in error: {result.error}")
        elif result.value is not True:
            message = text.value.strip() if is_usable_message(text.value) else ""
            message = message or str(row.get("message") or "").strip()
            message = message or f"failed expression: {row['expression'].strip()}"
            yield Denial(message, row.get("reason") or "Invalid")


def visible_namespace(namespace: Raw | None) -> Any:
    """The fields of a namespace that expressions see."""
    if namespace is None:
        return None
    meta = {k: v for k, v in namespace["metadata"].items() if k in _NAMESPACE_FIELDS}
    shown = {key: namespace[key] for key in ("spec", "status") if key in namespace}
    return {"metadata": meta, **shown}
