"""Owners of fields: several managers, conflicts, removal, lists, status and scale, other writes."""

from __future__ import annotations

import json
from typing import Any

from tests.localkube.conformance.cases.crds import THINGS, on_new_kind, thing
from tests.localkube.conformance.cases.server_side_apply import (
    DEPLOYMENTS,
    MANAGED,
    ONE,
    TWO,
    apply,
    deployment,
    env,
    replicas,
    service,
)
from tests.localkube.conformance.cases.steps import (
    CM,
    JOBS,
    PODS,
    SVC,
    answered,
    cm,
    delete,
    get,
    job,
    patch,
    pod,
    post,
    put,
)
from tests.localkube.conformance.transcript import JSON_PATCH, Case

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
OWNERS = "/metadata/managedFields"
UNKNOWN = {**MANAGED, "operation": "x"}
CONDITION = {"type": "Ready", "status": "True"}


def with_meta(obj: dict[str, Any], **meta: Any) -> dict[str, Any]:
    return {**obj, "metadata": {**obj["metadata"], **meta}}


def status(*conditions: dict[str, Any], **more: Any) -> dict[str, Any]:
    meta = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}
    return {**meta, "status": {"conditions": list(conditions), **more}}


def container(name: str = "main", **more: Any) -> dict[str, Any]:
    return {"name": name, **more}


def partial(*containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """A deployment without the fields that every deployment needs."""
    template = {"spec": {"containers": list(containers)}} if containers else {}
    meta = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}}
    return {**meta, "spec": {**({"template": template} if template else {}), **spec}}


MANAGERS = [
    Case(
        "two managers of different fields",
        [
            apply(f"{CM}/a", cm(data={"x": "1"}), "one"),
            apply(f"{CM}/a", cm(data={"y": "2"}), "two"),
            apply(f"{CM}/a", cm(data={"x": "3"}), "one"),
            apply(f"{CM}/a", with_meta(cm(), labels={"a": "b"}), "three"),
            get(f"{CM}/a"),
        ],
    ),
    Case(
        "conflicts of two managers",
        [
            apply(f"{CM}/a", cm(data={"x": "1", "y": "1", "z": "1"}), "one"),
            apply(f"{CM}/a", cm(data={"x": "2"}), "two"),
            apply(f"{CM}/a", cm(data={"x": "2", "z": "2", "n": "2"}), "two"),
            get(f"{CM}/a"),
            apply(f"{CM}/a", cm(data={"x": "2"}), "two", force="false"),
            apply(f"{CM}/a", cm(data={"x": "2"}), "two", force="true"),
            apply(f"{CM}/a", cm(data={"x": "1", "y": "1", "z": "1"}), "one"),
            apply(f"{CM}/a", cm(data={"y": "1"}), "one"),
            get(f"{CM}/a"),
        ],
    ),
    Case(
        "fields that two managers share",
        [
            apply(f"{CM}/a", cm(data={"x": "1", "y": "1"}), "one"),
            apply(f"{CM}/a", cm(data={"x": "1"}), "two"),
            apply(f"{CM}/a", cm(data={"x": "2"}), "two"),
            apply(f"{CM}/a", cm(), "one"),
            apply(f"{CM}/a", cm(), "two"),
            get(f"{CM}/a"),
        ],
    ),
    Case(
        "fields that their manager no longer applies",
        [
            apply(f"{DEPLOYMENTS}/a", deployment(ONE, TWO, replicas=2, minReadySeconds=5)),
            apply(f"{DEPLOYMENTS}/a", deployment(ONE)),
            apply(f"{DEPLOYMENTS}/a", deployment({**ONE, "args": ["a"]}, replicas=3)),
            apply(f"{DEPLOYMENTS}/a", deployment(ONE)),
            apply(f"{JOBS}/a", job(x={"y": 1, "z": {"a": 1}}, list=[1])),
            apply(f"{JOBS}/a", job(x={"y": 1})),
            apply(f"{JOBS}/a", job(z=1)),
        ],
    ),
    Case(
        "empty and null values in applies",
        [
            apply(f"{CM}/a", cm(data={})),
            apply(f"{CM}/a", cm(data=None)),
            apply(f"{CM}/a", cm(data={"x": "1"})),
            apply(f"{CM}/a", cm(data={})),
            apply(f"{CM}/a", with_meta(cm(), labels={"a": "b"}, finalizers=[])),
            apply(f"{CM}/a", with_meta(cm(), labels=None)),
            apply(f"{JOBS}/a", job(x={}, y=[], z=None)),
            apply(f"{JOBS}/a", job(x={"a": 1}, y=[1])),
            apply(f"{JOBS}/a", job(x={}, y=[])),
        ],
    ),
]

