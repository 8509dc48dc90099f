"""Every kind of patch, and those that fail."""

from __future__ import annotations

from tests.localkube.conformance.cases.steps import CM, JOBS, PODS, cm, get, job, patch, pod, post
from tests.localkube.conformance.transcript import JSON_PATCH, STRATEGIC, Case

CASES = [
    Case(
        "JSON patch",
        [
            post(CM, cm(data={"k": "v"})),
            patch(f"{CM}/a", [{"op": "add", "path": "/data/x", "value": "y"}], JSON_PATCH),
            patch(f"{CM}/a", [{"op": "replace", "path": "/data/k", "value": "w"}], JSON_PATCH),
            patch(
                f"{CM}/a",
                [
                    {"op": "test", "path": "/data/k", "value": "w"},
                    {"op": "remove", "path": "/data/k"},
                ],
                JSON_PATCH,
            ),
            patch(f"{CM}/a", [{"op": "move", "from": "/data/x", "path": "/data/z"}], JSON_PATCH),
            patch(f"{CM}/a", [{"op": "copy", "from": "/data/z", "path": "/data/c"}], JSON_PATCH),
        ],
    ),
    Case(
        "JSON patches that fail",
        [
            post(CM, cm(data={"k": "v"})),
            patch(f"{CM}/a", [{"op": "test", "path": "/data/k", "value": "no"}], JSON_PATCH),
            patch(f"{CM}/a", [{"op": "remove", "path": "/data/none"}], JSON_PATCH),
            patch(f"{CM}/a", [{"op": "replace", "path": "/none/x", "value": 1}], JSON_PATCH),
            patch(f"{CM}/a", {"data": {}}, JSON_PATCH),
        ],
        differs=("wording",),
    ),
    Case(
        "strategic merge of pod conditions",
        [
            post(PODS, pod()),
            patch(
                f"{PODS}/a/status",
                {"status": {"conditions": [{"type": "Ready", "status": "False"}]}},
                STRATEGIC,
            ),
            patch(
                f"{PODS}/a/status",
                {"status": {"conditions": [{"type": "PodScheduled", "status": "True"}]}},
                STRATEGIC,
            ),
            patch(
                f"{PODS}/a/status",
                {"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "X"}]}},
                STRATEGIC,
            ),
            patch(
                f"{PODS}/a/status",
                {"status": {"conditions": [{"type": "Ready", "$patch": "delete"}]}},
                STRATEGIC,
            ),
        ],
    ),
    Case(
        "strategic merge of a deployment",
        [
            post(
                "/apis/apps/v1/namespaces/$ns/deployments",
                {
                    "metadata": {"name": "a"},
                    "spec": {
                        "selector": {"matchLabels": {"x": "y"}},
                        "template": {
                            "metadata": {"labels": {"x": "y"}},
                            "spec": {
                                "containers": [
                                    {
                                        "name": "c",
                                        "image": "i",
                                        "env": [{"name": "A", "value": "1"}],
                                    }
                                ]
                            },
                        },
                    },
                },
            ),
            patch(
                "/apis/apps/v1/namespaces/$ns/deployments/a",
                {
                    "spec": {
                        "template": {
                            "spec": {
                                "containers": [{"name": "c", "env": [{"name": "B", "value": "2"}]}]
                            }
                        }
                    }
                },
                STRATEGIC,
            ),
            patch(
                "/apis/apps/v1/namespaces/$ns/deployments/a",
                {
                    "spec": {
                        "template": {
                            "spec": {
                                "$setElementOrder/containers": [{"name": "d"}, {"name": "c"}],
                                "containers": [{"name": "d", "image": "j"}],
                            }
                        }
                    }
                },
                STRATEGIC,
            ),
            patch(
                "/apis/apps/v1/namespaces/$ns/deployments/a",
                {
                    "spec": {
                        "template": {"spec": {"containers": [{"name": "c", "$patch": "delete"}]}}
                    }
                },
                STRATEGIC,
            ),
            patch(
                "/apis/apps/v1/namespaces/$ns/deployments/a",
                {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}},
                STRATEGIC,
            ),
        ],
    ),
    Case(
        "strategic merge that deletes items of something that is no list",
        [
            post(CM, cm(data={"k": "v"})),
            patch(f"{CM}/a", {"data": {"$deleteFromPrimitiveList/k": ["v"]}}, STRATEGIC),
            patch(f"{CM}/a", {"data": {"$deleteFromPrimitiveList/none": ["v"]}}, STRATEGIC),
            patch(f"{CM}/a", {"$deleteFromPrimitiveList/data": ["k"]}, STRATEGIC),
            patch(f"{CM}/a", {"$deleteFromPrimitiveList/none": ["k"]}, STRATEGIC),
            patch(f"{CM}/a", {"metadata": {"$deleteFromPrimitiveList/name": ["a"]}}, STRATEGIC),
        ],
    ),
    Case(
        "strategic merge is not for custom kinds",
        [post(JOBS, job()), patch(f"{JOBS}/a", {"spec": {"x": 1}}, STRATEGIC)],
    ),
    Case(
        "a patch for another name",
        [post(CM, cm()), patch(f"{CM}/a", {"metadata": {"name": "b"}})],
        differs=("wording",),
    ),
    Case(
        "patches to the wrong type",
        [
            post(CM, cm(data={"k": "v"})),
            patch(f"{CM}/a", {"data": {"k": 1}}),
            patch(f"{CM}/a", {"data": "x"}, STRATEGIC),
            patch(f"{CM}/a", [{"op": "replace", "path": "/data/k", "value": 1}], JSON_PATCH),
            patch(f"{CM}/a?fieldValidation=Strict", {"nonsense": 1}),
            patch(f"{CM}/a?fieldValidation=Strict", {"nonsense": 1}, STRATEGIC),
            patch(f"{CM}/a", {"nonsense": 1}),
            get(f"{CM}/a"),
        ],
        differs=("wording",),
    ),
    Case("a patch of a missing object", [patch(f"{CM}/none", {"data": {}})]),
    Case(
        "patches of fields that only the server writes",
        [
            post(CM, cm(data={"k": "v"})),
            patch(f"{CM}/a", {"metadata": None}),
            patch(f"{CM}/a", {"kind": "Secret"}),
            patch(f"{CM}/a", {"apiVersion": "v2"}),
            patch(f"{CM}/a", {"metadata": {"name": "b"}}),
            patch(f"{CM}/a", {"metadata": {"name": None}}),
            patch(f"{CM}/a", [{"op": "remove", "path": "/metadata/name"}], JSON_PATCH),
            patch(f"{CM}/a", [{"op": "remove", "path": "/metadata"}], JSON_PATCH),
            patch(f"{CM}/a", {"$patch": "delete"}, STRATEGIC),
            patch(f"{CM}/a", {"$patch": "replace", "data": {"x": "y"}}, STRATEGIC),
            patch(f"{CM}/a", {"$retainKeys": ["data"], "data": {"x": "y"}}, STRATEGIC),
            get(f"{CM}/a"),
        ],
        ("wording",),
    ),
    Case(
        "unknown operations of JSON patches",
        [
            post(CM, cm(data={"k": "v"})),
            patch(f"{CM}/a", [{"op": "grow", "path": "/data/k"}], JSON_PATCH),
            patch(f"{CM}/a", [{"op": "remove"}], JSON_PATCH),
            patch(f"{CM}/a", [{"op": "remove", "path": "data"}], JSON_PATCH),
            patch(f"{CM}/a", [{"path": "/data/x"}], JSON_PATCH),
            patch(f"{CM}/a", [{"op": "move", "path": "/data/x"}], JSON_PATCH),
            patch(f"{CM}/a", ["x"], JSON_PATCH),
            patch(
                f"{CM}/a",
                [{"op": "test", "path": "/data/k", "value": "v"}] * 10_001,
                JSON_PATCH,
            ),
        ],
        ("wording",),
    ),
]
