"""A job from a file, with changes: `arena submit -f FILE [--set PATH=VALUE]…`.

The file is a job manifest, or the short form: the flags of `arena submit KIND` as YAML keys, with
`kind` and `command`. `--set` changes a field before the file is interpreted. A key that is not
known is an error that names the nearest one. Values of the short form are literal text, as on a
command line: `1.10`, `010`, `yes` and `12:30:45` stay as they are written.
"""

from __future__ import annotations

import difflib
import json
import re
from typing import TYPE_CHECKING, Any, TextIO

from kubekit.errors import UsageError, no_such
from kubekit.objects import yaml_reader
from kubekit.objects.annotation_values import read_integer
from kubekit.objects.meta import Raw, object_name
from muster.client import config_file
from muster.client.manifests import reader
from muster.client.submit.transaction import COMPANION_KINDS, submission_record
from muster.contract.job_fields import InvalidJob
from muster.contract.job_kinds import JOB_KIND_BY_NAME, TYPE_ALIASES
from muster.jobs import parse, unknown_fields
from muster.jobs.build.flags import BY_TYPE, Flag, Submission, flags_of
from muster.jobs.build.job_manifest import Bundle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kubekit.objects.yaml_reader import Limits


ShortForm = tuple[type[Submission], dict[str, Any]]
"""A kind of submission and its fields."""

_RESOLVED_TAGS = ("tag:yaml.org,2002:merge", "tag:yaml.org,2002:null")
_NESTED = ("[", "{", '"', "'")
_QUOTE = "A value that begins with one of [ { \" ' is YAML; put all of it in quotes to mean text."


class VerbatimLoader(reader.Loader):
    """As for manifests, but a plain word is text; an empty value, `~` and `null` are None."""


VerbatimLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in rules if tag in _RESOLVED_TAGS]
    for first, rules in reader.Loader.yaml_implicit_resolvers.items()
}


def read_verbatim(text: str) -> Raw:
    """The one document of a text that was read before, with its values as written."""
    document: Raw
    try:
        document = json.loads(text, parse_float=str, parse_int=str, parse_constant=str)
    except json.JSONDecodeError:
        documents = yaml_reader.load_all(text, VerbatimLoader)
        document = next(document for document in documents if document is not None)
    return {key: _written(value) for key, value in document.items()}


def parse_set_value(change: str, text: str, *, typed: bool) -> Any:
    """The value of `--set PATH=VALUE`: a list, a mapping, a quoted text, or plain text.

    `typed` is for manifests: a plain word is read as JSON if JSON writes it the same way. So 2 is a
    number, and 1.10, which JSON would write as 1.1, stays text.
    """
    if text.startswith(_NESTED):
        return _nested(change, text, reader.Loader if typed else VerbatimLoader)
    if not typed:
        return text
    try:
        value = json.loads(text, parse_constant=str)
    except (ValueError, RecursionError):
        return text
    return value if json.dumps(value) == text else text


def _nested(change: str, text: str, loader: Any) -> Any:
    try:
        node = yaml_reader.compose(text, loader)
        value = yaml_reader.load(text, loader)
    except yaml_reader.YamlError as error:
        raise UsageError(f"--set {change!r} is not YAML: {error.problem}", hint=_QUOTE) from None
    if node is not None and text[node.end_mark.index :].strip():
        raise UsageError(f"--set {change!r}: the text after the value would be lost", hint=_QUOTE)
    return value if loader is reader.Loader else _written(value)


def _written(value: Any) -> Any:
    """The value with every number and boolean in it as text."""
    if isinstance(value, dict):
        return {key: _written(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_written(item) for item in value]
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if value is None else str(value)


_COLON = ("data", "data_dir", "config_file")
"""Fields whose entries are written `A:B`; in a mapping A is the key."""
_WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,17})")
"""Neither 010, which YAML reads as 8, nor 1_000, nor thousands of digits."""
_MANY = "`arena apply -f` takes many objects."
_STEP = re.compile(r"((?:[^.\[\]\\]|\\.)+)|\[(\d+)\]")