LISTS = [
    Case(
        "containers and their lists by two managers",
        [
            apply(f"{DEPLOYMENTS}/a", deployment(ONE), "one"),
            apply(f"{DEPLOYMENTS}/a", partial(container("side", image="i:2")), "two"),
            apply(f"{DEPLOYMENTS}/a", partial(container("one", image="i:3")), "two"),
            apply(f"{DEPLOYMENTS}/a", partial(container("one", args=["x"])), "two"),
            apply(f"{DEPLOYMENTS}/a", deployment(env("A", "B", value="1")), "one"),
            apply(f"{DEPLOYMENTS}/a", partial(env("C", value="2")), "two", force="true"),
            apply(f"{DEPLOYMENTS}/a", deployment(env("B", value="1")), "one"),
            apply(f"{DEPLOYMENTS}/a", partial(), "two"),
            get(f"{DEPLOYMENTS}/a"),
        ],
    ),
    Case(
        "ports with a protocol that is not stated",
        [
            apply(f"{SVC}/a", service({"name": "a", "port": 80}), "one"),
            apply(f"{SVC}/a", service({"name": "a", "port": 80, "protocol": "TCP"}), "two"),
            apply(f"{SVC}/a", service({"name": "b", "port": 80, "protocol": "TCP"}), "two"),
            apply(f"{SVC}/a", service({"name": "a", "port": 80}, {"name": "u", "port": 81}), "one"),
            apply(f"{SVC}/a", service({"name": "u", "port": 81}), "one"),
            get(f"{SVC}/a"),
        ],
        ("wording", "causes"),
    ),
    Case(
        "sets by two managers",
        [
            apply(f"{CM}/a", with_meta(cm(), finalizers=["x/a", "x/b"]), "one"),
            apply(f"{CM}/a", with_meta(cm(), finalizers=["x/c", "x/a"]), "two"),
            apply(f"{CM}/a", with_meta(cm(), finalizers=["x/b"]), "one"),
            apply(f"{CM}/a", cm(), "two"),
            patch(f"{CM}/a", {"metadata": {"finalizers": None}}),
            get(f"{CM}/a"),
        ],
    ),
    Case(
        "atomic fields by two managers",
        [
            apply(f"{DEPLOYMENTS}/a", deployment({**ONE, "args": ["a", "b"]}), "one"),
            apply(f"{DEPLOYMENTS}/a", partial(container("one", args=["c"])), "two"),
            apply(f"{DEPLOYMENTS}/a", partial(container("one", args=["a", "b"])), "two"),
            apply(f"{DEPLOYMENTS}/a", partial(container("one", args=["c"])), "two", force="true"),
            apply(f"{DEPLOYMENTS}/a", deployment(ONE), "one"),
            apply(f"{DEPLOYMENTS}/a", partial(), "two"),
        ],
    ),
    on_new_kind(
        apply(f"{THINGS}/a", thing(map=[{"k": "a", "v": 1}], set=["a"], atomic=[1]), "one"),
        apply(f"{THINGS}/a", thing(map=[{"k": "b", "v": 1}], set=["b"]), "two"),
        apply(f"{THINGS}/a", thing(map=[{"k": "a", "v": 2}], atomic=[2]), "two"),
        apply(f"{THINGS}/a", thing(whole={"a": 1}, parts={"a": 1}, free={"x": {"y": 1}}), "two"),
        apply(f"{THINGS}/a", thing(whole={"b": 1}, parts={"b": 1}, free={"x": {"z": 1}}), "one"),
        apply(
            f"{THINGS}/a", thing(whole={"b": 1}, parts={"b": 1}, free={"x": {"z": 1}}), "one",
            force="true",
        ),
        apply(f"{THINGS}/a", thing(), "two"),
        apply(f"{THINGS}/a", thing(map=[{"v": 2}, {"k": "x", "v": 2}]), "three"),
        apply(f"{THINGS}/a", thing(free={"y": [1]}), "one"),
        get(f"{THINGS}/a"),
        name="lists and maps of a custom kind by two managers",
        schema={
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {
                        "map": {
                            "type": "array",
                            "x-kubernetes-list-type": "map",
                            "x-kubernetes-list-map-keys": ["k"],
                            "items": {
                                "type": "object",
                                "required": ["k"],
                                "properties": {
                                    "k": {"type": "string", "default": "d"},
                                    "v": {"type": "integer"},
                                },
                            },
                        },
                        "set": {
                            "type": "array",
                            "x-kubernetes-list-type": "set",
                            "items": {"type": "string"},
                        },
                        "atomic": {"type": "array", "items": {"type": "integer"}},
                        "whole": {
                            "type": "object",
                            "x-kubernetes-map-type": "atomic",
                            "additionalProperties": {"type": "integer"},
                        },
                        "parts": {"type": "object", "additionalProperties": {"type": "integer"}},
                        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                    },
                },
            },
        },
    ),
]  # fmt: skip

