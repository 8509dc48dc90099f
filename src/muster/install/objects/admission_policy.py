"""The policy by which the API server itself rejects jobs with obvious mistakes. Pure.

A ValidatingAdmissionPolicy: the API server evaluates it, no webhook has to run. Without it the
operator reports the same mistakes, but only after the job was accepted, as a failed job.

A rule is one CEL expression that gives a list of sentences about the job; an empty list passes. The
sentences are those of `muster.jobs.parse`, whose rules these are: as many of them as CEL can say
cheaply. A test sends the same jobs to both and compares. A rule may let a mistake pass, which the
operator then reports in the job's status. It must never reject a job that `parse` accepts.

The rules read variables of the policy. These give the three forms of a job (a map of roles, a list
of roles, one template for launcher and workers) one shape, in which roles and their fields have
been found in any letter case.

Functions that return a string return the text of an expression. Their arguments `holder` and `path`
are expressions, or names of fields in a message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kubekit.objects.kinds import ADMISSION_POLICIES
from kubekit.objects.quantity import MAX_INT64
from muster.contract.job_kinds import JOB_KIND_BY_NAME, JOB_KINDS
from muster.install.objects.roles import labels
from muster.jobs import names
from muster.jobs.field_reader import MAX_INT32
from muster.jobs.frameworks.mpi_spec import CREATION_POLICIES, IMPLEMENTATIONS
from muster.jobs.job import MANAGED_BY_MUSTER
from muster.jobs.parse import MAX_REPLICAS, RESTART_POLICIES, SUCCESS_POLICIES, SUCCESS_POLICY_HINT
from muster.jobs.run_policy import CLEAN_POD_POLICIES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kubekit.objects.meta import Raw
    from muster.contract.job_kinds import JobKind


NAME = "muster-jobs"
SPEC, RUN_POLICY = "variables.spec", "variables.runPolicy"
SINGLE = f"(object.kind == 'MPIJob' && size(variables.written) == 0 && 'template' in {SPEC})"
"""Whether the job is an MPIJob with one template."""
INDEXES = str(list(range(10)))
"""CEL has no index in a loop; containers and listed roles after the tenth are not checked."""
_ARRAY = f"{SPEC}[variables.array[0]]"
_COUNT = ("=r.path", ".replicas: is ", "=string(r.count)")


def build() -> list[Raw]:
    """The policy, and its binding."""
    return with_binding(NAME, _policy())


def with_binding(name: str, policy: Raw) -> list[Raw]:
    """A policy, and the binding that puts it into effect in all namespaces."""
    specs = (policy, {"policyName": name, "validationActions": ["Deny"]})
    return [
        {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": {"name": name, "labels": labels()},
            "spec": spec,
        }
        for kind, spec in zip(ADMISSION_POLICIES, specs, strict=True)
    ]


def _policy() -> Raw:
    return {
        # An expression that cannot be evaluated lets the job pass: the operator checks it as well,
        # and a CRD of another system must not make Muster the reason why no job is accepted.
        "failurePolicy": "Ignore",
        "matchConstraints": {
            "resourceRules": [
                {
                    "apiGroups": sorted({kind.group for kind in JOB_KINDS}),
                    # The form of a job is recognised by its fields, not by its version.
                    "apiVersions": ["*"],
                    "operations": ["CREATE", "UPDATE"],
                    # Not their subresources: writes of the status always pass.
                    "resources": [kind.plural for kind in JOB_KINDS],
                }
            ]
        },
        "matchConditions": [
            {"name": name, "expression": expression} for name, expression in _conditions().items()
        ],
        "variables": [
            {"name": name, "expression": expression} for name, expression in _variables().items()
        ],
        "validations": [
            {
                "expression": f"size(variables.{_variable(rule)}) == 0",
                "message": rule.message,
                "messageExpression": f"variables.{_variable(rule)}[0]",
            }
            for rule in rules()
        ],
    }


def _conditions() -> dict[str, str]:
    """Which writes of jobs are checked."""
    nested, flat = "object.spec.runPolicy.managedBy", "object.spec.managedBy"
    has_nested = f"has(object.spec) && has(object.spec.runPolicy) && has({nested})"
    manager = f"({has_nested} ? {nested} : has(object.spec) && has({flat}) ? {flat} : '')"
    ours = ", ".join(f"'{name}'" for name in MANAGED_BY_MUSTER)
    return {
        "managed-by-muster": f"{manager} in [{ours}]",
        # A job that exists keeps its labels, its owners and its finalizers changeable, whatever is
        # wrong with it, and can be deleted.
        "new-spec": "oldObject == null || has(object.spec) != has(oldObject.spec) || "
        "(has(object.spec) && object.spec != oldObject.spec)",
        "not-leaving": "!has(object.metadata.deletionTimestamp)",
    }


def _variables() -> dict[str, str]:
    return {**_job_variables(), **{_variable(rule): rule.sentences for rule in rules()}}


def _variable(rule: AdmissionRule) -> str:
    """The variable that holds the sentences of a rule: `known-roles` -> `wrongKnownRoles`."""
    return "wrong" + "".join(word.capitalize() for word in rule.name.split("-"))


class AdmissionRule(NamedTuple):
    """One kind of mistake."""

    name: str
    sentences: str
    """CEL: a list of sentences, each with the next step."""
    message: str
    """The sentence for a job whose own cannot be made, as when a value has a line break."""


def rules() -> list[AdmissionRule]:
    """Every rule, in the order in which `parse` looks: the API server reports the first."""
    return [*_roles(), *_containers(), *_policies(), *_contradictions(), _names()]


def _of_replicas(wrong: str, words: str) -> str:
    """The sentences about the roles of which `wrong` is true."""
    return f"variables.replicas.filter(r, {wrong}).map(r, {words})"


def _roles() -> list[AdmissionRule]:
    example = "=variables.known[size(variables.known) - 1]"
    absent = f"(size(variables.written) == 0 && size(variables.array) == 0 && !{SINGLE})"
    path = ("spec.", "=variables.field")
    missing = sentence(*path, ": is missing; write spec.", path[1], ".", example, ".template")
    empty = sentence(*path, ": has no roles; add ", example, " with a template")
    hint = f"use {', '.join(RESTART_POLICIES)}"
    return [
        AdmissionRule("replicas-given", when(absent, missing), "the job has no replicas"),
        AdmissionRule(
            "some-role",
            when(f"!{absent} && size(variables.bodies) == 0", empty),
            "the job has no roles",
        ),
        AdmissionRule(
            "known-roles",
            _of_replicas(
                "r.role == ''",
                sentence(
                    "=r.path",
                    ": unknown role '",
                    "=r.written",
                    "'; use one of ",
                    "=variables.known.join(', ')",
                ),
            ),
            "a role is unknown",
        ),
        AdmissionRule(
            "replicas-not-negative",
            _of_replicas("r.count < 0", sentence(*_COUNT, "; write 0 or more")),
            "a role has a negative number of replicas; write 0 or more",
        ),
        AdmissionRule(
            "replicas-in-range",
            _of_replicas(
                f"r.count > {MAX_INT32}", sentence(*_COUNT, f"; write at most {MAX_INT32}")
            ),
            f"a role has too many replicas; write at most {MAX_INT32}",
        ),
        AdmissionRule(
            "known-restart-policy",
            _of_replicas(
                f"r.restart != '' && !(r.restart in {texts(RESTART_POLICIES)})",
                sentence("=r.path", ".restartPolicy: '", "=r.restart", f"' is unknown; {hint}"),
            ),
            f"a restartPolicy is unknown; {hint}",
        ),
    ]


def _containers() -> list[AdmissionRule]:
    wanted = ("'", "=variables.container", "'")
    # An MPIJob's container may have any name: `parse` then takes the first.
    free = texts(row.kind for row in JOB_KIND_BY_NAME.values() if not row.port)
    unnamed = f"size(p.containers) > 1 && !(object.kind in {free})"
    unnamed += " && p.containers.all(c, c.name != variables.container)"
    none = sentence(
        "=p.path",
        ": none of ",
        "=p.containers.map(c, c.name).join(', ')",
        " is named ",
        *wanted,
        "; name the container that trains ",
        *wanted,
    )
    empty = sentence("=p.path", ": is empty; add a container named ", *wanted)
    return [
        AdmissionRule(
            "some-container",
            f"variables.pods.filter(p, size(p.containers) == 0).map(p, {empty})",
            "a role has no containers",
        ),
        _without("name", "write ", *wanted),
        _without("image", "name an image"),
        AdmissionRule(
            "training-container",
            f"variables.pods.filter(p, {unnamed}).map(p, {none})",
            "no container of a role has the name of the container that trains",
        ),
    ]


def _without(field: str, *hint: str) -> AdmissionRule:
    """The first container without a field."""
    row = "p.containers[i]"
    lacks = f"i < size(p.containers) && !({has(f'{row}.{field}')} && {row}.{field} != '')"
    first = f"=string({INDEXES}.filter(i, {lacks})[0])"
    words = sentence("=p.path", "[", first, f"].{field}: is missing; ", *hint)
    sentences = f"variables.pods.filter(p, {INDEXES}.exists(i, {lacks})).map(p, {words})"
    return AdmissionRule(f"container-{field}", sentences, f"a container has no {field}")


def _policies() -> list[AdmissionRule]:
    success = unknown_word(
        f"{SPEC}.successPolicy", "spec.successPolicy", SUCCESS_POLICIES, SUCCESS_POLICY_HINT
    )
    limits = {
        "ttlSecondsAfterFinished": MAX_INT32,
        "activeDeadlineSeconds": MAX_INT64,
        "backoffLimit": MAX_INT32,
    }
    return [
        AdmissionRule("clean-pod-policy", _clean_pod_policy(), "cleanPodPolicy is unknown"),
        *(
            AdmissionRule(f"limit-{field.lower()}", _limit(field, most), f"{field} is out of range")
            for field, most in limits.items()
        ),
        AdmissionRule("scheduling-policy", _scheduling_policy(), "a number is out of range"),
        AdmissionRule("success-policy", success, "successPolicy is unknown"),
        AdmissionRule("mpi-options", _mpi_options(), "an option of MPI is unknown"),
    ]


def _clean_pod_policy() -> str:
    nested, flat = f"{RUN_POLICY}.cleanPodPolicy", f"{SPEC}.cleanPodPolicy"
    rows = {"spec.runPolicy.cleanPodPolicy": nested, "spec.cleanPodPolicy": flat}
    rows["spec.cleanupPodPolicy"] = f"{SPEC}.cleanupPodPolicy"
    first, second, third = (
        unknown_word(holder, path, CLEAN_POD_POLICIES) for path, holder in rows.items()
    )
    return f"{has(nested)} ? {first} : {has(flat)} ? {second} : {third}"


def _limit(field: str, most: int) -> str:
    """The sentence about a number in runPolicy or, without it there, directly under spec."""
    nested = wrong_number(f"{RUN_POLICY}.{field}", f"spec.runPolicy.{field}", most)
    flat = wrong_number(f"{SPEC}.{field}", f"spec.{field}", most)
    return f"{has(f'{RUN_POLICY}.{field}')} ? {nested} : {flat}"


def _scheduling_policy() -> str:
    holder, path = f"{RUN_POLICY}.schedulingPolicy", "spec.runPolicy.schedulingPolicy"
    fields = ("minAvailable", "scheduleTimeoutSeconds")
    rows = (wrong_number(f"{holder}.{row}", f"{path}.{row}", MAX_INT32) for row in fields)
    return f"{has(holder)} ? {' + '.join(rows)} : []"


def _mpi_options() -> str:
    creation, slots = f"{SPEC}.launcherCreationPolicy", f"{SPEC}.slotsPerWorker"
    rows = (
        unknown_word(creation, "spec.launcherCreationPolicy", CREATION_POLICIES),
        wrong_number(slots, "spec.slotsPerWorker", MAX_INT32),
        unknown_word(f"{SPEC}.mpiImplementation", "spec.mpiImplementation", IMPLEMENTATIONS),
    )
    return f"object.kind == 'MPIJob' ? {' + '.join(rows)} : []"


def _contradictions() -> list[AdmissionRule]:
    a_job = ("; a ", "=object.kind")
    lacking = f"{by_kind('required')}.filter(n, !variables.replicas.exists(r, r.role == n))"
    needed = sentence(
        "spec.", "=variables.field", ".", "=n", ": is missing", *a_job, " needs a ", "=n"
    )
    one = sentence(*_COUNT, *a_job, " has exactly one ", "=r.role", "; write 1 or leave it out")
    chief = sentence(
        *_COUNT, *a_job, " has one ", "=r.role", "; write 1 or leave it out; others are workers"
    )
    return [
        AdmissionRule("one-chief", _two_chiefs(), "the job has two chiefs; keep one"),
        AdmissionRule("required-roles", f"{lacking}.map(n, {needed})", "a role is missing"),
        AdmissionRule(
            "single-roles",
            _of_replicas(f"r.role in {by_kind('single_roles')} && r.count != 1", one),
            "a role that has exactly one replica has more or none; write 1",
        ),
        AdmissionRule(
            "one-replica-of-chief",
            _of_replicas(f"r.role in {by_kind('chief_roles')} && r.count > 1", chief),
            "the job has more than one chief; write 1",
        ),
        AdmissionRule("all-replicas", _too_many(), f"a job has at most {MAX_REPLICAS} replicas"),
    ]


def _two_chiefs() -> str:
    roles = by_kind("chief_roles")
    found = f"{roles}.filter(n, variables.replicas.exists(r, r.role == n))"
    second = f"=variables.replicas.filter(r, r.role == {found}[1])[0].path"
    words = sentence(
        second, ": there is a ", f"={found}[0]", " already; keep one of ", f"={roles}.join(' and ')"
    )
    return when(f"size({found}) > 1", words)


def _too_many() -> str:
    total = "variables.replicas.map(r, int(r.count)).sum()"
    # Of two roles of the same size, `parse` names the first in the order of the table.
    roles = "variables.known.filter(n, variables.replicas.exists(r, r.role == n))"
    ordered = f"{roles}.map(n, variables.replicas.filter(r, r.role == n)[0])"
    largest = f"{ordered}.filter(r, variables.replicas.all(o, o.count <= r.count))[0]"
    words = sentence(
        f"={largest}.path",
        ".replicas: is ",
        f"=string({largest}.count)",
        "; the job would have ",
        f"=string({total})",
        f" replicas; a job has at most {MAX_REPLICAS} replicas in all",
    )
    return when(f"{total} > {MAX_REPLICAS}", words)


def _names() -> AdmissionRule:
    """The rule of `names.check`. Of jobs that exist it says nothing: a name cannot be changed."""
    longest, most = "variables.longest", names.MAX_LENGTH
    derived = ("metadata.name: '", f"={longest}", "', derived from it, ")
    spare = f"=string({most} - size({longest}) + size(object.metadata.name))"
    long = sentence(
        *derived,
        "has ",
        f"=string(size({longest}))",
        f" characters; at most {most} are allowed; use a name of at most ",
        spare,
        " characters",
    )
    no_label = sentence(*derived, f"is not a DNS label; {names.LABEL_HINT}")
    return AdmissionRule(
        "name",
        f"request.operation != 'CREATE' ? [] : size({longest}) > {most} ? [{long}] "
        f": {longest}.matches({text(f'^{names.LABEL}$')}) ? [] : [{no_label}]",
        "names derived from metadata.name are too long or not DNS labels",
    )


def _job_variables() -> dict[str, str]:
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


def text(words: str) -> str:
    """A string."""
    return "'" + words.replace("\\", "\\\\").replace("'", "\\'") + "'"


def texts(words: Iterable[str]) -> str:
    """A list of strings."""
    return "[" + ", ".join(map(text, words)) + "]"


def sentence(*parts: str) -> str:
    """Parts of a sentence, joined: a part that begins with `=` is an expression, not text."""
    return " + ".join(part[1:] if part.startswith("=") else text(part) for part in parts)


def by_kind(attribute: str) -> str:
    """The value that the job's kind has in the table of job kinds: a word, or a list of words."""
    rows = (f"{text(kind)}: {_value(row, attribute)}" for kind, row in JOB_KIND_BY_NAME.items())
    return "{" + ", ".join(rows) + "}[object.kind]"


