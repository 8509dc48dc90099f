"""TensorBoard's Deployment and Service for one job.

It is not part of the gang, requests no resources and is owned by the job, so it is deleted with it.
If the logs are on one node it must run on that node: it then waits for the replica that writes
them, and pends as long as the gang does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.contract import this_machine
from muster.jobs import names
from muster.jobs.build import pod_affinity, volumes
from muster.jobs.build.pod_templates import escape_literal, surroundings

if TYPE_CHECKING:
    from kubekit.objects.meta import Raw
    from muster.jobs.build.flags import Site, Submission

IMAGE = "tensorflow/tensorflow:2.21.0"
READ_FROM = "/output/training_logs"
PROBE_SECONDS = 2


def objects(args: Submission, site: Site, labels: dict[str, str], writer: str) -> list[Raw]:
    """The Service and the Deployment; nothing without `--tensorboard`."""
    if not args.tensorboard:
        return []
    name = names.tensorboard(args.name)
    selector = {"app": args.type, "release": args.name, **names.TENSORBOARD_LABEL}
    metadata = {"name": name, "labels": {**labels, **selector}}
    port = {
        "name": "tensorboard",
        "port": names.TENSORBOARD_PORT,
        "targetPort": names.TENSORBOARD_PORT,
    }
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {"type": "NodePort", "selector": selector, "ports": [port]},
    }
    template = {"metadata": {"labels": metadata["labels"]}, "spec": _pod(args, site, writer)}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {"replicas": 1, "selector": {"matchLabels": selector}, "template": template},
    }
    return [service, deployment]


def _pod(args: Submission, site: Site, writer: str) -> Raw:
    mounted = [
        row._replace(mount={**row.mount, "mountPath": READ_FROM})
        for row in volumes.logs(args, site)
    ]
    logdir = READ_FROM if mounted else args.logdir
    data = mounted or [*volumes.claims(args), *volumes.host_directories(args)]
    pod_volumes, mounts = volumes.split([*data, *volumes.programs(site)])
    container: Raw = {
        "name": "tensorboard",
        "image": args.tensorboard_image or IMAGE,
        "imagePullPolicy": args.image_pull_policy,
        "command": ["tensorboard", "--logdir", logdir, "--host", "0.0.0.0"],
        # Otherwise NVIDIA's runtime could show it all GPUs of the node.
        "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}, *_search_path(site)],
        "ports": [{"name": "tensorboard", "containerPort": names.TENSORBOARD_PORT}],
        # `arena get` then shows its last words, for example that a package is missing.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        # It loads for seconds before it opens its port.
        "readinessProbe": {
            "tcpSocket": {"port": names.TENSORBOARD_PORT},
            "periodSeconds": PROBE_SECONDS,
        },
        "volumeMounts": [{**mount, "readOnly": True} for mount in mounts],
    }
    shared = volumes.shared_logs(args, site)
    spec: Raw = {
        **surroundings(args),
        "affinity": {} if shared else pod_affinity.on_node_of(args.name, writer, 0),
        "volumes": pod_volumes,
        "containers": [{key: value for key, value in container.items() if value}],
    }
    return {key: value for key, value in spec.items() if value}


def _search_path(site: Site) -> list[Raw]:
    """PATH on the user's machine: the user's own TensorBoard, else the one of Muster."""
    path = dict(site.workspace.variables).get("PATH")
    if not path:
        return []
    return [{"name": "PATH", "value": escape_literal(f"{path}:{this_machine.LAST_PROGRAMS}")}]
