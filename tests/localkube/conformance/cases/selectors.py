"""Lists: by labels, by fields, in pages."""

from __future__ import annotations

from tests.localkube.conformance.cases.steps import CM, JOBS, PODS, cm, delete, get, job, pod, post
from tests.localkube.conformance.transcript import Case, Step

PARTIAL = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

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
        "invalid selectors",
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
    Case(
        "all pages, one after the other",
        [
            *(post(CM, cm(name)) for name in "abcde"),
            get(f"{CM}?limit=2"),
            get(f"{CM}?limit=2&continue=$next.5"),
            get(f"{CM}?limit=2&continue=$next.6"),
            delete(f"{CM}/d"),
            post(CM, cm("dd")),
            get(f"{CM}?limit=2&continue=$next.5"),
            get(f"{CM}?limit=3&continue=$next.5"),
            get(f"{CM}?continue=$next.5"),
            get(f"{CM}?limit=2&resourceVersion=1&continue=$next.5"),
        ],
        ("wording",),
    ),
    Case(
        "pages of a selection",
        [
            *(
                post(CM, {"metadata": {"name": name, "labels": {"x": str(i % 2)}}})
                for i, name in enumerate("abcdef")
            ),
            get(f"{CM}?limit=2&labelSelector=x%3D0"),
            get(f"{CM}?limit=2&labelSelector=x%3D0&continue=$next.6"),
            get(f"{CM}?limit=1&fieldSelector=metadata.name%3Dc"),
        ],
    ),
    Case(
        "pages of jobs",
        [
            *(post(JOBS, job(name)) for name in "abc"),
            get(f"{JOBS}?limit=2"),
            get(f"{JOBS}?limit=2&continue=$next.3"),
        ],
    ),
    Case(
        "lists at a revision",
        [
            post(CM, cm("a")),
            post(CM, cm("b")),
            # First, so that the cache of the real server has both objects for the list at 0.
            get(f"{CM}?resourceVersion=$rv.1"),
            get(f"{CM}?resourceVersion=0"),
            get(f"{CM}?resourceVersion=$rv.0&resourceVersionMatch=Exact"),
            get(f"{CM}?resourceVersion=$rv.0&resourceVersionMatch=NotOlderThan"),
            get(f"{CM}?resourceVersionMatch=Exact"),
            get(f"{CM}?resourceVersion=0&resourceVersionMatch=Exact"),
            get(f"{CM}?resourceVersion=$rv.0&resourceVersionMatch=Nonsense"),
            get(f"{CM}?resourceVersion=x"),
            get(f"{CM}?limit=x"),
            get(f"{CM}/a?resourceVersion=$rv.1"),
            get(f"{CM}/a?resourceVersion=0"),
        ],
        ("wording",),
    ),
    Case(
        "every selectable field of pods",
        [
            post(PODS, pod("a", {"nodeName": "n", "serviceAccountName": "s"})),
            *(
                get(f"{PODS}?fieldSelector={text}")
                for text in (
                    "spec.restartPolicy%3DAlways",
                    "spec.schedulerName%3Ddefault-scheduler",
                    "spec.serviceAccountName%3Ds",
                    "spec.hostNetwork%3Dfalse",
                    "status.podIP%3D",
                    "status.nominatedNodeName%3D",
                    "metadata.name!%3Da",
                    "metadata.name%3D%3Da",
                    "spec.nodeName%3Dn,status.phase%3DRunning",
                    "metadata.labels%3Dx",
                )
            ),
        ],
        ("wording",),
    ),
    Case(
        "tables and bare metadata",
        [
            post(CM, cm("a", data={"k": "v"})),
            Step("GET", f"{CM}/a", accept=PARTIAL),
            Step("GET", CM, accept=f"{PARTIAL.replace('Metadata;', 'MetadataList;')}"),
            Step("GET", f"{CM}/a", accept="application/yaml;q=0,application/json"),
        ],
    ),
]
