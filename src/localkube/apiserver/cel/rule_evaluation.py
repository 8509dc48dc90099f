"""The verdict of a definition's rules about an object."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from localkube.apiserver.api_errors import Cause
from localkube.apiserver.cel import rules
from localkube.apiserver.cel.batches import TOO_MUCH

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kubekit.objects.meta import Raw
    from localkube.apiserver.cel.batches import Evaluate
    from localkube.apiserver.cel.rules import Place, Site

_BLOCKING = (
    "FieldValueNotSupported", "FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany",
    "FieldValueTypeInvalid",
)  # fmt: skip
_UNCHECKED = Cause(
    "<nil>",
    "FieldValueInvalid",
    "Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation",
)


class Verdict(NamedTuple):
    """The causes for a 422, and warnings about values that were invalid before."""

    causes: list[Cause]
    warnings: list[str]


async def judge(
    place: Place, obj: Raw, old: Raw | None, others: Sequence[Cause], evaluate: Evaluate
) -> Verdict:
    """Evaluate the rules for an object; `others` are the causes of its schema."""
    if place.is_empty:
        return Verdict([], [])
    if any(cause.reason in _BLOCKING for cause in others):
        # A rule may rely on what the schema requires.
        return Verdict([_UNCHECKED], [])
    sites = list(place.sites(obj, rules.NOTHING if old is None else old))
    if not sites:
        return Verdict([], [])
    found = Verdict([], [])
    for site, cause, is_error in await _failures(sites, evaluate):
        if site.is_unchanged and not site.rule.uses_old and not is_error:
            found.warnings.append(str(cause))
        else:
            found.causes.append(cause)
        if is_error and TOO_MUCH in cause.message:
            break
    return found


async def _failures(sites: list[Site], evaluate: Evaluate) -> list[tuple[Site, Cause, bool]]:
    """The rules that do not hold, their causes, and whether they could not be evaluated."""
    results = await evaluate([site.rule.batch(site, site.rule.text) for site in sites])
    broken = [
        (site, result)
        for site, (result,) in zip(sites, results, strict=True)
        if result.error or result.value is not True
    ]
    messages = await _messages([site for site, result in broken if not result.error], evaluate)
    return [
        (site, site.rule.error(site, result.error), True)
        if result.error
        else (site, site.rule.failure(site, next(messages)), False)
        for site, result in broken
    ]


async def _messages(sites: list[Site], evaluate: Evaluate) -> Iterator[str]:
    """The message for each of these sites, from its expression if it has one."""
    own = [site for site in sites if site.rule.message_expression]
    batches = [site.rule.batch(site, site.rule.message_expression) for site in own]
    texts = iter([result.value for (result,) in await evaluate(batches)])
    return iter([_message(site, texts) for site in sites])


def _message(site: Site, texts: Iterator[object]) -> str:
    text = next(texts) if site.rule.message_expression else None
    usable = rules.is_usable_message(text)
    return str(text).strip() if usable else site.rule.default_message
