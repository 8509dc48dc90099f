"""Ingress and IngressClass: defaults, checks, the default class, columns.

Both are stored for tools that bring them along. No controller serves an ingress.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from localkube.apiserver import codec
from localkube.apiserver.admission import names
from localkube.apiserver.api_errors import (
    Causes,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from localkube.apiserver.kinds import fields
from localkube.apiserver.resource import STATUS, Resource, Strategy
from localkube.apiserver.views import cells

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from kubekit.objects.meta import Raw
    from localkube.apiserver.store.changes import ObjectReader

_GROUP = "networking.k8s.io"
_OLD_CLASS = "kubernetes.io/ingress.class"
_OLD_CLASS_WARNING = (
    f"annotation \"{_OLD_CLASS}\" is deprecated, please use 'spec.ingressClassName' instead"
)
_DEFAULT_CLASS = "ingressclass.kubernetes.io/is-default-class"
_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
_NOT_IN_PATH = ("//", "/./", "/../", "%2f", "%2F")
_NOT_AT_END = ("/..", "/.")
_SCOPES = ("Cluster", "Namespace")
_ABSOLUTE = "must be an absolute path"
_MAX_HOSTS_SHOWN = 3


# -- ingresses -----------------------------------------------------------------------------------


def _defaults(ingress: Raw) -> None:
    fields.ensure_map(ingress, "spec")
    fields.fill(ingress, status={"loadBalancer": {}})


def _set_default_class(ingress: Raw, store: ObjectReader) -> None:
    """Give a new ingress the class that is marked as the default, the newest if there are two."""
    meta, spec = ingress["metadata"], ingress["spec"]
    if spec.get("ingressClassName") or _OLD_CLASS in (meta.get("annotations") or {}):
        return
    classes = [codec.decode(entry.value) for entry in store.scan(f"{INGRESS_CLASSES.collection}/")]
    defaults = [c for c in classes if _is_default(c)]
    if defaults:
        newest = max(defaults, key=lambda c: c["metadata"]["creationTimestamp"])
        spec["ingressClassName"] = newest["metadata"]["name"]


def _is_default(ingress_class: Raw) -> bool:
    return cells.fields(ingress_class, "metadata.annotations").get(_DEFAULT_CLASS) == "true"


def _check(ingress: Raw) -> Causes:
    spec = ingress["spec"]
    if not spec.get("rules") and not spec.get("defaultBackend"):
        yield invalid_value("spec", None, "either `defaultBackend` or `rules` must be specified")
    for path, rule in fields.each(spec, "spec", "rules"):
        yield from _check_rule(rule, path)
    if spec.get("defaultBackend"):
        yield from _check_backend(spec["defaultBackend"], "spec.defaultBackend")
    for path, tls in fields.each(spec, "spec", "tls"):
        for where, host in fields.each(tls, path, "hosts"):
            yield from names.invalid_values(where, host, _host_rule(host))
        if tls.get("secretName"):
            yield from fields.check_name(tls, path, names.check_subdomain, "secretName")
    if spec.get("ingressClassName"):
        yield from fields.check_name(spec, "spec", names.check_subdomain, "ingressClassName")
    for path, row in fields.each(codec.at(ingress, "status.loadBalancer") or {}, "", "ingress"):
        yield from _check_address(row, f"status.loadBalancer.{path}")


def _check_create(ingress: Raw) -> Causes:
    annotation = (ingress["metadata"].get("annotations") or {}).get(_OLD_CLASS)
    name = ingress["spec"].get("ingressClassName")
    if annotation and name and annotation != name:
        detail = "must match `ingressClassName` when both are specified"
        yield invalid_value(f"annotations.{_OLD_CLASS}", annotation, detail)


def _check_rule(rule: Raw, path: str) -> Causes:
    host = rule.get("host")
    if host and fields.is_address(host):
        yield invalid_value(f"{path}.host", host, "must be a DNS name, not an IP address")
    elif host:
        yield from names.invalid_values(f"{path}.host", host, _host_rule(host))
    http = rule.get("http")
    if http is None:
        return
    if not http.get("paths"):
        yield required(f"{path}.http.paths")
    for where, row in fields.each(http, f"{path}.http", "paths"):
        yield from _check_path(row, where)
        yield from _check_backend(row.get("backend") or {}, f"{where}.backend")


def _host_rule(host: str) -> list[str]:
    return names.check_wildcard(host) if "*" in host else names.check_subdomain(host)


def _check_path(row: Raw, path: str) -> Causes:
    file, kind = str(row.get("path") or ""), row.get("pathType")
    if not kind:
        yield required(f"{path}.pathType", "pathType must be specified")
    elif kind not in _PATH_TYPES:
        yield not_supported(f"{path}.pathType", kind, _PATH_TYPES)
    elif not file.startswith("/"):
        if file or kind != "ImplementationSpecific":
            yield invalid_value(f"{path}.path", file, _ABSOLUTE)
    elif kind != "ImplementationSpecific":
        for text in _NOT_IN_PATH:
            if text in file:
                yield invalid_value(f"{path}.path", file, f"must not contain '{text}'")
        for text in _NOT_AT_END:
            if file.endswith(text):
                yield invalid_value(f"{path}.path", file, f"cannot end with '{text}'")


def _check_backend(backend: Raw, path: str) -> Causes:
    service, resource = backend.get("service"), backend.get("resource")
    if service is not None and resource is not None:
        yield invalid_value(path, "", "cannot set both resource and service backends")
    elif resource is not None:
        yield from fields.check_required(resource, f"{path}.resource", "kind", "name")
    elif service is None:
        yield invalid_value(path, "", "resource or service backend is required")
    else:
        yield from fields.check_name(service, f"{path}.service", names.check_plain_label)
        yield from _check_port(service.get("port") or {}, path)


def _check_port(port: Raw, path: str) -> Causes:
    name, number = port.get("name"), port.get("number")
    if name and number:
        yield invalid_value(path, "", "cannot set both port name & port number")
    elif name:
        where = f"{path}.service.port.name"
        yield from names.invalid_values(where, name, fields.port_name_problems(name))
    elif number:
        yield from fields.check_port_number(number, f"{path}.service.port.number")
    else:
        yield required(path, "port name or number is required")


def _check_address(row: Raw, path: str) -> Causes:
    """The causes for an invalid address in the status."""
    if row.get("ip"):
        yield from fields.check_address(row["ip"], f"{path}.ip")
    host = row.get("hostname")
    if host and fields.is_address(host):
        yield invalid_value(f"{path}.hostname", host, "must be a DNS name, not an IP address")
    elif host:
        yield from fields.check_name(row, path, names.check_subdomain, "hostname")


def _warnings(ingress: Raw) -> Iterator[str]:
    if _OLD_CLASS in (ingress["metadata"].get("annotations") or {}):
        yield _OLD_CLASS_WARNING


def _hosts(ingress: Raw, now: datetime) -> str:
    hosts = [cells.text(rule, "host") for rule in cells.rows(ingress, "spec.rules")]
    shown = [host for host in hosts if host]
    more = len(shown) - _MAX_HOSTS_SHOWN
    text = ",".join(shown[:_MAX_HOSTS_SHOWN]) or "*"
    return f"{text} + {more} more..." if more > 0 else text


def _addresses(ingress: Raw, now: datetime) -> str:
    rows = cells.rows(ingress, "status.loadBalancer.ingress")
    return ",".join(cells.text(row, "ip") or cells.text(row, "hostname") for row in rows)


INGRESSES = Resource(
    _GROUP, "v1", "ingresses", "Ingress", short=("ing",), subresources=STATUS,
    strategy=Strategy(
        defaults=_defaults,
        complete_create=_set_default_class,
        check=_check,
        check_create=_check_create,
        warnings=_warnings,
        generation="spec",
        columns=cells.NAME | {
            "Class": cells.text_at("spec.ingressClassName", cells.NONE),
            "Hosts": _hosts,
            "Address": _addresses,
            "Ports": lambda ingress, now: (
                "80, 443" if cells.rows(ingress, "spec.tls") else "80"
            ),
        } | cells.AGE,
    ),
)  # fmt: skip


# -- classes -------------------------------------------------------------------------------------


def _class_defaults(ingress_class: Raw) -> None:
    fields.fill_optional(fields.ensure_map(ingress_class, "spec"), "parameters", scope="Cluster")


def _check_class(ingress_class: Raw) -> Causes:
    spec = ingress_class["spec"]
    controller = spec.get("controller")
    if not controller:
        yield required("spec.controller")
    else:
        domain, slash, _ = controller.partition("/")
        if not slash or names.check_subdomain(domain):
            detail = 'must be a domain-prefixed path (such as "acme.io/foo")'
            yield invalid_value("spec.controller", controller, detail)
    if spec.get("parameters"):
        yield from _check_parameters(spec["parameters"], "spec.parameters")


def _check_parameters(parameters: Raw, path: str) -> Causes:
    if parameters.get("apiGroup"):
        yield from fields.check_name(parameters, path, names.check_subdomain, "apiGroup")
    for field in ("kind", "name"):
        yield from fields.check_name(parameters, path, names.check_path_segment, field)
    scope, namespace = parameters.get("scope"), parameters.get("namespace")
    if scope not in _SCOPES:
        yield not_supported(f"{path}.scope", scope, _SCOPES)
    elif scope == "Namespace" and not namespace:
        yield required(f"{path}.namespace", "`parameters.scope` is set to 'Namespace'")
    elif scope == "Cluster" and namespace is not None:
        yield forbidden_field(f"{path}.namespace", "`parameters.scope` is set to 'Cluster'")


def _parameters(ingress_class: Raw, now: datetime) -> str:
    row = cells.fields(ingress_class, "spec.parameters")
    if not row:
        return cells.NONE
    group = cells.text(row, "apiGroup")
    kind = cells.text(row, "kind") + (f".{group}" if group else "")
    return f"{kind}/{cells.text(row, 'name')}"


INGRESS_CLASSES = Resource(
    _GROUP, "v1", "ingressclasses", "IngressClass", False,
    strategy=Strategy(
        defaults=_class_defaults,
        check=_check_class,
        immutable=("spec.controller",),
        generation="spec",
        columns=cells.NAME | {
            "Controller": cells.text_at("spec.controller"),
            "Parameters": _parameters,
        } | cells.AGE,
    ),
)  # fmt: skip
