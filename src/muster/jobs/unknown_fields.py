"""Fields of a job manifest that nothing reads: typos, most of the time.

They are accepted and stored, because versions differ and other tools keep their own fields in a
job. But `replica: 2` then means one replica, so the user is warned: by `arena submit -f`, `apply`
and `create`, by the local API server, and on every cluster by an event of the operator.

Known are the fields of the table in `muster.contract.job_fields` and, in pod templates, the fields
of Kubernetes' published schemas. Names in maps (labels, limits, node selectors) are free.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from kubekit import schemas
from kubekit.objects.annotation_values import read_integer
from kubekit.schemas import Schema
from muster.contract.job_fields import SPEC_FIELDS, InvalidJob
from muster.contract.job_kinds import JOB_KIND_BY_NAME

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kubekit.objects.meta import Raw

_ANY_CASE = "anyCase"
"""A key in schemas: names of fields that the parser reads in any letter case."""
_POD_TEMPLATE: Raw = {"$ref": "/io.k8s.api.core.v1.PodTemplateSpec"}
_METADATA: Raw = {"$ref": "/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}
_MAX_LISTED, _MAX_LENGTH = 8, 110
"""Fields in one message, and the length of each: the message of an event has 1024 characters."""


class UnknownField(NamedTuple):
    path: str
    similar: str = ""
    """The known field that was probably meant."""

    def __str__(self) -> str:
        return f"{self.path} (did you mean {self.similar}?)" if self.similar else self.path


def find_unknown_fields(job: Raw) -> list[UnknownField]:
    """All unknown fields of a manifest, each once; none if it is of no job."""
    kind = job.get("kind")
    if not isinstance(kind, str) or kind not in SPEC_FIELDS:
        return []
    return _walk(job, _known_fields(kind), "")


def unknown_fields_of_spec(kind: str, spec: object) -> list[UnknownField]:
    """All unknown fields of the spec of a job."""
    schema = _known_fields(kind).field("spec")
    assert schema is not None
    return _walk(spec, schema, "spec")


def unknown_field_paths(group: str, kind: str, obj: Raw) -> list[str]:
    """The paths of unknown fields of a stored object; none if it is not a job.

    The definitions of jobs preserve every field of spec, so that no version drops those of
    another: without this, the local API server would store a typo in silence.
    """
    job = JOB_KIND_BY_NAME.get(kind)
    if job is None or job.resource.group != group:
        return []
    return [field.path for field in unknown_fields_of_spec(kind, obj.get("spec"))]


def declares(kind: str, steps: Sequence[str]) -> bool:
    """Whether a field of this kind of job is declared by its name; an item's step is its index."""
    schema: Schema | None = _known_fields(kind) if kind in SPEC_FIELDS else None
    for step in steps[:-1]:
        if schema is not None:
            field = schema.items() if read_integer(step) is not None else schema.field(step)
            schema = field or _in_other_case(step, schema)
    return schema is not None and steps[-1] in schema.properties


def find_unknown_value(job: Raw) -> str:
    """The first job-level field with a value outside its list, in words; empty if there is none.

    The server stores it and the operator rejects it, which a user would see only later.
    """
    from muster.jobs.field_reader import UnknownValue
    from muster.jobs.parse import parse_job

    try:
        parse_job(job)
    except UnknownValue as error:
        similar = _similar(error.word, error.allowed)
        return f"{error}; {f'did you mean {similar}?' if similar else error.hint}"
    except InvalidJob:
        pass  # The manifest may be a part of a job that the server completes.
    return ""


def warnings(job: Raw) -> list[str]:
    """A clause about every unknown field of a manifest, and about an unknown value."""
    problems = [f"unknown field {field}" for field in find_unknown_fields(job)]
    return [problem for problem in (*problems, find_unknown_value(job)) if problem]


def summary(fields: Iterable[UnknownField]) -> str:
    """All fields in one line of limited length, as an event's message needs it."""
    texts = [
        text if len(text) <= _MAX_LENGTH else f"{text[:_MAX_LENGTH]}…" for text in map(str, fields)
    ]
    listed = ", ".join(texts[:_MAX_LISTED])
    more = f" and {len(texts) - _MAX_LISTED} more" if texts[_MAX_LISTED:] else ""
    return f"unknown field{'s:' if texts[1:] else ''} {listed}{more}"


def _walk(value: Any, schema: Schema, path: str) -> list[UnknownField]:
    unknown: list[UnknownField] = []
    if isinstance(value, dict):
        for name, part in value.items():
            field = schema.field(name) or _in_other_case(name, schema)
            if field is None:
                if schema.properties:  # without declared fields an object is open
                    similar = _similar(str(name), schema.properties)
                    unknown.append(UnknownField(_joined(path, name), similar))
            elif isinstance(part, dict | list):
                unknown += _walk(part, field, _joined(path, name))
    elif isinstance(value, list) and (items := schema.items()) is not None:
        for i, part in enumerate(value):
            unknown += _walk(part, items, f"{path}[{i}]")
    return unknown


def _joined(path: str, name: object) -> str:
    return f"{path}.{name}" if path else str(name)


def _in_other_case(name: str, schema: Schema) -> Schema | None:
    names = schema.raw.get(_ANY_CASE, ())
    spelling = next((known for known in names if known.lower() == str(name).lower()), None)
    return schema.field(spelling) if spelling else None


def _similar(name: str, known: Iterable[str]) -> str:
    import difflib  # slow to load and rarely needed

    by_letters = {field.lower(): field for field in known}
    letters = name.lower().replace("_", "").replace("-", "")
    return next((by_letters[match] for match in difflib.get_close_matches(letters, by_letters)), "")


@cache  # built with the first use: only manifests need it
def _known_fields(kind: str) -> Schema:
    job_kind = JOB_KIND_BY_NAME[kind]
    roles = [job_kind.replicas_field, "replicaSpecs"]
    spec = _with_pod_fields({"properties": SPEC_FIELDS[kind]})
    # The CRDs accept any name of a role: an unknown one is the parser's error, not the server's.
    replicas = spec["properties"][job_kind.replicas_field]["additionalProperties"]
    spec["properties"][job_kind.replicas_field] = {
        "properties": dict.fromkeys(job_kind.roles, replicas),
        _ANY_CASE: list(job_kind.roles),
    }
    fields: Raw = {
        "apiVersion": {},
        "kind": {},
        "metadata": _METADATA,
        "spec": {**spec, _ANY_CASE: [role for role in roles if role in SPEC_FIELDS[kind]]},
        "status": {},
    }
    return Schema({"properties": fields}, schemas.definitions())


def _with_pod_fields(schema: Raw) -> Raw:
    """The schema with every pod template in it open to the fields of a pod template only."""
    result = dict(schema)
    if "properties" in schema:
        properties = schema["properties"]
        result["properties"] = {
            name: _POD_TEMPLATE if name == "template" else _with_pod_fields(part)
            for name, part in properties.items()
        }
        if "template" in properties:
            result[_ANY_CASE] = list(properties)
    for inner in ("items", "additionalProperties"):
        if inner in schema:
            result[inner] = _with_pod_fields(schema[inner])
    return result
