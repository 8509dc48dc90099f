"""MutatingWebhookConfiguration and ValidatingWebhookConfiguration: defaults and checks.

The webhooks themselves are called by `webhooks.dispatch`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from localkube.apiserver.admission import names
from localkube.apiserver.api_errors import (
    Causes,
    duplicate,
    invalid_value,
    not_supported,
    required,
)
from localkube.apiserver.kinds.access.admission_rule import check_conditions, check_rule
from localkube.apiserver.kinds.fields import (
    check_label_selector,
    each,
    ensure_map,
    fill,
    fill_optional,
    one_of,
)
from localkube.apiserver.resource import Resource, Strategy
from localkube.apiserver.views.cells import AGE, NAME, rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubekit.objects.meta import Raw

GROUP = "admissionregistration.k8s.io"
REVIEW_VERSIONS = ("v1", "v1beta1")
_SIDE_EFFECTS = ("None", "NoneOnDryRun")
_CHOICES = {"failurePolicy": ("Fail", "Ignore"), "matchPolicy": ("Equivalent", "Exact")}
_REINVOCATION = ("IfNeeded", "Never")
_URL_FORM = "; desired format: https://host[/path]"


# -- defaults ------------------------------------------------------------------------------------


def _defaults(configuration: Raw) -> None:
    for webhook in configuration.get("webhooks") or ():
        fill(webhook, failurePolicy="Fail", matchPolicy="Equivalent", timeoutSeconds=10)
        ensure_map(webhook, "namespaceSelector")
        ensure_map(webhook, "objectSelector")
        for rule in webhook.get("rules") or ():
            fill(rule, scope="*")
        fill_optional(ensure_map(webhook, "clientConfig"), "service", port=443)


def _mutating_defaults(configuration: Raw) -> None:
    _defaults(configuration)
    for webhook in configuration.get("webhooks") or ():
        fill(webhook, reinvocationPolicy="Never")


# -- checks --------------------------------------------------------------------------------------


def _check(configuration: Raw) -> Causes:
    seen: set[str] = set()
    for path, webhook in each(configuration, "", "webhooks"):
        yield from _check_webhook(webhook, path)
        versions = webhook.get("admissionReviewVersions") or []
        missing = f"must specify one of {', '.join(REVIEW_VERSIONS)}"
        yield from check_review_versions(versions, f"{path}.admissionReviewVersions", missing)
        name = webhook.get("name") or ""
        if name and name in seen:
            yield duplicate(f"{path}.name", name)
        seen.add(name)


def _check_webhook(webhook: Raw, path: str) -> Causes:
    yield from _check_name(webhook.get("name") or "", f"{path}.name")
    for where, rule in each(webhook, path, "rules"):
        yield from check_rule(rule, where)
    for field, allowed in _CHOICES.items():
        yield from one_of(webhook, field, allowed, path)
    side_effects = webhook.get("sideEffects")
    if side_effects is None:
        yield required(f"{path}.sideEffects", f"must specify one of {', '.join(_SIDE_EFFECTS)}")
    elif side_effects not in _SIDE_EFFECTS:
        yield not_supported(f"{path}.sideEffects", side_effects, _SIDE_EFFECTS)
    if not 1 <= webhook["timeoutSeconds"] <= 30:
        detail = "the timeout value must be between 1 and 30 seconds"
        yield invalid_value(f"{path}.timeoutSeconds", webhook["timeoutSeconds"], detail)
    for field in ("namespaceSelector", "objectSelector"):
        yield from check_label_selector(webhook[field], f"{path}.{field}")
    yield from one_of(webhook, "reinvocationPolicy", _REINVOCATION, path)
    yield from check_client_config(webhook["clientConfig"], f"{path}.clientConfig")
    yield from check_conditions(webhook, path)


def _check_name(name: str, path: str) -> Causes:
    if not name:
        yield required(path)
    elif problems := names.check_subdomain(name):
        yield invalid_value(path, name, ",".join(problems))
    elif len(name.split(".")) < 3:
        detail = "should be a domain with at least three segments separated by dots"
        yield invalid_value(path, name, detail)


def check_review_versions(versions: list[str], path: str, missing: str = "") -> Causes:
    """The causes for invalid versions of reviews; conversion webhooks have them too."""
    if not versions:
        yield required(path, missing)
        return
    for i, version in enumerate(versions):
        if version in versions[:i]:
            yield invalid_value(f"{path}[{i}]", version, "duplicate version")
            continue
        problems = names.check_dns1035_label(version)
        yield from names.invalid_values(f"{path}[{i}]", version, problems)
    if not set(versions) & set(REVIEW_VERSIONS):
        detail = f"must include at least one of {', '.join(REVIEW_VERSIONS)}"
        yield invalid_value(path, versions, detail)


# -- the address of a webhook --------------------------------------------------------------------


def check_client_config(config: Raw, path: str) -> Causes:
    """The causes for an invalid address; conversion webhooks have one too."""
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        yield required(path, "exactly one of url or service is required")
    elif url is not None:
        yield from _check_url(url, f"{path}.url")
    else:
        yield from _check_service(service or {}, f"{path}.service")


def _check_url(url: str, path: str) -> Causes:
    try:
        parts = urlsplit(url)
    except ValueError as error:
        yield required(path, f"url must be a valid URL: {error}{_URL_FORM}")
        return
    if parts.scheme != "https":
        detail = f"'https' is the only allowed URL scheme{_URL_FORM}"
        yield invalid_value(path, parts.scheme, detail)
    user, at, host = parts.netloc.rpartition("@")
    if not host:
        yield invalid_value(path, "", f"host must be specified{_URL_FORM}")
    if at:
        yield invalid_value(path, user, "user information is not permitted in the URL")
    if parts.fragment:
        yield invalid_value(path, parts.fragment, "fragments are not permitted in the URL")
    if parts.query:
        yield invalid_value(path, parts.query, "query parameters are not permitted in the URL")


def _check_service(service: Raw, path: str) -> Causes:
    # The real server reports a missing name at `namespace` and the reverse.
    for field, other in (("name", "namespace"), ("namespace", "name")):
        if not service.get(other):
            yield required(f"{path}.{field}")
    port = service.get("port", 443)
    if not 1 <= port <= 65535:
        detail = "port is not valid: must be between 1 and 65535, inclusive"
        yield invalid_value(f"{path}.port", port, detail)
    yield from _check_path(service.get("path") or "", f"{path}.path")


def _check_path(text: str, path: str) -> Causes:
    if text in ("", "/"):
        return
    if text == "//":
        yield invalid_value(path, text, "segment[0] may not be empty")
        return
    if not text.startswith("/"):
        yield invalid_value(path, text, "must start with a '/'")
    for i, step in enumerate(text[1:].removesuffix("/").split("/")):
        if not step:
            yield invalid_value(path, text, f"segment[{i}] may not be empty")
            continue
        for problem in names.check_subdomain(step):
            yield invalid_value(path, text, f"segment[{i}]: {problem}")


def _configurations(kind: str, defaults: Callable[[Raw], None]) -> Resource:
    return Resource(
        GROUP, "v1", f"{kind.lower()}s", kind, False, categories=("api-extensions",),
        strategy=Strategy(
            defaults=defaults,
            check=_check,
            generation="spec",
            update_names_revision=True,
            columns=NAME | {"Webhooks": lambda obj, _: len(rows(obj, "webhooks"))} | AGE,
        ),
    )  # fmt: skip


MUTATING = _configurations("MutatingWebhookConfiguration", _mutating_defaults)
VALIDATING = _configurations("ValidatingWebhookConfiguration", _defaults)
