"""All objects of an installation, in the order in which they are applied.

Containers run as an ordinary user, on a read-only root, without capabilities, as the pod security
standard `restricted` wants it. The user's number comes from the image, since OpenShift chooses its
own.

The dashboard's pod has no token: its users bring theirs. It gets only the certificate authority of
the API server, from the ConfigMap that Kubernetes puts into every namespace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kubekit.objects.kinds import POD_SECURITY
from muster.contract import crds
from muster.contract.gang_dialects import GROUP_KINDS, dialect_of_scheduler
from muster.contract.waiting_line_format import NAMESPACE as DEFAULT_LEASE_NAMESPACE
from muster.install.objects import admission_policy, priority_policy, roles
from muster.install.objects.roles import labels, lease_namespace, metadata

if TYPE_CHECKING:
    from kubekit.objects.meta import Raw
    from muster.install.objects.values import DashboardValues, Values

AUTHORITY = "kube-root-ca.crt"
AUTHORITY_FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount"
SESSION_SECONDS = 12 * 3600
"""The longest session of a user of the dashboard."""
SETTINGS_FOLDER = "/etc/muster"
SETTINGS_FILE = "settings.json"
"""JSON is YAML too, and has one way to write a value: the chart gives the same text."""


def build(values: Values, namespace: str) -> list[Raw]:
    """Every object: the namespace, the CRDs, then each component's."""
    return [
        namespace_of(values, namespace),
        *definitions(values),
        *components(values, namespace),
    ]


def definitions(values: Values) -> list[Raw]:
    """The CRDs: of the groups of gangs, only that of the operator's dialect."""
    own = values.operator
    by_scheduler = dialect_of_scheduler(own.gang_scheduler_name) or "volcano"
    kind = GROUP_KINDS[by_scheduler if own.gang_dialect == "auto" else own.gang_dialect]
    used = kind.resource if kind is not None else ""
    return [
        crd
        for crd in crds.load_all()
        if crd["spec"]["names"]["kind"] != "PodGroup" or crd["metadata"]["name"] == used
    ]


def namespace_of(values: Values, name: str) -> Raw:
    """The namespace of the components; where jobs run too, pods are not restricted."""
    restricted = name != values.operator.watch_namespace
    security = {POD_SECURITY: "restricted"} if restricted else {}
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {**roles.labels(), **security}},
    }


def components(values: Values, namespace: str) -> list[Raw]:
    """The objects of the components, without the namespace and the CRDs."""
    objects: list[Raw] = []
    # For one namespace there are none: these are objects of the whole cluster.
    if not values.operator.watch_namespace:
        objects += _user_roles(values)
        objects += roles.dashboard_roles() if values.dashboard.enabled else ()
        if values.operator.enabled and values.admission_policy:
            objects += admission_policy.build()
        if values.priority_classes:
            objects += priority_policy.build(values.priority_classes, namespace)
    for component in values.components:
        objects += roles.build(component, values, namespace)
        objects += _workload(component, values, namespace)
    return objects


def _user_roles(values: Values) -> list[Raw]:
    """What users may do; nothing for a dashboard alone, which uses the rights that they have."""
    if not (values.operator.enabled or values.scheduler.enabled):
        return []
    return roles.user_roles(jobs=values.operator.enabled)


def _workload(component: str, values: Values, namespace: str) -> list[Raw]:
    """All objects of one component but its roles."""
    objects = [_deployment(component, values, namespace)]
    if component == "scheduler" and values.scheduler.settings:
        objects.insert(0, _settings(values, namespace))
    if component == "dashboard" or values.metrics.service:
        objects.append(_service(component, values, namespace))
    if values.pod_disruption_budget:
        objects.append(_budget(component, namespace))
    if values.network_policy:
        objects.append(_network_policy(component, namespace))
    return objects


def arguments(component: str, values: Values) -> list[str]:
    """The command line of a component."""
    # An empty host listens on every address, on clusters with IPv4, IPv6 or both.
    observed = ["--log-format=json", "--metrics-host=", f"--metrics-port={values.metrics.port}"]
    if component == "dashboard":
        image = f"--reader-image={values.image}"
        return [component, *observed, image, *_dashboard_arguments(values.dashboard)]
    words = [component, "--leader-elect", *observed]
    if component == "scheduler":
        words += [f"--scheduler-name={name}" for name in values.scheduler.names]
        if values.scheduler.settings:
            words.append(f"--scheduler-config={SETTINGS_FOLDER}/{SETTINGS_FILE}")
        return [*words, *values.scheduler.extra_args]
    words.append(f"--gang-dialect={values.operator.gang_dialect}")
    words.append(f"--gang-scheduler-name={values.operator.gang_scheduler_name}")
    words.append(f"--default-restart={values.operator.default_restart}")
    if values.pod_scheduler:
        words.append(f"--pod-scheduler-name={values.pod_scheduler}")
    if not values.operator.gang_by_default:
        words.append("--enable-gang-scheduling=false")
    if values.operator.watch_namespace:
        words.append(f"--namespace={values.operator.watch_namespace}")
    leases = lease_namespace(component, values)
    if leases != DEFAULT_LEASE_NAMESPACE:
        words.append(f"--leader-elect-resource-namespace={leases}")
    return [*words, *values.operator.extra_args]


