"""The mistakes in a job that the admission policy rejects. Pure.

A rule is one CEL expression that gives a list of sentences about the job; an empty list passes. The
sentences are those of `muster.jobs.parse`, whose rules these are: as many of them as CEL can say
cheaply. A test sends the same jobs to both and compares.

A rule may let a mistake pass, which the operator then reports in the job's status. It must never
reject a job that `parse` accepts.
"""

from __future__ import annotations

from typing import NamedTuple

from kubekit.objects.quantity import MAX_INT64
from muster.install.objects.admission.cel import (
    by_kind,
    has,
    sentence,
    text,
    texts,
    unknown_word,
    when,
    wrong_number,
)
from muster.install.objects.admission.job_variables import INDEXES, RUN_POLICY, SINGLE, SPEC
from muster.jobs import names
from muster.jobs.fields import MAX_INT32
from muster.jobs.frameworks.mpi_spec import CREATION_POLICIES, IMPLEMENTATIONS
from muster.jobs.job_kinds import JOB_KIND_BY_NAME
from muster.jobs.parse import MAX_REPLICAS, RESTART_POLICIES, SUCCESS_POLICIES, SUCCESS_POLICY_HINT
from muster.jobs.run_policy import CLEAN_POD_POLICIES


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


_COUNT = ("=r.path", ".replicas: is ", "=string(r.count)")


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
