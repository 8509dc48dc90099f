"""The form for a job: its fields are the flags of `arena submit`, in the groups of its help.

The first part has the fields that most jobs need; the others are under "More". An error stands at
its field, in the words of the command: the flag that the sentence names is the field.
"""

from __future__ import annotations

import re
from dataclasses import MISSING
from typing import TYPE_CHECKING

import msgspec

from kubekit.request_errors import NotFound
from muster.jobs.build.flags import BY_TYPE, GROUPS, Flag, Submission, flags_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kubekit.errors import MusterError

TYPES = {
    "tfjob": "TensorFlow",
    "mpijob": "MPI",
    "pytorchjob": "PyTorch",
    "jaxjob": "JAX",
    "yaml": "YAML",
}
COMMANDS = {
    "tfjob": "python train.py",
    "mpijob": "mpirun python train.py",
    "pytorchjob": "torchrun train.py",
    "jaxjob": "python train.py",
}
_FIRST_GROUP = next(iter(GROUPS))
_LABELS = {
    "ps": "Parameter servers",
    "env": "Environment",
    "gang": "Gang",
    "gpus": "GPUs per worker",
    "cpu": "CPUs per worker",
    "memory": "Memory per worker",
    "working_dir": "Working directory",
    "data": "Volume claims",
    "data_dir": "Host directories",
    "label": "Labels",
    "annotation": "Annotations",
    "selector": "Node labels",
    "toleration": "Tolerations",
    "device": "Devices",
}
_ACRONYMS = {"ps": "PS", "gpus": "GPUs", "cpu": "CPU", "rdma": "RDMA", "ipc": "IPC", "pid": "PID"}
_WORDS = {"training command": "command", "there is no priority class": "priority"}
"""Sentences that name no flag, and their fields."""
_FLAG = re.compile(r"--[A-Za-z][\w-]*")
_UNSUPPORTED = re.compile(r"unsupported (\w+)")


class FieldError(msgspec.Struct, frozen=True):
    """A sentence and its next step."""

    message: str
    hint: str = ""


class FormField(msgspec.Struct, frozen=True):
    name: str
    label: str
    shape: str
    """`text`, `number`, `switch`, `choice` (yes, no or neither), `lines` (one entry in each),
    `command` or `manifest`."""
    help: str = ""
    flag: str = ""
    value: str = ""
    placeholder: str = ""
    required: bool = False
    error: FieldError | None = None
    focus: bool = False


class FormGroup(msgspec.Struct, frozen=True):
    heading: str
    fields: tuple[FormField, ...]
    open: bool
    """Whether it is shown unfolded: a field of it has a value or an error."""


class SubmitForm(msgspec.Struct, frozen=True):
    type: str
    """A key of TYPES."""
    types: dict[str, str]
    fields: tuple[FormField, ...]
    groups: tuple[FormGroup, ...] = ()
    error: FieldError | None = None
    """An error of no field."""
    wrong: tuple[FormField, ...] = ()
    """The fields with errors."""
    notes: tuple[str, ...] = ()

    @property
    def open(self) -> bool:
        return any(group.open for group in self.groups)


class Defaults(msgspec.Struct, frozen=True):
    """Facts about the cluster that the form is for."""

    namespace: str = "default"
    directory: str = ""
    """The directory of jobs that name none; empty if the cluster is not on this machine."""
    hidden: tuple[str, ...] = ()
    """Fields that the form does not have."""


def job_form(
    type_: str,
    values: Mapping[str, str],
    errors: Mapping[str, FieldError],
    defaults: Defaults,
) -> SubmitForm:
    """The form for a type of job, with these texts in it and these errors, by field."""
    fields = {row.name: row for row in _fields(type_, defaults)}
    directory = ("working_dir",) if defaults.directory else ()
    own = ("name", "namespace", *directory, "command", *GROUPS[_FIRST_GROUP])
    names = [name for name in (*own, *fields) if name in fields and name in errors]
    fields = {
        name: msgspec.structs.replace(
            row,
            value=values.get(name, ""),
            error=errors.get(name),
            focus=name == (names[0] if names else "name"),
        )
        for name, row in fields.items()
    }
    first = [fields.pop(name) for name in dict.fromkeys(own) if name in fields]
    groups = [_group(heading, members, fields) for heading, members in GROUPS.items()]
    return SubmitForm(
        type=type_,
        types=TYPES,
        fields=tuple(first),
        groups=tuple(group for group in groups if group.fields),
        error=errors.get(""),
        wrong=tuple(row for row in (*first, *fields.values()) if row.error),
    )