def load(
    place: str,
    stdin: TextIO,
    changes: Iterable[str] = (),
    on_manifest: Callable[[Raw], None] = lambda manifest: None,
) -> Bundle | ShortForm:
    """The job of the file after the changes: a manifest with its companions, or flags.

    `on_manifest` gets a manifest before it is checked: an unknown field may be why it is invalid.
    """
    document, source = _only_document(reader.texts(place, stdin), place)
    return _interpreted(document, source, changes, on_manifest)


def load_text(
    text: str, source: str, on_manifest: Callable[[Raw], None] = lambda manifest: None
) -> Bundle | ShortForm:
    """The job of a text; errors name its `source`."""
    # The dashboard serves many people, and this is the text of one of them.
    document, _ = _only_document([(source, text)], source, yaml_reader.STRANGERS_TEXT)
    return _interpreted(document, source, (), on_manifest)


def _interpreted(
    document: Raw, source: str, changes: Iterable[str], on_manifest: Callable[[Raw], None]
) -> Bundle | ShortForm:
    companions: tuple[Raw, ...] = ()
    if document.get("kind") == "List":
        document, companions = _job_and_companions(document, source)
    is_manifest = "apiVersion" in document
    # Before the file is interpreted: a change may repair it.
    for change in changes:
        set_field(document, change, typed=is_manifest)
    if is_manifest:
        on_manifest(document)
        return Bundle(_checked_job(document, source), companions)
    return short_form(document, source)


def _only_document(
    texts: Iterable[tuple[str, str]], place: str, limits: Limits = yaml_reader.OWN_FILE
) -> tuple[Raw, str]:
    documents = [
        (document, source, text)
        for source, text in texts
        for document in reader.documents(text, source, limits)
    ]
    if len(documents) != 1:
        raise UsageError(
            f"{place}: {len(documents)} documents, where one job is wanted", hint=_MANY
        )
    document, source, text = documents[0]
    if not isinstance(document, dict):
        raise UsageError(f"{source}: not a job", hint="Begin with `kind: tf`, or with apiVersion.")
    # The short form is read a second time: the first reading has turned 1.10 into 1.1.
    return document if "apiVersion" in document else read_verbatim(text), source


def _job_and_companions(document: Raw, source: str) -> tuple[Raw, tuple[Raw, ...]]:
    """The job and companions of a List that `--dry-run` printed; its record is built again."""
    items = list(reader.objects(document, source))
    for item in items:
        reader.check(item, source, generate=False)
        if item["kind"] not in (*JOB_KIND_BY_NAME, *COMPANION_KINDS):
            raise UsageError(f"{source}: {item['kind']} does not go with a job", hint=_MANY)
    jobs = [item for item in items if item["kind"] in JOB_KIND_BY_NAME]
    if len(jobs) != 1:
        raise UsageError(f"{source}: {len(jobs)} jobs, where one is wanted", hint=_MANY)
    record = object_name(submission_record(_checked_job(jobs[0], source)))
    others = (item for item in items if item is not jobs[0] and object_name(item) != record)
    return jobs[0], tuple(others)


def _checked_job(document: Raw, source: str) -> Raw:
    reader.check(document, source, generate=False)
    if document["kind"] not in JOB_KIND_BY_NAME:
        raise UsageError(
            f"{source}: {document['kind']} is not a job",
            hint=f"Jobs are {', '.join(JOB_KIND_BY_NAME)}; `arena apply -f` takes other objects.",
        )
    try:
        parse.parse_job(document)
    except InvalidJob as error:
        raise error.in_file(source) from None
    return document


