"""Pods, groups and budgets with any text in every annotation, label and field that is read."""

from __future__ import annotations

from itertools import count
from typing import Any

import msgspec
from hypothesis import strategies as st

from kubekit.objects.core import Pod, PodDisruptionBudget
from kubekit.objects.storage import SELECTED_NODE
from muster.contract import gang as marks, gang_dialects as dialects
from muster.contract.pod_groups import CoschedulingPodGroup, NativePodGroup, VolcanoPodGroup
from muster.scheduler.decisions.gang_deletion import DELETION_ANNOTATION
from tests.hostile_values import one_of

NAMESPACE, NODE = "evil", "n"
_uids = count(1)

DIGITS = "9" * 5000
DEEP = "[" * 30_000
EARLY = "0001-01-01T00:00:00+23:59"
NASTY = (
    "",
    DIGITS,
    "9" * 4300,
    "²",
    "٣",
    "-1",
    "1e999999999",
    "nan",
    f"Released/{EARLY}",
    "Preempted/2026-01-01T00:00:00Z",
    "Nonsense/2026-01-01T00:00:00Z",
    f"1-1/{DIGITS}/{DIGITS}/a,b",
    f"1-1/2+{DIGITS}-x",
    DEEP,
    '{"launcher": ' + DEEP + "}",
    r'{"launcher": {"cpu": "\ud800"}}',
    r'{"\ud800": {"cpu": "1"}}',
    '{"launcher": {"cpu": ' + DIGITS + "}}",
    '{"launcher": {"cpu": "1e999999999"}}',
    '{"launcher": {"nvidia.com/gpu": 1}}',
    "restart",
    "gang",
    "spread",
    "kubernetes.io/hostname",
    "a," * 1000,
    "soft",
    "hard",
    "false",
    "x" * 100_000,
    "\0",
    "single-numa-node",
)
TEXT = one_of(*NASTY) | st.text(max_size=20)
NAME = st.sampled_from(["x", "y", "z"]) | TEXT
INT64 = st.integers(-(2**63), 2**63 - 1)
NUMBER = st.sampled_from([0, -1, 1, 2, 3, 2**31, 2**63 - 1, -(2**63)]) | INT64
"""No server stores integers that do not fit 64 bits."""
QUANTITY = TEXT | NUMBER | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBER | TEXT,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["key", "topology", "mode"]) | TEXT, inner, max_size=3)
    ),
    max_leaves=6,
)
MARKS = (
    marks.HOLD_ANNOTATION,
    marks.ON_HOLD_END_ANNOTATION,
    marks.RESTART_ANNOTATION,
    marks.PLACEMENT_ANNOTATION,
    marks.TOPOLOGY_ANNOTATION,
    marks.PREFERRED_TOPOLOGY_ANNOTATION,
    marks.PLAN_ANNOTATION,
    marks.LATE_ANNOTATION,
    DELETION_ANNOTATION,
    SELECTED_NODE,
    dialects.KOORDINATOR_MIN_ANNOTATION,
    dialects.KOORDINATOR_GROUPS_ANNOTATION,
    dialects.KOORDINATOR_TOPOLOGY_ANNOTATION,
    dialects.NUMA_ANNOTATION,
    dialects.NETWORK_MODE_ANNOTATION,
    dialects.NETWORK_TIER_ANNOTATION,
    dialects.PREEMPTABLE_MARK,
    dialects.ROLE_ANNOTATION,
    dialects.ROLE_LABEL,
    dialects.MIN_LABEL,
    *dialects.GROUP_MARKS,
)
"""Every annotation and label that is read, as either: strangers write both."""

