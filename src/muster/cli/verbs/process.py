"""`arena process -f TEMPLATE`: the objects of an OpenShift template with its parameters, as a List.

No cluster is contacted. The output is meant for `arena apply -f -`.
"""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from random import SystemRandom
from typing import TYPE_CHECKING, Any

import click

from kubekit.errors import UsageError
from kubekit.objects.meta import object_name
from muster.cli.show.messages import note
from muster.cli.show.table import json_or_yaml, table
from muster.client.manifests import openshift_template, reader
from muster.client.manifests.reader import as_list

if TYPE_CHECKING:
    from muster.client.manifests.openshift_template import Template

_LINE = re.compile(r"\s*(?:export\s+)?([^=\s]+)\s*=(.*)", re.DOTALL)


@click.command(name="process")
@click.argument("words", nargs=-1, metavar="[KEY=VALUE]…")
@click.option("--filename", "-f", "file", required=True, metavar="FILE|-", help="The template.")
@click.option(
    "--param", "-p", "params", multiple=True, metavar="KEY=VALUE", help="A value.  [repeatable]"
)
@click.option(
    "--param-file",
    "param_files",
    multiple=True,
    metavar="FILE|-",
    help="A file of KEY=VALUE lines; --param takes precedence.  [repeatable]",
)
@click.option("--parameters", "listing", is_flag=True, help="List the parameters and stop.")
@click.option("--labels", "-l", default="", metavar="KEY=VALUE,…", help="Labels for every object.")
@click.option("--ignore-unknown-parameters", "lenient", is_flag=True, help="Skip unknown names.")
@click.option("--local", is_flag=True, expose_value=False, help="Accepted as in oc; has no effect.")
@click.option(
    "--output", "-o", type=click.Choice(["json", "yaml", "name"]), default="json",
    show_default=True,
)  # fmt: skip
def command(words: tuple[str, ...], file: str, listing: bool, output: str, **given: Any) -> None:
    """Put parameters into an OpenShift template and print its objects.

    \b
    Examples:
      arena process -f template.yaml --parameters
      arena process -f template.yaml -p JOB_NAME=hello -p WORKERS=2 | arena apply -f -
    """
    template = _template(file)
    if listing:
        print(_parameter_table(template))
        return
    values = _values((*given["params"], *words), given["param_files"])
    if given["lenient"]:
        for name in openshift_template.unknown_names(template, values):
            del values[name]
    labels = dict(_pair(part.strip()) for part in given["labels"].split(",") if part.strip())
    template = replace(template, labels={**template.labels, **labels})
    objects = openshift_template.process(template, values, SystemRandom())
    if output == "name":
        print("\n".join(object_name(item) for item in objects))
    else:
        print(json_or_yaml(as_list(objects), output))


def _template(file: str) -> Template:
    (source, text), *more = reader.texts(file, sys.stdin)
    documents = reader.documents(text, source)
    if more or len(documents) != 1:
        count = len(more) + 1 if more else len(documents)
        raise UsageError(f"{file}: a template is one document, here are {count}")
    try:
        return openshift_template.read(documents[0])
    except UsageError as error:
        raise UsageError(f"{source}: {error}", hint=error.hint) from None


def _parameter_table(template: Template) -> str:
    rows = [("NAME", "DESCRIPTION", "GENERATOR", "VALUE")]
    for row in template.parameters:
        value = row.source if row.generate else row.value
        rows.append((row.name, " ".join(row.description.split()), row.generate, value))
    return table(rows)


def _values(words: tuple[str, ...], files: tuple[str, ...]) -> dict[str, str]:
    values: dict[str, str] = {}
    for word in words:
        name, value = _pair(word)
        if name in values:
            raise UsageError(f"the parameter {name} is given more than once")
        values[name] = value
    for file in files:
        for name, value in _from_file(file).items():
            if name in values:
                note(f"warning: {name} is already given; the value in {file} is not used")
            else:
                values[name] = value
    return values


def _pair(word: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not equals or not name:
        raise UsageError(
            f"{word}: not KEY=VALUE",
            hint="A template is read with -f FILE; templates stored in a cluster are not.",
        )
    try:
        value.encode()
    except UnicodeEncodeError:
        raise UsageError(f"the parameter {name} is not UTF-8 text") from None
    return name, value


def _from_file(file: str) -> dict[str, str]:
    """The KEY=VALUE lines of a file, without empty lines, `#` comments and quotes around values."""
    (source, text), *_ = reader.texts(file, sys.stdin)
    values: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        pair = _LINE.fullmatch(line)
        if pair is None:
            raise UsageError(f"{source}, line {number}: not KEY=VALUE")
        if pair[1] in values:
            raise UsageError(f"{source}, line {number}: {pair[1]} is given more than once")
        values[pair[1]] = _unquoted(pair[2].strip())
    return values


def _unquoted(value: str) -> str:
    if len(value) >= 2 and value[0] == value[-1] == "'":
        return value[1:-1]
    if len(value) >= 2 and value[0] == value[-1] == '"':
        escapes = {"n": "\n", "t": "\t"}
        return re.sub(r"\\(.)", lambda match: escapes.get(match[1], match[1]), value[1:-1])
    return value
