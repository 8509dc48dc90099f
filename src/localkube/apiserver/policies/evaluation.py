"""What one policy, with one binding and one parameter, says about a request."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from localkube.apiserver.admission import expressions
from localkube.apiserver.cel.batches import Batch, Result
from localkube.apiserver.cel.evaluator import EVALUATOR
from localkube.apiserver.cel.rules import is_usable_message

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kubekit.objects.meta import Raw
    from localkube.apiserver.admission.attributes import Attributes
    from localkube.apiserver.cel.functions.authorizer import Ask


class Denial(NamedTuple):
    """A validation that does not hold, or that cannot be evaluated."""

    message: str
    reason: str = "Invalid"


async def denials(
    spec: Raw, request: Attributes, params: Raw | None, namespace: Raw | None, ask: Ask
) -> list[Denial]:
    """The denials of a policy with this spec."""
    fails = spec.get("failurePolicy", "Fail") == "Fail"
    if conditions := spec.get("matchConditions"):
        match = await expressions.match(conditions, request, ask, params)
        if match.error and fails:
            return [Denial(match.error)]
        if not match.holds:
            return []
    seen = expressions.values(request, request.resource, params, namespace)
    rows: list[Raw] = spec.get("validations") or []
    variables = [(row["name"], row["expression"]) for row in spec.get("variables") or ()]
    checks = Batch(seen, [row["expression"] for row in rows], variables)
    [results] = await EVALUATOR.run([checks], ask)
    if all(result.value is True for result in results):
        return []
    messages = Batch(seen, [row.get("messageExpression") or "''" for row in rows], variables)
    [texts] = await EVALUATOR.run([messages], ask)
    return list(_judged(rows, results, texts, fails=fails))


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