def short_form(document: Raw, source: str) -> ShortForm:
    """The kind of job and its fields, from keys that are spelled like flags."""
    words = dict(document)
    type_ = str(words.pop("kind", words.pop("type", ""))).lower()
    type_ = TYPE_ALIASES.get(type_, type_)
    if type_ not in BY_TYPE:
        known = [*BY_TYPE, *TYPE_ALIASES]
        problem = no_such("kind", type_, known) if type_ else "kind is missing"
        raise UsageError(f"{source}: {problem}", hint="Write `kind: tf`, mpi, pytorch or jax.")
    flags = flags_by_key(BY_TYPE[type_])
    given: dict[str, Any] = {}
    for key, value in words.items():
        where = f"{source}: {key}"
        if key == "command":
            given[key] = _texts(where, value)
        elif key in flags:
            given[flags[key].field] = flag_value(where, flags[key], value)
        else:
            raise UsageError(f"{source}: {no_such('field', key, ['command', *flags])}")
    for field in ("name", "command"):
        if field not in given:
            raise UsageError(f"{source}: {field} is missing")
    return BY_TYPE[type_], given


def flags_by_key(kind: type[Submission]) -> dict[str, Flag]:
    """Every spelling of a key, and its flag."""
    return {
        spelling.lstrip("-"): flag
        for flag in flags_of(kind)
        for spelling in (flag.spelling, flag.old, flag.field)
        if spelling
    }


def flag_value(where: str, flag: Flag, value: Any) -> Any:
    """The value of a field from its text or texts; `where` begins the sentence of an error."""
    if flag.default == ():
        return _entries(where, flag.field, value)
    text = _text(where, value)
    if flag.is_switch:
        if (switch := config_file.parse_bool(text)) is not None:
            return switch
        raise UsageError(f"{where} is {text!r}; write true or false")
    if isinstance(flag.default, int):
        if _WHOLE.fullmatch(text):
            return int(text)
        raise UsageError(f"{where} is {text!r}; write a whole number")
    return text


def _entries(where: str, field: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, dict):
        return _texts(where, value)
    between = ":" if field in _COLON else "="
    return tuple(f"{key}{between}{_text(f'{where}.{key}', item)}" for key, item in value.items())


def _texts(where: str, value: Any) -> tuple[str, ...]:
    """The texts of a list, or the one text."""
    return tuple(_text(where, item) for item in (value if isinstance(value, list) else [value]))


def _text(where: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        raise UsageError(f"{where} is empty", hint="Leave it out, or write '' for an empty string.")
    raise UsageError(f"{where} is {value!r}; write one string")


def set_field(document: Raw, change: str, *, typed: bool) -> None:
    """Set `a.b[0].c=value` in a document, whose values are text unless it is `typed`."""
    path, equals, text = change.partition("=")
    steps = [index or name.replace("\\", "") for name, index in _STEP.findall(path)]
    if not equals or not steps:
        raise UsageError(f"--set {change!r} is invalid", hint="Write --set=PATH=VALUE, e.g. gpus=2")
    node: Any = document
    for number, step in enumerate(steps, 1):
        known = unknown_fields.declares(str(document.get("kind")), steps[:number])
        key = _key(node, step, ".".join(steps[:number]), known=known)
        if number == len(steps):
            node[key] = parse_set_value(change, text, typed=typed)
        elif isinstance(node, dict) and node.get(key) is None:
            node[key] = {}
        node = node[key]


_FREE_NAMES = ("env", "label", "labels", "annotation", "annotations", "nodeSelector", "data")
"""Fields whose keys are names of the user's own."""


def _key(node: Any, step: str, path: str, *, known: bool) -> str | int:
    """The key or index of this step."""
    if isinstance(node, list):
        index = read_integer(step)
        if index is None or index >= len(node):
            raise UsageError(f"--set {path}: there are {len(node)} items; write [0] for the first")
        return index
    if not isinstance(node, dict):
        raise UsageError(f"--set {path}: the value above it has no fields")
    if node.get(step) is None and not known:
        _refuse_typo(node, step, path)
    return step


def _refuse_typo(node: Raw, step: str, path: str) -> None:
    if path.removesuffix(f".{step}").rpartition(".")[2] in _FREE_NAMES:
        return
    # `args.rate2` may be new beside `args.rate1`: digits are not typos.
    lower = {str(key).lower(): str(key) for key in node if key != step}
    near = difflib.get_close_matches(step.lower(), list(lower), n=1, cutoff=0.8)
    if near and not re.search(r"\d", step):
        raise UsageError(f"--set {path}: did you mean {lower[near[0]]}?")