SUBRESOURCES = [
    Case(
        "applies of a status",
        [
            post(PODS, pod()),
            apply(f"{PODS}/a/status", status(CONDITION, phase="Running"), "node"),
            apply(f"{PODS}/a/status", status({**CONDITION, "status": "False"}), "other"),
            apply(f"{PODS}/a/status", status({**CONDITION, "type": "Mine"}), "other"),
            apply(f"{PODS}/a/status", status(CONDITION), "node"),
            patch(f"{PODS}/a/status", {"status": {"phase": "Failed"}}),
            apply(f"{PODS}/a/status", {**pod(), "spec": {"nodeName": "x"}}, "other"),
            apply(f"{PODS}/a", status(phase="Failed"), "third"),
            get(f"{PODS}/a"),
        ],
    ),
    on_new_kind(
        post(THINGS, thing(size=1), until=answered(201)),
        apply(f"{THINGS}/a/status", {**thing(size=2), "status": {"replicas": 1}}, "one"),
        apply(f"{THINGS}/a/status", {**thing(), "status": {"replicas": 2}}, "two"),
        apply(f"{THINGS}/a", {**thing(size=2), "status": {"replicas": 3}}, "two", force="true"),
        patch(f"{THINGS}/a/status", {"status": {"replicas": 4}}),
        get(f"{THINGS}/a"),
        name="applies of a custom kind's status",
        subresources={"status": {}},
    ),
    Case(
        "owners of a scale",
        [
            apply(f"{DEPLOYMENTS}/a", deployment(ONE, replicas=2), "one"),
            apply(f"{DEPLOYMENTS}/a/scale", replicas(3), "scaler"),
            apply(f"{DEPLOYMENTS}/a/scale", replicas(3), "scaler", force="true"),
            get(f"{DEPLOYMENTS}/a"),
            apply(f"{DEPLOYMENTS}/a", deployment(ONE, replicas=4), "one"),
            apply(f"{DEPLOYMENTS}/a", deployment(ONE), "one"),
            put(f"{DEPLOYMENTS}/a/scale?fieldManager=hand", replicas(5)),
            get(f"{DEPLOYMENTS}/a"),
            apply(f"{DEPLOYMENTS}/a", deployment(ONE, replicas=6), "one"),
            patch(f"{DEPLOYMENTS}/a/scale?fieldManager=hand", {"spec": {"replicas": 6}}),
            get(f"{DEPLOYMENTS}/a"),
        ],
    ),
]