def yaml_form(
    values: Mapping[str, str],
    errors: Mapping[str, FieldError],
    defaults: Defaults,
    notes: tuple[str, ...] = (),
) -> SubmitForm:
    """The form for a pasted manifest."""
    manifest = FormField(
        "manifest",
        "Manifest",
        "manifest",
        "A job's manifest, or the flags of `arena submit` as YAML with `kind` and `command`.",
        value=values.get("manifest", ""),
        placeholder="kind: tf\nname: hello\nworkers: 2\ncommand: python train.py",
        required=True,
        error=errors.get("manifest"),
        focus="namespace" not in errors or "manifest" in errors,
    )
    namespace = msgspec.structs.replace(
        _namespace_field(defaults, "Of a manifest that names none; {} if empty."),
        value=values.get("namespace", ""),
        error=errors.get("namespace"),
        focus="namespace" in errors and "manifest" not in errors,
    )
    fields = (manifest, namespace)
    return SubmitForm(
        "yaml",
        TYPES,
        fields,
        error=errors.get(""),
        wrong=tuple(row for row in fields if row.error),
        notes=notes,
    )


def field_of(error: MusterError, kind: type[Submission] | None) -> str:
    """The field that an error is about; empty if it names none."""
    flags = flags_of(kind) if kind else []
    spellings = {text: flag.field for flag in flags for text in (flag.spelling, flag.old) if text}
    message = str(error)
    if "-n says" in message or (isinstance(error, NotFound) and "namespace" in message):
        return "namespace"
    for sentence, field in _WORDS.items():
        if sentence in message:
            return field
    for text in (message, error.hint):
        if field := _first(_FLAG.findall(text), spellings):
            return field
        words = _UNSUPPORTED.findall(text)
        fields = {flag.field: flag.field for flag in flags}
        if field := _first((re.sub(r"([A-Z])", r"_\1", word).lower() for word in words), fields):
            return field
    return ""


def _first(words: Iterable[str], known: Mapping[str, str]) -> str:
    return next((known[word] for word in words if word in known), "")


def _group(heading: str, members: Iterable[str], fields: Mapping[str, FormField]) -> FormGroup:
    rows = tuple(fields[name] for name in members if name in fields)
    return FormGroup(heading, rows, open=any(row.value or row.error for row in rows))


def _fields(type_: str, defaults: Defaults) -> list[FormField]:
    flags = [flag for flag in flags_of(BY_TYPE[type_]) if flag.field not in defaults.hidden]
    return [
        FormField(
            "command",
            "Command",
            "command",
            "What each replica runs, as a line for the shell.",
            placeholder=COMMANDS[type_],
            required=True,
        ),
        _namespace_field(defaults, "{} if empty."),
        *(_field(flag, defaults) for flag in flags),
    ]


def _namespace_field(defaults: Defaults, help: str) -> FormField:
    name = defaults.namespace
    return FormField("namespace", "Namespace", "text", help.format(name), "-n", placeholder=name)


def _field(flag: Flag, defaults: Defaults) -> FormField:
    default = "" if flag.default in (MISSING, (), "", 0, None) else str(flag.default)
    shape = "text"
    if flag.is_switch:
        shape, default = "choice" if flag.default is None else "switch", ""
    elif isinstance(flag.default, int):
        shape, default = "number", str(flag.default)
    elif flag.default == ():
        shape = "lines"
    text = flag.help
    if flag.field == "working_dir" and defaults.directory:
        default = defaults.directory
        text = (
            "A directory of this machine: the cluster is local, and a browser has no current "
            "directory. If empty, the one where the dashboard was started."
        )
    elif flag.field == "image" and not defaults.directory:
        text = "Image of all replicas."
    return FormField(
        name=flag.field,
        label=_LABELS.get(flag.field) or _label(flag.field),
        shape=shape,
        help=f"{text} One in each line." if shape == "lines" else text,
        flag=flag.spelling,
        placeholder=default,
        required=flag.default is MISSING,
    )


def _label(field: str) -> str:
    first, *others = field.split("_")
    words = [_ACRONYMS.get(first, first.capitalize()), *(_ACRONYMS.get(w, w) for w in others)]
    return " ".join(words)
