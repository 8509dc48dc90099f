"""Rank 0 writes its result into the Secret of its job, with the rights of its own service account.

Every attempt first removes the result of the attempt before. So a result is always the last
attempt's, and a missing right is found before hours of training instead of after them.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import ssl
import sys
import time
from typing import Any

from . import record

# Pods that are plain processes of a local cluster find their volumes below another root.
ACCOUNT = os.environ.get("MUSTER_ROOT", "") + "/var/run/secrets/kubernetes.io/serviceaccount"
PATIENCE = 600.0
"""Seconds for which an API server that does not answer is waited for: it may be restarted."""
RIGHTS_PATIENCE = 20.0
"""Seconds in which new rights must have come to the API server."""
PAUSE = 2.0


class NotWritten(Exception):
    """The API server rejects the result."""


class ResultSecret:
    """The Secret in which the caller looks for the result."""

    def __init__(self, name: str, key: bytes, pod_uid: str) -> None:
        self._name, self._key = name, key
        self._about = {"pod": pod_uid, "started": time.time()}
        self._job_uid = ""

    def begin(self) -> None:
        """Remove the result of an earlier attempt, and learn the UID of the job."""
        secret = self._patch({"result": None, "code": None})
        owners = secret["metadata"].get("ownerReferences") or [{}]
        self._job_uid = owners[0].get("uid", "")

    def capacity(self, header: dict[str, Any]) -> int:
        """The number of bytes that a body may have after this header."""
        return record.LIMIT - record.MAC_SIZE - len(self._record(header, b""))

    def write(self, header: dict[str, Any], body: bytes = b"") -> None:
        """Write the result of this attempt."""
        content = self._record(header, body)
        code = record.seal(self._key, self._job_uid, content)
        self._patch(
            {
                "result": base64.b64encode(content).decode(),
                "code": base64.b64encode(code.encode()).decode(),
            }
        )

    def _record(self, header: dict[str, Any], body: bytes) -> bytes:
        return record.make_record(dict(header, job=self._job_uid, **self._about), body)

    def _patch(self, data: dict[str, Any]) -> Any:
        began = time.monotonic()
        while True:
            try:
                status, answer = self._send(json.dumps({"data": data}))
            except (OSError, http.client.HTTPException) as error:
                status, answer = 0, str(error).encode()
            if status == 200:
                return json.loads(answer)
            text = _message(answer) or f"HTTP {status}"
            waited = time.monotonic() - began
            # A server that starts may reject every token, and know a new Role a moment later.
            late = RIGHTS_PATIENCE if status in (401, 403, 404) else PATIENCE
            if waited > late or (400 <= status < 500 and status not in (401, 403, 404, 409, 429)):
                raise NotWritten(f"secret/{self._name} cannot be written: {text}")
            sys.stderr.write(f"muster: secret/{self._name}: {text}; trying again\n")
            time.sleep(PAUSE)

    def _send(self, body: str) -> tuple[int, bytes]:
        host = os.environ["KUBERNETES_SERVICE_HOST"]
        port = int(os.environ.get("KUBERNETES_SERVICE_PORT", "443"))
        context = ssl.create_default_context(cafile=os.path.join(ACCOUNT, "ca.crt"))
        connection = http.client.HTTPSConnection(host, port, timeout=20, context=context)
        try:
            path = f"/api/v1/namespaces/{_account('namespace')}/secrets/{self._name}"
            headers = {
                "Authorization": f"Bearer {_account('token')}",  # read each time: it is renewed
                "Content-Type": "application/merge-patch+json",
                "Accept": "application/json",
            }
            connection.request("PATCH", path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()


def _account(name: str) -> str:
    with open(os.path.join(ACCOUNT, name)) as file:
        return file.read().strip()


def _message(answer: bytes) -> str:
    """The message of a Status, or the text as it is."""
    try:
        status = json.loads(answer)
    except ValueError:
        return answer.decode("utf-8", "replace")[:500]
    return str(status.get("message") or "") if isinstance(status, dict) else ""
