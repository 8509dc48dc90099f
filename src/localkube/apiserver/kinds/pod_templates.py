"""The pod template of workloads and the selector of its pods; the kind PodTemplate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from localkube.apiserver import causes, rules
from localkube.apiserver.admission import names
from localkube.apiserver.codec import selector_matches
from localkube.apiserver.kinds import pod_spec
from localkube.apiserver.kinds.field_rules import ensure_map
from localkube.apiserver.resource import Resource
from localkube.apiserver.views.cells import NAME, NONE, Cell, fields, pairs_at, rows, text, words

if TYPE_CHECKING:
    from kubekit.objects.meta import Raw
    from localkube.apiserver.causes import Causes

_EXPRESSIONS = {
    "In": "{0} in ({1})",
    "NotIn": "{0} notin ({1})",
    "Exists": "{0}",
    "DoesNotExist": "!{0}",
}


def complete_template(spec: Raw) -> None:
    """Fill in the defaults of the template in a spec or another object, in place."""
    template = ensure_map(spec, "template")
    ensure_map(template, "metadata")
    pod_spec.complete_spec(ensure_map(template, "spec"))


def check_template(spec: Raw) -> Causes:
    """The causes for an invalid template of pods that always restart."""
    path, template = "spec.template.spec", spec["template"]["spec"]
    yield from _check_spec(template, path)
    if (restart := template["restartPolicy"]) != "Always":
        yield causes.not_supported(f"{path}.restartPolicy", restart, ("Always",))


def _check_spec(spec: Raw, path: str) -> Causes:
    yield from pod_spec.check_pod_spec(spec, path)
    if spec.get("ephemeralContainers"):
        detail = "ephemeral containers not allowed in pod template"
        yield causes.forbidden(f"{path}.ephemeralContainers", detail)


def check_selector(spec: Raw, kind: str, no_labels: Raw | None) -> Causes:
    """The causes for a selector of this kind that is empty or does not match the template."""
    selector = spec.get("selector")
    if selector is not None and not any(map(selector.get, ("matchLabels", "matchExpressions"))):
        yield causes.invalid("spec.selector", selector, f"empty selector is invalid for {kind}")
    else:
        yield from check_template_labels(spec, no_labels)


def check_template_labels(spec: Raw, no_labels: Raw | None) -> Causes:
    """The cause for labels that the selector does not match; `no_labels` is shown for none."""
    labels = spec["template"]["metadata"].get("labels")
    if not spec.get("selector") or not selector_matches(spec["selector"], labels or {}):
        detail = "`selector` does not match template `labels`"
        shown = no_labels if labels is None else labels
        yield causes.invalid("spec.template.metadata.labels", shown, detail)


def _of_containers(template: str, field: str) -> Cell:
    """The column of a field of all containers."""
    path = f"{template}.spec.containers"
    return lambda obj, now: ",".join(text(container, field) for container in rows(obj, path))


def _selector_text(selector: Raw) -> str:
    """Labels and expressions, sorted by key."""
    terms = [(key, f"{key}={value}") for key, value in fields(selector, "matchLabels").items()]
    for row in rows(selector, "matchExpressions"):
        key, values = text(row, "key"), ",".join(sorted(words(row, "values")))
        terms.append((key, _EXPRESSIONS.get(text(row, "operator"), "{0}").format(key, values)))
    return ",".join(shown for _, shown in sorted(terms, key=lambda term: term[0])) or NONE


def columns(spec: str = "spec") -> dict[str, Cell]:
    """The last columns of every kind that has a template, in the spec at this path."""
    return {
        "Containers+": _of_containers(f"{spec}.template", "name"),
        "Images+": _of_containers(f"{spec}.template", "image"),
        "Selector+": lambda obj, now: _selector_text(fields(obj, f"{spec}.selector")),
    }


def _check_kind(obj: Raw) -> Causes:
    labels = obj["template"]["metadata"].get("labels") or {}
    yield from names.check_labels(labels, "template.labels")
    yield from _check_spec(obj["template"]["spec"], "template.spec")


POD_TEMPLATES = Resource(
    "", "v1", "podtemplates", "PodTemplate",
    strategy=rules.Strategy(
        completion=rules.Completion(defaults=complete_template),
        checks=rules.Checks(always=_check_kind),
        deletion=rules.Deletion(answer="object"),
        generation="spec",
        table=rules.Table(NAME | {
            "Containers": _of_containers("template", "name"),
            "Images": _of_containers("template", "image"),
            "Pod Labels": pairs_at("template.metadata.labels"),
        }),
    ),
)  # fmt: skip