OTHER_WRITES = [
    Case(
        "other writes take fields from an apply",
        [
            apply(f"{CM}/a", cm(data={"x": "1", "y": "1", "z": "1"}), "one"),
            patch(f"{CM}/a?fieldManager=hand", {"data": {"x": "2", "n": "1"}}),
            patch(f"{CM}/a", [{"op": "remove", "path": "/data/y"}], JSON_PATCH),
            apply(f"{CM}/a", cm(data={"x": "1", "z": "1"}), "one"),
            put(f"{CM}/a?fieldManager=hand", cm(data={"z": "3"})),
            put(f"{CM}/a?fieldManager=foot", cm(data={"z": "3"})),
            apply(f"{CM}/a", cm(data={"z": "1"}), "one", force="true"),
            patch(f"{CM}/a", {"data": None}),
            get(f"{CM}/a"),
        ],
    ),
    Case(
        "owners of created objects",
        [
            post(f"{CM}?fieldManager=hand", with_meta(cm(data={"x": "1"}), labels={"a": "b"})),
            post(
                f"{PODS}?fieldManager=hand",
                with_meta(pod(), generateName="x", finalizers=["x/y"]),
            ),
            post(f"{JOBS}?fieldManager=hand", job(x={"y": {}, "z": [1]})),
            put(f"{SVC}/a", service({"port": 80})),
            patch(f"{CM}/a", with_meta(cm(data={"x": "2"}), labels={"a": None})),
            get(f"{PODS}/a"),
        ],
    ),
    Case(
        "owners that a client resets or sets",
        [
            apply(f"{CM}/a", cm(data={"x": "1"}), "one"),
            patch(f"{CM}/a", {"metadata": {"managedFields": [{}]}}),
            patch(f"{CM}/a", {"data": {"y": "1"}}),
            apply(f"{CM}/a", cm(data={"x": "2"}), "one"),
            apply(f"{CM}/a", cm(data={"x": "2"}), "one", force="true"),
            patch(f"{CM}/a", [{"op": "replace", "path": OWNERS, "value": []}], JSON_PATCH),
            put(f"{CM}/a", with_meta(cm(data={"x": "2"}), managedFields=[MANAGED])),
            put(f"{CM}/a", with_meta(cm(data={"x": "3"}), managedFields=[UNKNOWN])),
            put(f"{CM}/a", cm(data={"x": "4"})),
            post(CM, with_meta(cm("b", data={"x": "2"}), managedFields=[MANAGED])),
            post(CM, with_meta(cm("c", data={"x": "2"}), managedFields=[])),
        ],
    ),
    Case(
        "more managers than an object keeps",
        [
            post(f"{CM}?fieldManager=m00", cm(data={"x00": "1"})),
            *(
                patch(f"{CM}/a?fieldManager=m{n:02}", {"data": {f"x{n:02}": "1"}})
                for n in range(1, 13)
            ),
        ],
    ),
    Case(
        "from client-side apply to server-side apply",
        [
            post(
                f"{CM}?fieldManager=kubectl-client-side-apply",
                with_meta(
                    cm(data={"x": "1", "y": "1"}),
                    annotations={LAST_APPLIED: json.dumps(cm(data={"x": "1"}))},
                ),
            ),
            apply(f"{CM}/a", cm(data={"x": "2"}), "other"),
            apply(f"{CM}/a", cm(data={"x": "2", "y": "2"}), "kubectl"),
            apply(f"{CM}/a", cm(data={"x": "2"}), "kubectl"),
            get(f"{CM}/a"),
        ],
    ),
    Case(
        "applies that write nothing",
        [
            apply(f"{CM}/a", cm(data={"x": "1"}), "one", dryRun="All"),
            apply(f"{CM}/a", cm(data={"x": "1"}), "one"),
            apply(f"{CM}/a", cm(data={"x": "2"}), "two", dryRun="All"),
            apply(f"{CM}/a", cm(data={"x": "2"}), "two", dryRun="All", force="true"),
            apply(f"{CM}/a", cm(data={"y": "2"}), "two", dryRun="All"),
            apply(f"{CM}/a", with_meta(cm(), resourceVersion="1"), "one"),
            get(f"{CM}/a"),
            delete(f"{CM}/a"),
        ],
    ),
]  # fmt: skip

CASES = [*MANAGERS, *LISTS, *SUBRESOURCES, *OTHER_WRITES]
