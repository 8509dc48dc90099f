"""Custom objects that a webhook converts: `host` and `port` of v1beta1 are `hostPort` of v1."""

from __future__ import annotations

from typing import Any

from tests.localkube.conformance.cases.crds import (
    CRDS,
    NAME,
    OLD,
    THINGS,
    definition,
    established,
    of,
    thing,
    version,
)
from tests.localkube.conformance.cases.steps import delete, get, patch, post, put
from tests.localkube.conformance.transcript import Case, Reply, Step

WATCH = "resourceVersion=0&timeoutSeconds=1"


def converted_by(behaviour: str, **config: Any) -> dict[str, Any]:
    crd = definition(
        version("v1", of("hostPort")), version("v1beta1", of("host", "port"), storage=False)
    )
    address = {"url": f"$hooks/{behaviour}", "caBundle": "$ca", **config}
    webhook = {"clientConfig": address, "conversionReviewVersions": ["v1"]}
    crd["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
    return crd


def stored_in_both(reply: Reply) -> bool:
    return bool(reply.body["status"]["storedVersions"] == ["v1", "v1beta1"])


def failing(behaviour: str, *differs: str, **config: Any) -> Case:
    return Case(
        f"a conversion fails: {behaviour}",
        [
            post(CRDS, converted_by(behaviour, **config)),
            get(f"{CRDS}/{NAME}", until=established),
            post(THINGS, thing(hostPort="a:1")),
            get(f"{OLD}/a"),
            get(OLD),
            post(OLD, thing("b", "v1beta1", host="b", port="2")),
            put(
                f"{OLD}/a",
                {
                    **thing("a", "v1beta1", host="b", port="2"),
                    "metadata": {"name": "a", "resourceVersion": "$rv.2"},
                },
            ),
            delete(f"{THINGS}/a"),
            delete(f"{CRDS}/{NAME}"),
        ],
        ("crd-at-once", *differs),
    )


CASES = [
    Case(
        "objects are converted",
        [
            post(CRDS, converted_by("convert")),
            get(f"{CRDS}/{NAME}", until=established),
            post(OLD, thing("a", "v1beta1", host="a", port="1")),
            get(f"{THINGS}/a"),
            get(f"{OLD}/a"),
            post(THINGS, thing("b", hostPort="b:2", nonsense="x")),
            get(THINGS),
            get(OLD),
            put(f"{OLD}/b", {
                **thing("b", "v1beta1", host="c", port="3"),
                "metadata": {"name": "b", "resourceVersion": "$rv.5"},
            }),
            patch(f"{OLD}/a", {"spec": {"port": "9"}}),
            patch(f"{THINGS}/a", {"metadata": {"labels": {"x": "y"}}}),
            post(f"{OLD}?dryRun=All", thing("d", "v1beta1", host="a", port="1")),
            get(f"{OLD}?watch=true&{WATCH}"),
            get(f"{CRDS}/{NAME}"),
            patch(f"{CRDS}/{NAME}", {"spec": {"versions": [
                version("v1", of("hostPort"), storage=False),
                version("v1beta1", of("host", "port")),
            ]}}),
            get(f"{CRDS}/{NAME}", until=stored_in_both),
            get(f"{OLD}/a"),
            get(f"{THINGS}/a"),
            patch(f"{THINGS}/a", {"spec": {"hostPort": "z:1"}}),
            get(THINGS),
            get(f"{OLD}/a"),
            Step("DELETE", f"{OLD}/b?dryRun=All"),
            delete(f"{OLD}/a"),
            delete(f"{THINGS}/b"),
            get(THINGS),
            delete(f"{CRDS}/{NAME}"),
        ],
        ("crd-at-once", "managed-fields"),
    ),
    failing("fail"),
    failing("rename"),
    failing("too-few"),
    failing("nobody", url="https://127.0.0.1:1/none"),
    Case(
        "invalid conversions",
        [
            post(CRDS, converted_by("convert", url="http://a")),
            post(CRDS, converted_by("convert", service={"name": "a", "namespace": "b"})),
            *(
                Step("POST", CRDS, {**converted_by("convert"), "spec": {
                    **converted_by("convert")["spec"], "conversion": conversion,
                }})
                for conversion in (
                    {"strategy": "Some"},
                    {"strategy": "Webhook"},
                    {"strategy": "None", "webhook": {"conversionReviewVersions": ["v1"]}},
                    {"strategy": "Webhook", "webhook": {
                        "clientConfig": {"service": {"namespace": "n", "name": "s", "path": "x"}},
                        "conversionReviewVersions": ["v3", "V"],
                    }},
                )
            ),
        ],
    ),
]  # fmt: skip
