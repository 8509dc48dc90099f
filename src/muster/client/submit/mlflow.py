"""Registering a job's model as a new version in MLflow, over its REST API.

The job is submitted first and not deleted when MLflow fails: it trains all the same.
"""

from __future__ import annotations

import base64
import json
import os
from typing import Any

from kubekit.errors import ConfigError, MusterError

_TIMEOUT = 20


def check() -> str:
    """The address of the tracking server; an error if none is configured."""
    address = os.environ.get("MLFLOW_TRACKING_URI", "").rstrip("/")
    if not address.startswith(("http://", "https://")):
        raise ConfigError(
            "--model-name needs an MLflow server",
            hint="Set MLFLOW_TRACKING_URI to its address, http://…",
        )
    return address


def register(name: str, source: str) -> str:
    """Create a version of the model, and the model itself if it is new; returns the version."""
    address = check()
    _post(address, "registered-models/create", {"name": name}, exists_ok=True)
    version = _post(
        address, "model-versions/create", {"name": name, "source": source, "run_id": ""}
    )
    return str((version.get("model_version") or {}).get("version", ""))


def _post(address: str, path: str, body: dict[str, str], *, exists_ok: bool = False) -> Any:
    import urllib.error  # slow to import, and few jobs have a model
    import urllib.request

    request = urllib.request.Request(
        f"{address}/api/2.0/mlflow/{path}",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json", **_credentials()},
    )
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        reply = error.read().decode(errors="replace")
        if exists_ok and "RESOURCE_ALREADY_EXISTS" in reply:
            return {}
        raise MusterError(f"MLflow refused {path}: {error.code} {reply[:200]}") from None
    except (OSError, ValueError) as error:
        raise MusterError(f"MLflow at {address} does not answer: {error}") from None


def _credentials() -> dict[str, str]:
    user = os.environ.get("MLFLOW_TRACKING_USERNAME", "")
    if not user:
        return {}
    word = f"{user}:{os.environ.get('MLFLOW_TRACKING_PASSWORD', '')}"
    return {"Authorization": f"Basic {base64.b64encode(word.encode()).decode()}"}
