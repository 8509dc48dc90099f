"""Reading the fields of a manifest, with errors that name the path.

A `Section` is an object inside a manifest together with its path. Its readers return a field in
its type, or raise InvalidJob with the path of the field and a hint. A missing field is empty.

`check_fields` rejects fields that would be ignored silently: known fields in another letter case,
and replicas in two places. Unknown fields are accepted: versions differ, and other tools may keep
their own fields in a job.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from kubekit.objects.annotation_values import read_integer
from muster.contract import job_fields
from muster.contract.job_fields import InvalidJob
from muster.contract.job_kinds import JOB_KIND_BY_NAME
from muster.jobs.job import MANAGED_BY_MUSTER, MULTIKUEUE

if TYPE_CHECKING:
    from kubekit.objects.meta import Raw

MAX_INT32 = 2**31 - 1


class UnknownValue(InvalidJob):
    """A word in a field that allows only some others."""

    def __init__(self, field: str, word: str, allowed: tuple[str, ...]) -> None:
        super().__init__(field, f"{word!r} is unknown", hint=f"use {', '.join(allowed)}")
        self.word, self.allowed = word, allowed


class Section:
    """An object inside a manifest: its fields, and its path for messages."""

    __slots__ = ("path", "raw")

    def __init__(self, value: object, path: str) -> None:
        if value is not None and not isinstance(value, dict):
            raise InvalidJob(
                path, f"is {_type_of(value)}, not an object", hint="write its fields below it"
            )
        self.raw: Raw = value or {}
        self.path = path

    def error(self, name: str, message: str, hint: str) -> InvalidJob:
        """An error about one field."""
        return InvalidJob(f"{self.path}.{name}", message, hint=hint)

    def _wrong_type(self, name: str, expected: str, hint: str) -> InvalidJob:
        return self.error(name, f"is {_type_of(self.raw[name])}, not {expected}", hint)

    def has(self, name: str) -> bool:
        return self.raw.get(name) is not None

    def section(self, name: str) -> Section:
        return Section(self.raw.get(name), f"{self.path}.{name}")

    def sequence(self, name: str) -> list[Any]:
        value = self.raw.get(name)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self._wrong_type(name, "a list", "begin each item with '- '")
        return value

    def sections(self, name: str) -> list[Section]:
        """A list of objects; a missing item is an error."""
        sections: list[Section] = []
        for i, item in enumerate(self.sequence(name)):
            if item is None:
                raise self.error(f"{name}[{i}]", "is empty", "write its fields or remove it")
            sections.append(Section(item, f"{self.path}.{name}[{i}]"))
        return sections

    def text(self, name: str) -> str:
        value = self.raw.get(name)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self._wrong_type(name, "text", f'write "{value}"')
        return value

    def texts(self, name: str) -> dict[str, str]:
        """A mapping from text to text, such as labels."""
        if not self.has(name):
            return {}
        section = self.section(name)
        return {key: section.text(key) for key in section.raw}

    def choice(self, name: str, allowed: tuple[str, ...]) -> str:
        """One of the allowed words."""
        word = self.text(name)
        if word and word not in allowed:
            raise UnknownValue(f"{self.path}.{name}", word, allowed)
        return word

    def boolean(self, name: str, default: bool = False) -> bool:
        """True or false, but not as text."""
        value = self.raw.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            word = str(value).strip().lower()
            quoted = word in ("true", "false")
            hint = f"write {word} without quotes" if quoted else "write true or false"
            raise self._wrong_type(name, "true or false", hint)
        return value

    def number(self, name: str, most: int = MAX_INT32) -> int | None:
        """A whole number from 0 to `most`; None if it is missing."""
        value = self.raw.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):  # in Python, True is an int
            digits = value.strip() if isinstance(value, str) else ""
            quoted = read_integer(digits) is not None
            hint = f"write {digits} without quotes" if quoted else "write a number such as 1"
            raise self._wrong_type(name, "a whole number", hint)
        if value < 0:
            raise self.error(name, f"is {value}", "write 0 or more")
        if value > most:
            raise self.error(name, f"is {value}", f"write at most {most}")
        return value

    def integer(self, name: str, default: int = 0, most: int = MAX_INT32) -> int:
        number = self.number(name, most)
        return default if number is None else number

    def lookup(self, name: str) -> Any:
        """The field of that name in any letter case; InvalidJob if it is there twice."""
        return self.canonical((name,)).raw.get(name)

    def canonical(self, names: tuple[str, ...]) -> Section:
        """These fields, which may have any letter case, under these names.

        InvalidJob if one is there twice.
        """
        known = _by_lower_case(names)
        keys: dict[str, str] = {}
        for key, value in self.raw.items():
            name = known.get(str(key).lower())
            if name is None or value is None:
                continue
            if name in keys:
                first, second = sorted((keys[name], key), key=lambda key: key != name)
                hint = f"keep one, as {name}"
                raise self.error(second, f"{self.path}.{first} is given too", hint)
            keys[name] = key
        return Section({name: self.raw[key] for name, key in keys.items()}, self.path)

    def reject_other_case(self, names: tuple[str, ...]) -> None:
        """Raise InvalidJob for one of these fields in another letter case: it would be ignored."""
        known = _by_lower_case(names)
        for key, value in self.raw.items():
            name = known.get(str(key).lower(), key)
            if name != key and value is not None:
                raise self.error(key, "is not a field", f"write {name}")


@lru_cache(maxsize=32)
def _by_lower_case(names: tuple[str, ...]) -> dict[str, str]:
    return {name.lower(): name for name in names}


_TYPES: dict[type, str] = {
    str: "text",
    bool: "true or false",
    int: "a number",
    float: "a fraction",
    list: "a list",
    dict: "an object",
}


def _type_of(value: object) -> str:
    return _TYPES.get(type(value), "something else")


_GANG = tuple(job_fields.SCHEDULING_POLICY)
_ELASTIC = tuple(job_fields.ELASTIC_POLICY)
_RUN_POLICY = tuple(job_fields.RUN_POLICY)


def _places(kind: str) -> list[str]:
    """The fields of spec that may hold replicas, in lower case, the kind's own first."""
    all_kinds = (job_kind.replicas_field for job_kind in JOB_KIND_BY_NAME.values())
    single = ["template"] if kind == "MPIJob" else []
    fields = (JOB_KIND_BY_NAME[kind].replicas_field, "replicaSpecs", *all_kinds, *single)
    return list(dict.fromkeys(field.lower() for field in fields))


