"""The policy by which the API server itself rejects jobs with obvious mistakes. Pure.

A ValidatingAdmissionPolicy: the API server evaluates it, no webhook has to run. Without it the
operator reports the same mistakes, but only after the job was accepted, as a failed job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubekit.objects.kinds import ADMISSION_POLICIES
from muster.contract.job_resources import JOB_KINDS
from muster.install.objects.admission.job_rules import rules
from muster.install.objects.admission.job_variables import variables
from muster.install.objects.roles import labels
from muster.jobs.job import MANAGED_BY_MUSTER

if TYPE_CHECKING:
    from kubekit.objects.meta import Raw
    from muster.install.objects.admission.job_rules import AdmissionRule

NAME = "muster-jobs"


def build() -> list[Raw]:
    """The policy, and the binding that puts it into effect in all namespaces."""
    specs = (_policy(), {"policyName": NAME, "validationActions": ["Deny"]})
    return [
        {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": {"name": NAME, "labels": labels()},
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
    return {**variables(), **{_variable(rule): rule.sentences for rule in rules()}}


def _variable(rule: AdmissionRule) -> str:
    """The variable that holds the sentences of a rule: `known-roles` -> `wrongKnownRoles`."""
    return "wrong" + "".join(word.capitalize() for word in rule.name.split("-"))
