"""Lists: by labels, by fields, in pages."""

from __future__ import annotations

from tests.conformance.cases.requests import CM, PODS, cm, get, pod, post
from tests.conformance.transcript import Case

CASES = [
    Case(
        "label selectors",
        [
            post(CM, {"metadata": {"name": "a", "labels": {"x": "1", "y": "2"}}}),
            post(CM, {"metadata": {"name": "b", "labels": {"x": "2"}}}),
            post(CM, {"metadata": {"name": "c"}}),
            *(
                get(f"{CM}?labelSelector={text}")
                for text in (
                    "x%3D1",
                    "x!%3D1",
                    "x",
                    "!x",
                    "x%20in%20(1,2)",
                    "x%20notin%20(1)",
                    "x%3D1,y%3D2",
                )
            ),
        ],
    ),
    Case(
        "field selectors",
        [
            post(PODS, pod("a")),
            post(PODS, pod("b", {"nodeName": "n"})),
            get(f"{PODS}?fieldSelector=metadata.name%3Da"),
            get(f"{PODS}?fieldSelector=spec.nodeName%3Dn"),
            get(f"{PODS}?fieldSelector=spec.nodeName!%3Dn"),
            get(f"{PODS}?fieldSelector=status.phase%3DPending,metadata.namespace%3D$ns"),
        ],
    ),
    Case(
        "selectors that make no sense",
        [get(f"{CM}?labelSelector=a%3D%3D%3Db"), get(f"{PODS}?fieldSelector=spec.foo%3Dx")],
        differs=("wording",),
    ),
    Case(
        "pages",
        [
            *(post(CM, cm(name)) for name in "abcde"),
            get(f"{CM}?limit=2"),
            get(f"{CM}?limit=5"),
            get(f"{CM}?limit=9"),
            get(f"{CM}?limit=2&continue=nonsense"),
        ],
        differs=("wording",),
    ),
]