_PLACES = {kind: _places(kind) for kind in JOB_KIND_BY_NAME}
# The replicas of a role may be written in any letter case, but not an MPIJob's one template.
_FIELDS = {
    kind: tuple(
        name
        for name in fields
        if name not in job_fields.IGNORED
        and (name == "template" or name.lower() not in _PLACES[kind])
    )
    for kind, fields in job_fields.SPEC_FIELDS.items()
}
"""The fields of spec that a kind reads in one letter case only."""


def check_fields(kind: str, spec: Section) -> None:
    """Raise InvalidJob for fields that would be ignored silently."""
    _check_one_place(kind, spec)
    spec.reject_other_case(_FIELDS[kind])
    policy = spec.section("runPolicy")
    policy.reject_other_case(_RUN_POLICY)
    policy.section("schedulingPolicy").reject_other_case(_GANG)
    if kind == "PyTorchJob":
        spec.section("elasticPolicy").reject_other_case(_ELASTIC)
    _check_manager(kind, policy if policy.has("managedBy") else spec)


def _check_one_place(kind: str, spec: Section) -> None:
    """Replicas may be in one field only, of whatever kind or version."""
    places = _PLACES[kind]
    keys = [key for key in spec.raw if spec.has(key) and str(key).lower() in places]
    if len(keys) > 1:
        first, second, *_ = sorted(keys, key=lambda key: places.index(str(key).lower()))
        raise spec.error(second, f"spec.{first} is given too", "keep one")


def _check_manager(kind: str, policy: Section) -> None:
    # A job of MultiKueue is accepted and left alone: another cluster runs it.
    manager = policy.raw.get("managedBy")
    managers = [
        name for name in MANAGED_BY_MUSTER if kind == "MPIJob" or not name.endswith("/mpi-operator")
    ]
    if isinstance(manager, str) and manager not in (*managers, MULTIKUEUE):
        known = " or ".join([*filter(None, managers), MULTIKUEUE])
        raise policy.error("managedBy", f"{manager!r} is unknown", f"use {known}, or leave it out")
