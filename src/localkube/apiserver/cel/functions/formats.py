"""Functions of Kubernetes for named formats: `format.dns1123Label().validate(self.name)`.

A format is a map with one key. The library takes no optional from Python, so these functions return
a list with the value, or an empty one; `rewriting` makes it an optional.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from localkube.apiserver.admission import names
from localkube.apiserver.cel.functions.networks import url_problem
from localkube.apiserver.schema.values import matches_format

if TYPE_CHECKING:
    from localkube.apiserver.admission.names import Rule
    from localkube.apiserver.cel.functions.signatures import Implementation

Format = dict[str, str]


def _prefix(rule: Rule, text: str) -> list[str]:
    """The problems of the start of a name, which may end with a dash."""
    return rule(f"{text[:-2]}a" if len(text) > 1 and text.endswith("-") else text)


def _known(name: str, problem: str, text: str) -> list[str]:
    return [] if matches_format(text, name) else [problem]


def _uri(text: str) -> list[str]:
    problem = url_problem(text)
    return [problem] if problem else []


_RULES: dict[str, Rule] = {
    "dns1123Label": names.check_label,
    "dns1123Subdomain": names.check_subdomain,
    "dns1035Label": names.check_dns1035_label,
    "qualifiedName": names.check_key,
    "dns1123LabelPrefix": partial(_prefix, names.check_label),
    "dns1123SubdomainPrefix": partial(_prefix, names.check_subdomain),
    "dns1035LabelPrefix": partial(_prefix, names.check_dns1035_label),
    "labelValue": names.check_label_value,
    "uri": _uri,
    "uuid": partial(_known, "uuid", "does not match the UUID format"),
    "byte": partial(_known, "byte", "invalid base64"),
    "date": partial(_known, "date", "invalid date"),
    "datetime": partial(_known, "datetime", "invalid datetime"),
}


def _format(name: str) -> Format:
    return {"format": name}


def _named(name: str) -> list[Format]:
    return [_format(name)] if name in _RULES else []


def _validate(form: Format, text: str) -> list[list[str]]:
    problems = _RULES[form["format"]](text)
    return [problems] if problems else []


FUNCTIONS: dict[str, Implementation] = {
    **{f"format.{name}() -> Format": partial(_format, name) for name in _RULES},
    "format.named(string) -> optional_type(Format)": _named,
    "Format.validate(string) -> optional_type(list(string))": _validate,
}
