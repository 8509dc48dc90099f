"""The CRDs of the four kinds of jobs, built from the table of their fields.

They are built instead of stored: `v1` and the five older versions differ in a few defaults only,
and only `v1`, in which jobs are stored and the operator writes, describes the fields of a status.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from muster.contract.job_fields import PRESERVE, SPEC_FIELDS, STATUS_FIELDS
from muster.contract.job_kinds import JAXJOBS, MPIJOBS, PYTORCHJOBS, TFJOBS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kubekit.objects.kinds import Kind
    from kubekit.objects.meta import Raw

_RUNNING = {"cleanPodPolicy": "Running"}
# Before v1, finished jobs lost their running pods, and all of them in v1alpha1.
_BEFORE_V1: Raw = {
    "v1": {},
    "v1beta2": _RUNNING,
    "v1beta1": _RUNNING,
    "v1alpha2": _RUNNING,
    "v1alpha1": {"cleanupPodPolicy": "All"},
}
_SIX_RETRIES = {"backoffLimit": 6}


class _Definition(NamedTuple):
    """How the CRD of one kind differs from the others."""

    kind: Kind[Raw]
    versions: dict[str, Raw]
    """The defaults in spec, by version."""
    scaled: str = ""
    """The field with the replicas, if `kubectl scale` changes its workers."""


_DEFINITIONS = (
    _Definition(JAXJOBS, {"v1": {}}, "jaxReplicaSpecs"),
    _Definition(
        MPIJOBS,
        {
            "v1": {},
            "v2beta1": {
                "slotsPerWorker": 1,
                # v2beta1 reaches its workers by ssh, all others by exec: the path tells them apart.
                "sshAuthMountPath": "/root/.ssh",
                "launcherCreationPolicy": "AtStartup",
                "mpiImplementation": "OpenMPI",
            },
            "v1beta2": {},
            "v1beta1": {},
            "v1alpha2": _SIX_RETRIES,
            "v1alpha1": _SIX_RETRIES,
        },
    ),
    _Definition(PYTORCHJOBS, _BEFORE_V1, "pytorchReplicaSpecs"),
    _Definition(TFJOBS, _BEFORE_V1),
)


def build_all() -> Iterator[Raw]:
    """The CRD of every kind of job."""
    for definition in _DEFINITIONS:
        kind = definition.kind
        yield {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": kind.resource},
            "spec": {
                "group": kind.group,
                "names": {
                    "kind": kind.kind,
                    "listKind": f"{kind.kind}List",
                    "plural": kind.plural,
                    "singular": kind.kind.lower(),
                    "categories": ["all"],
                },
                "scope": "Namespaced",
                "versions": [
                    _version(definition, name, defaults)
                    for name, defaults in definition.versions.items()
                ],
            },
        }


def _version(definition: _Definition, name: str, defaults: Raw) -> Raw:
    # The scale subresource came with v1.
    scaled = definition.scaled if name == "v1" else ""
    return {
        "name": name,
        "served": True,
        "storage": name == "v1",
        "schema": {"openAPIV3Schema": _schema(definition.kind.kind, name, defaults)},
        "subresources": {"status": {}, **({"scale": _scale(scaled)} if scaled else {})},
        "additionalPrinterColumns": [
            {"name": "State", "type": "string", "jsonPath": ".status.conditions[-1:].type"},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ],
    }


def _schema(kind: str, version: str, defaults: Raw) -> Raw:
    fields = dict(SPEC_FIELDS[kind])
    for name, default in defaults.items():
        # A nullable field would keep its null instead of getting the default.
        field = {key: value for key, value in fields[name].items() if key != "nullable"}
        fields[name] = {**field, "default": default}
    of_status = STATUS_FIELDS if version == "v1" else {}
    return {
        "type": "object",
        "description": f"A {kind}: training with pods that start, run and end together.",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": {
                **_part("The job as it should run.", fields),
                "x-kubernetes-validations": [
                    {"rule": rule, "message": "field is immutable", "fieldPath": f".{path}"}
                    for rule, path in IMMUTABLE_FIELDS.items()
                ],
            },
            "status": _part("The job as it runs, written by the operator.", of_status),
        },
    }


# managedBy says which controller works on a job. If it could change, two would work on it at once.
_PLACES = {"runPolicy.managedBy": "has({0}.runPolicy) && has({0}.runPolicy.managedBy)"}
_PLACES |= {"managedBy": "has({0}.managedBy)"}


def _unchanged(path: str) -> str:
    """The CEL rule that a field of spec neither changes nor comes nor goes."""
    values = (f"({_PLACES[path]} ? {{0}}.{path} : '')".format(me) for me in ("self", "oldSelf"))
    return " == ".join(values)


IMMUTABLE_FIELDS = {_unchanged(path): path for path in _PLACES}
"""The CEL rules of spec, and the path below spec of the field that each is about."""


def _part(description: str, fields: Raw) -> Raw:
    part = {"type": "object", "description": description, PRESERVE: True}
    return {**part, "properties": fields} if fields else part


def _scale(field: str) -> dict[str, Any]:
    return {
        "specReplicasPath": f".spec.{field}.Worker.replicas",
        "statusReplicasPath": ".status.replicaStatuses.Worker.active",
        "labelSelectorPath": ".status.replicaStatuses.Worker.selector",
    }
