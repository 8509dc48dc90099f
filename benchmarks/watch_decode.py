"""Decoding a watch stream of 3 KB pods into our structs, against orjson.loads of the same lines."""

from __future__ import annotations

import json
from typing import Any

import orjson

from benchmarks.ratio import Ratio, in_turn, seconds
from kubekit.client.request import Request
from kubekit.client.watch_stream import event_reader
from kubekit.objects.kinds import PODS

LINES = 4000


def pod(number: int) -> dict[str, Any]:
    """A pod as a real server sends it: managedFields and all, about 3 KB."""
    name = f"bench-worker-{number}"
    env = [{"name": f"SETTING_{i}", "value": f"value-{i}-{number}"} for i in range(22)]
    fields: dict[str, Any] = {f"f:field{i}": {".": {}, "f:value": {}} for i in range(26)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"00000000-0000-4000-8000-{number:012d}",
            "resourceVersion": str(1000 + number),
            "creationTimestamp": "2026-11-15T10:00:00Z",
            "labels": {
                "training.kubeflow.org/job-name": "bench",
                "training.kubeflow.org/replica-index": str(number),
            },
            "annotations": {"scheduling.k8s.io/group-name": "bench"},
            "managedFields": [
                {"manager": "muster", "operation": "Update", "apiVersion": "v1", "fieldsV1": fields}
            ],
        },
        "spec": {
            "schedulerName": "muster",
            "containers": [
                {
                    "name": "tensorflow",
                    "image": "tensorflow/tensorflow:2.21.0",
                    "command": ["sh", "-c", "python train.py --logdir /training_logs"],
                    "env": env,
                    "ports": [{"name": "tfjob-port", "containerPort": 2222, "protocol": "TCP"}],
                    "resources": {
                        "limits": {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "2"},
                        "requests": {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "2"},
                    },
                }
            ],
            "restartPolicy": "Never",
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}],
        },
        "status": {"phase": "Pending", "qosClass": "Guaranteed"},
    }


def run() -> list[Ratio]:
    lines = [json.dumps({"type": "MODIFIED", "object": pod(i)}).encode() for i in range(LINES)]
    size = len(lines[0])
    decode = event_reader(PODS, Request("GET", PODS.path()))

    def ours() -> None:
        for line in lines:
            decode(line)

    def peer() -> None:
        for line in lines:
            orjson.loads(line)

    rounds = in_turn(lambda: LINES / seconds(ours), lambda: LINES / seconds(peer))
    name = f"watch lines of {size} bytes into structs vs orjson.loads"
    return [Ratio(name, rounds, "lines/s", ">= 1.5")]
