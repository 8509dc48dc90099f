"""PodTemplates, which charts bring along, and which a cluster only stores."""

from __future__ import annotations

from typing import Any

from tests.localkube.conformance.cases.steps import NS, delete, get, patch, pod, post
from tests.localkube.conformance.cases.tables import TABLE
from tests.localkube.conformance.transcript import Case

TEMPLATES = f"{NS}/podtemplates"


def template(name: str, labels: Any = None, **spec: Any) -> dict[str, Any]:
    meta = {"metadata": {"labels": labels}} if labels else {}
    body = {**meta, "spec": {**pod()["spec"], **spec}}
    return {"metadata": {"name": name}, "template": body}


CASES = [
    Case(
        "pod templates are stored",
        [
            post(TEMPLATES, template("a", {"x": "y"})),
            post(TEMPLATES, template("b", restartPolicy="Never")),
            patch(f"{TEMPLATES}/a", {"template": {"spec": {"restartPolicy": "Never"}}}),
            get(TEMPLATES, accept=TABLE),
            delete(f"{TEMPLATES}/a"),
            post(TEMPLATES, {"metadata": {"name": "c"}}),
            post(
                TEMPLATES,
                template("c", {"Bad!": "x"}, ephemeralContainers=[{"name": "x", "image": "y"}]),
            ),
        ],
        ("column-descriptions",),
    ),
]