def _value(row: JobKind, attribute: str) -> str:
    value: str | tuple[str, ...] = getattr(row, attribute)
    return text(value) if isinstance(value, str) else texts(value)


def any_case(holder: str, field: str, default: str) -> str:
    """The field of this name in any letter case."""
    found = f"k, k.lowerAscii() == {text(field.lower())} && {holder}[k] != null"
    return f"({holder}.exists({found}) ? {holder}[{holder}.filter({found})[0]] : {default})"


def has(path: str) -> str:
    """Whether a field is there; null counts as missing, as in `muster.jobs.field_reader`."""
    return f"(has({path}) && {path} != null)"


def when(condition: str, words: str) -> str:
    """A list with one sentence, or an empty list."""
    return f"({condition} ? [{words}] : [])"


def unknown_word(holder: str, path: str, allowed: tuple[str, ...], hint: str = "") -> str:
    """The sentence about a word that is not allowed, as `Section.choice` has it."""
    wrong = f"{has(holder)} && {holder} != '' && !({holder} in {texts(allowed)})"
    hint = hint or f"use {', '.join(allowed)}"
    return when(wrong, sentence(f"{path}: '", f"={holder}", f"' is unknown; {hint}"))


def wrong_number(holder: str, path: str, most: int) -> str:
    """The sentence about a number that is out of range, as `Section.number` has it."""
    value = f"=string({holder})"
    low = sentence(f"{path}: is ", value, "; write 0 or more")
    high = sentence(f"{path}: is ", value, f"; write at most {most}")
    return (
        f"({has(holder)} ? {when(f'{holder} < 0', low)} + {when(f'{holder} > {most}', high)} : [])"
    )
