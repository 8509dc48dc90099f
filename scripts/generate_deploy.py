"""Write the files in `deploy/` and the table in `docs/kubernetes.md` that are made from the code.

    python -m scripts.generate_deploy

Run by `make docs`; a test checks that the files are up to date.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import yaml

from muster import __version__
from muster.client.manifests import yaml_writer
from muster.contract import crds
from muster.contract.gang_dialects import DIALECT_CHOICES
from muster.contract.job_kinds import JOB_KINDS
from muster.contract.scheduler_rights import name_lease
from muster.contract.waiting_line_format import NAMESPACE as LEASE_NAMESPACE
from muster.install.objects import admission_policy, manifests, roles
from muster.install.objects.values import NAMESPACE, Values
from muster.scheduler.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kubekit.rights import Rule

ROOT = Path(__file__).parent.parent
CHART = ROOT / "deploy" / "chart"
IMAGE = f"registry.example.com/muster:{__version__}"
PAGE = ROOT / "docs" / "kubernetes.md"
DECLARED = ("operator", "scheduler", "dashboard", "dashboard-edit")
"""Components, and roles of the dashboard's users."""
_PLACES = {
    "served": "in the namespaces that it serves",
    "cluster": "in the whole cluster",
    "leases": "in the namespace of its leases",
}
_PLACES_OF_USERS = {
    "served": "in the user's namespaces",
    "cluster": "in the whole cluster",
    "leases": f"in {LEASE_NAMESPACE}",
}
"""The same for roles that are bound to users."""
_BEGIN, _END = "<!-- rights: made by `make docs` -->", "<!-- end of rights -->"


def files() -> dict[Path, str]:
    """Every generated file and its text."""
    return {
        ROOT / "deploy" / "muster.yaml": _plain_manifests(),
        CHART / "crds" / "crds.yaml": crds.as_yaml(manifests.definitions(Values())),
        CHART / "values.schema.json": _values_schema(),
        CHART / "templates" / "_rules.tpl": _chart_rules(),
        CHART / "templates" / "admission.yaml": _chart_policy(),
        CHART / "Chart.yaml": _chart((CHART / "Chart.yaml").read_text()),
        PAGE: _page(PAGE.read_text()),
    }


def _plain_manifests() -> str:
    head = (
        "# Muster's objects but the CRDs, as `muster install --dry-run` prints them. Made by\n"
        f"# `make docs`. Replace the image {IMAGE} by yours, then:\n"
        "#   kubectl apply --server-side -f deploy/chart/crds -f deploy/muster.yaml\n"
        "# Leave the ValidatingAdmissionPolicy and its binding out before Kubernetes 1.30.\n"
    )
    values = Values(image=IMAGE)
    objects = [
        manifests.namespace_of(values, NAMESPACE),
        *manifests.components(values, NAMESPACE),
    ]
    return head + "".join(f"---\n{yaml_writer.dump(item)}\n" for item in objects)


def _chart(text: str) -> str:
    text = re.sub(r"^version: .*$", f"version: {__version__}", text, flags=re.MULTILINE)
    return re.sub(r"^appVersion: .*$", f'appVersion: "{__version__}"', text, flags=re.MULTILINE)


def _values_schema() -> str:
    """The schema by which Helm refuses misspelt keys and impossible values."""
    roots, parts = msgspec.json.schema_components(
        (Values, Settings), ref_template="#/definitions/{name}"
    )
    assert roots[0] == {"$ref": "#/definitions/Values"}
    root = parts.pop("Values")
    # The names are a value of their own.
    del parts["Settings"]["properties"]["names"]
    parts["SchedulerValues"]["properties"]["settings"] = roots[1]
    parts["OperatorValues"]["properties"]["gangDialect"]["enum"] = sorted(DIALECT_CHOICES)
    # Helm gives every chart the values that charts share.
    root["properties"]["global"] = {"type": "object"}
    head = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$comment": "Made by `make docs`; values.yaml has the defaults and their meaning.",
    }
    schema = {**root, "definitions": dict(sorted(parts.items()))}
    return json.dumps({**head, **_only_rules(schema)}, indent=2) + "\n"


