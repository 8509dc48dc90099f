"""PodTemplate: a template that nothing uses by itself; defaults, checks, columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.local.apiserver.admission import names
from muster.local.apiserver.api_errors import Causes, forbidden_field
from muster.local.apiserver.kinds.pods import pod_spec
from muster.local.apiserver.kinds.pods.pod_template import complete_template, of_containers
from muster.local.apiserver.resource import Resource, Strategy
from muster.local.apiserver.views import cells

if TYPE_CHECKING:
    from muster.api.meta import Raw


def _check(obj: Raw) -> Causes:
    template = obj["template"]
    labels = template["metadata"].get("labels") or {}
    yield from names.check_labels(labels, "template.labels")
    yield from pod_spec.check_pod_spec(template["spec"], "template.spec")
    if template["spec"].get("ephemeralContainers"):
        detail = "ephemeral containers not allowed in pod template"
        yield forbidden_field("template.spec.ephemeralContainers", detail)


POD_TEMPLATES = Resource(
    "", "v1", "podtemplates", "PodTemplate",
    strategy=Strategy(
        defaults=complete_template,
        check=_check,
        delete_answer="object",
        generation="spec",
        columns=cells.NAME | {
            "Containers": of_containers("name", "template"),
            "Images": of_containers("image", "template"),
            "Pod Labels": lambda obj, now: cells.pairs(
                cells.fields(obj, "template.metadata.labels")
            ),
        },
    ),
)  # fmt: skip