TAGS = st.dictionaries(st.sampled_from(MARKS) | TEXT, NAME, max_size=8)
RESOURCES = st.dictionaries(
    st.sampled_from(["cpu", "pods", "evil.io/x"]) | TEXT, QUANTITY, max_size=4
)
REQUIREMENTS = st.lists(
    st.fixed_dictionaries(
        {
            "key": NAME,
            "operator": st.sampled_from(["In", "NotIn", "Exists", "Gt", "Lt", "Near"]),
            "values": st.lists(TEXT, max_size=2),
        }
    ),
    max_size=2,
)
SELECTOR = st.none() | st.fixed_dictionaries(
    {}, optional={"matchLabels": TAGS, "matchExpressions": REQUIREMENTS}
)
TERM = st.fixed_dictionaries(
    {"topologyKey": TEXT | st.just("kubernetes.io/hostname")},
    optional={
        "labelSelector": SELECTOR,
        "namespaces": st.lists(TEXT, max_size=2),
        "matchLabelKeys": st.lists(TEXT, max_size=2),
    },
)
WEIGHTED = st.fixed_dictionaries({"weight": NUMBER, "podAffinityTerm": TERM})
POD_AFFINITY = st.fixed_dictionaries(
    {},
    optional={
        "requiredDuringSchedulingIgnoredDuringExecution": st.lists(TERM, max_size=2),
        "preferredDuringSchedulingIgnoredDuringExecution": st.lists(WEIGHTED, max_size=2),
    },
)
NODE_TERM = st.fixed_dictionaries({"matchExpressions": REQUIREMENTS, "matchFields": REQUIREMENTS})
AFFINITY = st.fixed_dictionaries(
    {},
    optional={
        "podAffinity": POD_AFFINITY,
        "podAntiAffinity": POD_AFFINITY,
        "nodeAffinity": st.fixed_dictionaries(
            {
                "preferredDuringSchedulingIgnoredDuringExecution": st.lists(
                    st.fixed_dictionaries({"weight": NUMBER, "preference": NODE_TERM}), max_size=2
                )
            }
        ),
    },
)
SPREAD = st.fixed_dictionaries(
    {"maxSkew": NUMBER, "topologyKey": TEXT | st.just("kubernetes.io/hostname")},
    optional={
        "whenUnsatisfiable": st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]),
        "labelSelector": SELECTOR,
        "minDomains": NUMBER,
    },
)
PORT = st.fixed_dictionaries({"containerPort": NUMBER, "hostPort": NUMBER, "hostIP": TEXT})
POD_SPEC = st.fixed_dictionaries(
    {"schedulerName": st.just("muster")},
    optional={
        "nodeName": st.just(NODE) | NAME,
        "nodeSelector": TAGS,
        "affinity": AFFINITY,
        "overhead": RESOURCES,
        "priorityClassName": TEXT,
        "schedulingGroup": st.fixed_dictionaries({"podGroupName": NAME}),
        "tolerations": st.lists(st.fixed_dictionaries({"key": TEXT, "value": TEXT}), max_size=2),
        "topologySpreadConstraints": st.lists(SPREAD, max_size=2),
        "volumes": st.lists(
            st.fixed_dictionaries(
                {"persistentVolumeClaim": st.fixed_dictionaries({"claimName": TEXT})}
            ),
            max_size=1,
        ),
    },
)
TIME = st.sampled_from([EARLY, "2026-01-01T00:00:00", "9999-12-31T23:59:59-23:59", None])
CONDITIONS = st.lists(
    st.fixed_dictionaries(
        {
            "type": st.sampled_from(["PodScheduled", "DisruptionTarget", marks.SUCCEEDED]),
            "status": st.sampled_from(["True", "False", "?"]),
            "message": TEXT,
            "lastTransitionTime": TIME,
        }
    ),
    max_size=2,
)
GROUP_SPEC = st.fixed_dictionaries(
    {},
    optional={
        "minMember": NUMBER,
        "minTaskMember": st.dictionaries(TEXT, NUMBER, max_size=3),
        "minResources": RESOURCES,
        "priorityClassName": TEXT,
        "networkTopology": JSON,
        "subGroupPolicy": JSON,
        "topologyAffinity": JSON,
        "schedulingPolicy": st.fixed_dictionaries(
            {"gang": st.fixed_dictionaries({"minCount": NUMBER})}
        ),
        "schedulingConstraints": st.dictionaries(st.just("topology") | TEXT, JSON, max_size=2),
        "resourceClaims": st.lists(st.dictionaries(TEXT, JSON, max_size=1), max_size=1),
        "disruptionMode": TEXT,
        "preemptionPolicy": TEXT,
        "parentCompositePodGroupName": TEXT,
    },
)
BUDGET_SPEC = st.fixed_dictionaries({"minAvailable": NUMBER | TEXT, "selector": SELECTOR})
KINDS = (VolcanoPodGroup, CoschedulingPodGroup, NativePodGroup)


def decoded(raw: dict[str, Any], model: Any) -> list[Any]:
    """The object as an informer has it; none if it cannot be read, which the informer reports."""
    try:
        return [msgspec.json.decode(msgspec.json.encode(raw), type=model)]
    except (msgspec.ValidationError, OverflowError):
        return []


def _metadata(name: str, labels: dict[str, str], annotations: dict[str, str]) -> dict[str, Any]:
    return {
        "name": name,
        "namespace": NAMESPACE,
        "uid": f"evil-{next(_uids):08d}",
        "creationTimestamp": "2025-01-01T00:00:00Z",
        "labels": labels,
        "annotations": annotations,
        "ownerReferences": [{"kind": "Job", "name": "j", "uid": "j", "controller": True}],
    }


@st.composite
def hostile_pods(draw: st.DrawFn) -> list[Any]:
    spec = draw(POD_SPEC)
    resources = {"requests": draw(RESOURCES), "limits": draw(RESOURCES)}
    ports = draw(st.lists(PORT, max_size=1))
    spec["containers"] = [{"name": "main", "resources": resources, "ports": ports}]
    raw = {
        "metadata": _metadata(f"evil-{next(_uids)}", draw(TAGS), draw(TAGS)),
        "spec": spec,
        "status": {
            "phase": draw(st.sampled_from(["Pending", "Running", "Succeeded", "Failed"])),
            "conditions": draw(CONDITIONS),
            "nominatedNodeName": draw(st.just("") | NAME),
        },
    }
    return decoded(raw, Pod)


@st.composite
def hostile_groups(draw: st.DrawFn) -> list[Any]:
    raw = {
        "metadata": _metadata(draw(NAME), draw(TAGS), draw(TAGS)),
        "spec": draw(GROUP_SPEC),
        "status": {"phase": draw(TEXT), "succeeded": draw(NUMBER), "conditions": draw(CONDITIONS)},
    }
    return decoded(raw, draw(st.sampled_from(KINDS)))


@st.composite
def hostile_budgets(draw: st.DrawFn) -> list[Any]:
    raw = {
        "metadata": _metadata(draw(NAME), draw(TAGS), draw(TAGS)),
        "spec": draw(BUDGET_SPEC),
        "status": {"disruptionsAllowed": draw(NUMBER)},
    }
    return decoded(raw, PodDisruptionBudget)


HOSTILE = st.lists(
    hostile_pods() | hostile_pods() | hostile_groups() | hostile_budgets(), min_size=1, max_size=8
).map(lambda rows: [item for row in rows for item in row])
