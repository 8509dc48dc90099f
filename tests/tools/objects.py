"""A pod with a web server, for clients that talk to pods."""

from __future__ import annotations

from typing import Any

COMMAND = "echo started; exec python3 -u -m http.server 8000 --directory /var/empty-pages"
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "page", "labels": {"app": "page"}},
    "spec": {
        "terminationGracePeriodSeconds": 0,
        "containers": [
            {
                "name": "main",
                "image": "python:3",
                "command": ["sh", "-c", COMMAND],
                "ports": [{"name": "http", "containerPort": 8000}],
                "readinessProbe": {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 1},
                "volumeMounts": [{"name": "pages", "mountPath": "/var/empty-pages"}],
            }
        ],
        "volumes": [{"name": "pages", "emptyDir": {}}],
    },
}