def _only_rules(schema: Any) -> Any:
    """The schema without names and texts of classes, and without defaults."""
    if isinstance(schema, list):
        return [_only_rules(row) for row in schema]
    if not isinstance(schema, dict):
        return schema
    left_out = {"title", "description", "default"}
    if schema.get("required") == []:
        left_out.add("required")
    rows = {key: row for key, row in schema.items() if key not in left_out}
    if "properties" in rows:  # here every key is the name of a value
        named = {key: _only_rules(row) for key, row in rows.pop("properties").items()}
        rows["properties"] = named
    return {key: row if key == "properties" else _only_rules(row) for key, row in rows.items()}


def _chart_rules() -> str:
    """Named templates with the rules of each component, as YAML lists."""
    sections = ["{{/* The rights that the code declares. Made by `make docs`. */}}"]
    values = Values()
    for component in DECLARED:
        rights = roles.rights_of(component, values)
        rules = {place: getattr(rights, place) for place in _PLACES}
        sections += [
            _template(f"{component}.{place}", rows) for place, rows in rules.items() if rows
        ]
    sections += [
        _template(f"users.{name}.{what}", [roles.user_rule(kinds, name)])
        for name in roles.USER_VERBS
        for what, kinds in (("jobs", JOB_KINDS), ("gangs", roles.GROUPS))
    ]
    text = "\n\n".join(sections) + "\n"
    # The leases of scheduler names follow the values.
    lines = "".join(f"  - {name_lease(name)}\n" for name in values.scheduler.names)
    assert lines in text
    loop = (
        "  {{- range .Values.scheduler.names }}\n"
        '  - muster-scheduler.{{ regexReplaceAll "[^a-z0-9-]" (lower .) "-" | trimAll "-" }}\n'
        "  {{- end }}\n"
    )
    return text.replace(lines, loop)


def _chart_policy() -> str:
    """The policy, where the cluster serves policies and the operator serves the whole cluster."""
    objects = admission_policy.build()
    served = f"{objects[0]['apiVersion']}/{objects[0]['kind']}"
    text = "".join(f"---\n{yaml_writer.dump(item)}\n" for item in objects)
    assert "{{" not in text, "Helm would take it for a template"
    return (
        "{{- /* Obvious mistakes in jobs. Made by `make docs`. */ -}}\n"
        "{{- $operator := .Values.operator }}\n"
        "{{- if and .Values.admissionPolicy $operator.enabled (not $operator.watchNamespace) "
        f'(.Capabilities.APIVersions.Has "{served}") }}}}\n{text}{{{{- end }}}}\n'
    )


def _template(name: str, rules: Iterable[Rule]) -> str:
    text = yaml.safe_dump([row.as_rbac() for row in rules], sort_keys=False)
    return f'{{{{- define "muster.rules.{name}" }}}}\n{text}{{{{- end }}}}'


def _page(text: str) -> str:
    """The page with a new table of rights."""
    before, _, rest = text.partition(_BEGIN)
    _, found, after = rest.partition(_END)
    assert found, f"{PAGE} has no place for the table"
    return f"{before}{_BEGIN}\n{_tables()}\n{_END}{after}"


def _tables() -> str:
    return "\n".join(line for component in DECLARED for line in _table(component)).rstrip()


def _table(component: str) -> Iterable[str]:
    rights = roles.rights_of(component, Values())
    yield f"\n**muster-{component}**\n"
    yield "| where | resources | verbs | why |"
    yield "|---|---|---|---|"
    places = _PLACES_OF_USERS if component.startswith("dashboard") else _PLACES
    for place, words in places.items():
        for row in getattr(rights, place):
            names = f" named {', '.join(row.names)}" if row.names else ""
            groups = " of " + ", ".join(g or "the core group" for g in row.groups)
            resources = ", ".join(f"`{name}`" for name in row.resources)
            yield f"| {words} | {resources}{groups}{names} | {', '.join(row.verbs)} | {row.why} |"


def main() -> None:
    for path, text in files().items():
        path.write_text(text)


if __name__ == "__main__":
    main()
