"""The parts of a job that the rules read, as variables of the policy. Pure.

They give the three forms of a job (a map of roles, a list of roles, one template for launcher and
workers) one shape, in which roles and their fields have been found in any letter case.
"""

from __future__ import annotations

from muster.install.objects.admission.cel import any_case, by_kind, has, text
from muster.jobs import names

SPEC, RUN_POLICY = "variables.spec", "variables.runPolicy"
SINGLE = f"(object.kind == 'MPIJob' && size(variables.written) == 0 && 'template' in {SPEC})"
"""Whether the job is an MPIJob with one template."""
INDEXES = str(list(range(10)))
"""CEL has no index in a loop; containers and listed roles after the tenth are not checked."""
_ARRAY = f"{SPEC}[variables.array[0]]"


def variables() -> dict[str, str]:
    """The variables, each after those that it is built from."""
    written = f"k.lowerAscii() == variables.field.lowerAscii() && {SPEC}[k] != null"
    array = f"object.kind == 'TFJob' && k.lowerAscii() == 'replicaspecs' && {SPEC}[k] != null"
    return {
        "field": by_kind("replicas_field"),
        "known": by_kind("roles"),
        "container": by_kind("container"),
        "spec": "has(object.spec) ? object.spec : {}",
        "runPolicy": f"{has(f'{SPEC}.runPolicy')} ? {SPEC}.runPolicy : {{}}",
        "written": f"{SPEC}.filter(k, {written})",
        "array": f"{SPEC}.filter(k, {array})",
        "bodies": _bodies(),
        "replicas": _replicas(),
        "pods": _pods(),
        "suffixes": _suffixes(),
        "longest": _longest(),
    }


def _row(**fields: str) -> str:
    """A map from names to values; `dyn` lets the values have different types."""
    return "{" + ", ".join(f"{text(name)}: dyn({value})" for name, value in fields.items()) + "}"


def _bodies() -> str:
    """The roles as written: path, name and fields of each."""
    listed = _row(
        path="'spec.replicaSpecs[' + string(i) + ']'",
        written=any_case(f"{_ARRAY}[i]", "tfReplicaType", "'Chief'"),
        body=f"{_ARRAY}[i]",
    )
    single = _row(path="'spec'", written="'Launcher'", body=f"{{'template': {SPEC}.template}}")
    roles = f"{SPEC}[variables.written[0]]"
    mapped = _row(
        path="'spec.' + variables.field + '.' + r",
        written="r",
        body=f"{roles}[r] == null ? {{}} : {roles}[r]",
    )
    return (
        f"size(variables.array) > 0 ? {INDEXES}.filter(i, i < size({_ARRAY})).map(i, {listed}) "
        f": {SINGLE} ? [{single}] "
        f": size(variables.written) > 0 ? {roles}.map(r, {mapped}) : []"
    )


def _replicas() -> str:
    """The roles; `role` is the canonical name of a known one, else empty."""
    known = "variables.known.filter(n, n.lowerAscii() == b.written.lowerAscii())"
    row = _row(
        path="b.path",
        written="b.written",
        role=f"size({known}) > 0 ? {known}[0] : ''",
        count=any_case("b.body", "replicas", "1"),
        restart=any_case("b.body", "restartPolicy", "''"),
        template=any_case("b.body", "template", "{}"),
    )
    return f"variables.bodies.map(b, {row})"


def _pods() -> str:
    """The containers of each role, and their path."""
    there = f"{has('r.template.spec')} && {has('r.template.spec.containers')}"
    row = _row(
        path="r.path + '.template.spec.containers'",
        containers=f"{there} ? r.template.spec.containers : []",
    )
    return f"variables.replicas.map(r, {row})"


def _suffixes() -> str:
    """What follows the job's name in the longest name of each role, in the order of the table."""
    count = "int(variables.replicas.filter(r, r.role == n)[0].count)"
    last = f"string({count} > 0 ? {count} - 1 : 0)"
    roles = "variables.known.filter(n, variables.replicas.exists(r, r.role == n))"
    launcher = f"[{text(names.launcher_example(''))}]"
    has_launcher = "variables.replicas.exists(r, r.role == 'Launcher')"
    numbered = f"{roles}.map(n, '-' + n.lowerAscii() + '-' + {last})"
    return f"{numbered} + ({has_launcher} ? {launcher} : [])"


def _longest() -> str:
    """The longest name of a pod or service; of equally long ones the first, as in `max`."""
    suffix = "variables.suffixes.filter(s, variables.suffixes.all(o, size(o) <= size(s)))[0]"
    return f"object.metadata.name + (size(variables.suffixes) > 0 ? {suffix} : '')"