def _dashboard_arguments(own: DashboardValues) -> list[str]:
    words = ["--in-cluster", f"--port={own.port}", *(f"--host={name}" for name in own.hosts)]
    return [*words, *(["--read-only"] if own.read_only else []), *own.extra_args]


def _deployment(component: str, values: Values, namespace: str) -> Raw:
    select = {"app.kubernetes.io/name": f"muster-{component}"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(component, namespace),
        "spec": {
            "replicas": values.of(component).replicas,
            "selector": {"matchLabels": select},
            "template": {
                "metadata": {"labels": labels(component)},
                "spec": _pod(component, values, select),
            },
        },
    }


def _pod(component: str, values: Values, select: Raw) -> Raw:
    volumes: list[Raw] = [{"name": "tmp", "emptyDir": {"sizeLimit": "64Mi"}}]
    if component == "scheduler" and values.scheduler.settings:
        volumes.append({"name": "settings", "configMap": {"name": "muster-scheduler"}})
    if component == "dashboard":
        volumes.append({"name": "authority", "configMap": {"name": AUTHORITY}})
    spread: Raw = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": select},
    }
    pod: Raw = {
        "serviceAccountName": f"muster-{component}",
        "securityContext": {
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(component, values)],
        "volumes": volumes,
        "topologySpreadConstraints": [spread],
    }
    if values.image_pull_secrets:
        pod["imagePullSecrets"] = [{"name": name} for name in values.image_pull_secrets]
    if values.node_selector:
        pod["nodeSelector"] = values.node_selector
    if values.tolerations:
        pod["tolerations"] = list(values.tolerations)
    if values.priority_class_name:
        pod["priorityClassName"] = values.priority_class_name
    return pod


def _container(component: str, values: Values) -> Raw:
    own = values.of(component)
    mounts: list[Raw] = [{"name": "tmp", "mountPath": "/tmp"}]
    if component == "scheduler" and values.scheduler.settings:
        mounts.append({"name": "settings", "mountPath": SETTINGS_FOLDER, "readOnly": True})
    ports: list[Raw] = [{"name": "metrics", "containerPort": values.metrics.port}]
    if component == "dashboard":
        mounts.append({"name": "authority", "mountPath": AUTHORITY_FOLDER, "readOnly": True})
        ports.append({"name": "http", "containerPort": values.dashboard.port})
    container: Raw = {
        "name": component,
        "image": values.image,
        "imagePullPolicy": values.image_pull_policy,
        "args": arguments(component, values),
        # A user whom the image does not know has no home directory.
        "env": [{"name": "HOME", "value": "/tmp"}],
        "ports": ports,
        "livenessProbe": {**_probe("/healthz"), "initialDelaySeconds": 10, "failureThreshold": 6},
        "readinessProbe": {**_probe("/readyz"), "periodSeconds": 5},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": mounts,
    }
    resources = {
        name: amounts for name, amounts in msgspec.structs.asdict(own.resources).items() if amounts
    }
    return {**container, "resources": resources} if resources else container


def _probe(path: str) -> Raw:
    return {"httpGet": {"path": path, "port": "metrics"}}


def _settings(values: Values, namespace: str) -> Raw:
    text = msgspec.json.encode(values.scheduler.settings, order="sorted").decode()
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata("scheduler", namespace),
        "data": {SETTINGS_FILE: text},
    }


def _service(component: str, values: Values, namespace: str) -> Raw:
    meta, ports = metadata(component, namespace), {}
    spec: Raw = {"selector": {"app.kubernetes.io/name": f"muster-{component}"}}
    if component == "dashboard":
        ports["http"] = values.dashboard.port
        spec["sessionAffinity"] = "ClientIP"  # a session is in the memory of one pod
        spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": SESSION_SECONDS}}
    if values.metrics.service:
        port = str(values.metrics.port)
        meta["annotations"] = {"prometheus.io/port": port, "prometheus.io/scrape": "true"}
        ports["metrics"] = values.metrics.port
    spec["ports"] = [{"name": n, "port": port, "targetPort": n} for n, port in ports.items()]
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}


def _budget(component: str, namespace: str) -> Raw:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata(component, namespace),
        "spec": {
            # Not minAvailable: with one replica, that would keep a node from being drained.
            "maxUnavailable": 1,
            "selector": {"matchLabels": {"app.kubernetes.io/name": f"muster-{component}"}},
        },
    }


def _network_policy(component: str, namespace: str) -> Raw:
    # Only metrics and pages may be reached. Outgoing traffic is not limited: the address and port
    # of the API server differ between clusters.
    ports = ("metrics", "http") if component == "dashboard" else ("metrics",)
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(component, namespace),
        "spec": {
            "podSelector": {"matchLabels": {"app.kubernetes.io/name": f"muster-{component}"}},
            "policyTypes": ["Ingress"],
            "ingress": [{"ports": [{"protocol": "TCP", "port": port} for port in ports]}],
        },
    }
