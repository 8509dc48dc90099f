"""The policy that says which namespaces may use which PriorityClass. Pure.

Whoever may create pods in a namespace could use every PriorityClass there, and a gang of higher
priority evicts others. A ResourceQuota for a class limits only its own namespace; this policy holds
in all of them. It is about pods, whoever creates them: a job, a group or a Deployment gives a gang
no priority that its pods do not have.

The namespaces of the cluster and of Muster may use every class: nobody but administrators should
create pods there, and components of the cluster must not be kept from starting.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from muster.contract.waiting_line_format import NAMESPACE as CLUSTER_NAMESPACE
from muster.install.objects import admission_policy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kubekit.objects.meta import Raw

NAME = "muster-priorities"
_CLASS = "object.spec.priorityClassName"
_ALLOWED = f"variables.allowed[{_CLASS}]"


def build(classes: Mapping[str, Sequence[str]], namespace: str) -> list[Raw]:
    """The policy for these classes and their namespaces, and its binding.

    `namespace` is Muster's own.
    """
    return admission_policy.with_binding(NAME, _policy(classes, namespace))


def read(policy: Raw, namespace: str) -> dict[str, tuple[str, ...]]:
    """The classes and namespaces of a policy that `build` made."""
    (variable,) = policy["spec"]["variables"]
    classes = msgspec.json.decode(variable["expression"], type=dict[str, list[str]])
    always = (CLUSTER_NAMESPACE, namespace)
    return {
        name: tuple(row for row in namespaces if row not in always)
        for name, namespaces in classes.items()
    }


def _policy(classes: Mapping[str, Sequence[str]], namespace: str) -> Raw:
    allowed = {
        name: list(dict.fromkeys((*namespaces, CLUSTER_NAMESPACE, namespace)))
        for name, namespaces in classes.items()
    }
    return {
        # What cannot be evaluated must not be a way around it.
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [
                {
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "operations": ["CREATE"],  # the class of a pod cannot be changed
                    "resources": ["pods"],
                }
            ]
        },
        # JSON is CEL too, and has one way to write a value: the chart gives the same text.
        "variables": [
            {
                "name": "allowed",
                "expression": msgspec.json.encode(allowed, order="sorted").decode(),
            }
        ],
        "validations": [
            {
                "expression": f"!has({_CLASS}) || !({_CLASS} in variables.allowed) || "
                f"request.namespace in {_ALLOWED}",
                "reason": "Forbidden",
                "message": "the PriorityClass is not for pods of this namespace",
                "messageExpression": f"'the PriorityClass ' + {_CLASS} + ' is not for pods of the "
                "namespace ' + request.namespace + '; choose another, or ask an administrator of "
                "the cluster'",
            }
        ],
    }
