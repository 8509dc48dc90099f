"""The program of a replica: calls the function, and lets rank 0 write what it returned or raised.

Every replica calls the function; only rank 0's value counts. An exception ends the replica with
exit code 1 and its traceback in the log, as it ends a script.

Rank 0 writes into the Secret of its job, with the rights of its own service account. Every attempt
first removes the result of the attempt before. So a result is always the last attempt's, and a
missing right is found before hours of training instead of after them.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import http.client
import inspect
import io
import json
import operator
import os
import pickle
import secrets
import signal
import ssl
import sys
import time
import traceback
from typing import TYPE_CHECKING, Any

from . import sealed_record
from .sealed_record import RAISED, REFUSED, RETURNED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


MAX_TEXT = 2000
MAX_TRACEBACK = 1 << 16
_MPI_RANKS = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK")

# Pods that are plain processes of a local cluster find their volumes below another root.
ACCOUNT = os.environ.get("MUSTER_ROOT", "") + "/var/run/secrets/kubernetes.io/serviceaccount"
PATIENCE = 600.0
"""Seconds for which an API server that does not answer is waited for: it may be restarted."""
RIGHTS_PATIENCE = 20.0
"""Seconds in which new rights must have come to the API server."""
PAUSE = 2.0
CachedFunction = type(functools.lru_cache(None)(len))
"""The type of a function with `functools.cache` or `lru_cache`."""


class Refusal(Exception):
    """The function was not called, or its value cannot be sent. The sentence is for the caller."""


def run(files: Mapping[str, bytes], folder: str) -> int:
    """Call the function of a package; `folder` has the key. Returns the exit code."""
    header = json.loads(files["header.json"])
    is_rank_0 = rank(header["kind"], os.environ) == 0
    secret = None
    try:
        if is_rank_0:
            with open(os.path.join(folder, "key"), "rb") as file:
                key = file.read()
            secret = ResultSecret(header["secret"], key, os.environ.get("MUSTER_POD_UID", ""))
            secret.begin()
        return _call(header, files["payload.pickle"], secret)
    except Refusal as refusal:
        sys.stderr.write(f"muster: {refusal}\n")
        if secret is not None:
            secret.write({"outcome": REFUSED, "text": str(refusal)})
        return 1
    except NotWritten as error:
        sys.stderr.write(f"muster: {error}\n")
        return 1


def rank(kind: str, env: Mapping[str, str]) -> int:
    """The rank of this process, from the variables that the operator or mpirun set."""
    if kind == "TFJob":
        return _tensorflow_rank(env.get("TF_CONFIG", ""))
    if kind == "MPIJob":
        return next((int(env[name]) for name in _MPI_RANKS if name in env), 0)
    return int(env.get("PROCESS_ID" if kind == "JAXJob" else "RANK") or 0)


def _tensorflow_rank(text: str) -> int:
    """0 for the chief, or for worker 0 of a job without a chief. A lone replica has no text."""
    if not text:
        return 0
    config = json.loads(text)
    task, roles = config["task"], config["cluster"]
    chief = next((role for role in ("chief", "master") if role in roles), "worker")
    return 0 if task["type"] == chief and int(task["index"]) == 0 else 1


def _finish_writing() -> None:
    """Let a result that is about to be written be written: a job that ends stops its replicas."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _call(header: dict[str, Any], payload: bytes, secret: ResultSecret | None) -> int:
    check_python(header["python"], sys.version_info)
    sys.argv[:] = [header["function"]]
    sys.path += [path for path in header["path"] if path not in sys.path and os.path.isdir(path)]
    function, args, kwargs = _load(payload)
    try:
        value = function(*args, **kwargs)
        if inspect.iscoroutine(value):
            import asyncio

            value = asyncio.run(value)
    except SystemExit as stop:
        if stop.code not in (None, 0):
            return _raised(header, stop, secret)
        value = None
    except Exception as error:  # noqa: BLE001 - of the user's function: the caller gets it
        return _raised(header, error, secret)
    if secret is not None:
        _finish_writing()
        _returned(header, value, secret)
    return 0


def check_python(wanted: list[int], version: Any) -> None:
    """Refuse a Python of another minor version: bytecode differs between them."""
    if tuple(wanted) != tuple(version[:2]):
        here, there = f"{version[0]}.{version[1]}", ".".join(map(str, wanted))
        raise Refusal(
            f"the function was sent by Python {there}, and the replica has Python {here}: "
            f"both must have the same minor version"
        )


def _load(payload: bytes) -> Any:
    try:
        return pickle.loads(payload)
    except ImportError as error:
        raise Refusal(
            f"the function cannot be loaded in the replica: {error}. Installed packages are not "
            "sent along: the image needs them too"
        ) from error
    except Exception as error:
        traceback.print_exc()
        raise Refusal(
            f"the function cannot be loaded in the replica: {type(error).__name__}: {error}"
        ) from error


def _raised(header: dict[str, Any], error: BaseException, secret: ResultSecret | None) -> int:
    """Report the exception in the log and, from rank 0, to the caller."""
    if secret is not None:
        _finish_writing()
    trace = error.__traceback__.tb_next if error.__traceback__ is not None else None
    text = "".join(traceback.format_exception(type(error), error, trace))
    sys.stderr.write(text)
    sys.stderr.flush()
    if secret is not None:
        about = {
            "outcome": RAISED,
            "type": type(error).__qualname__,
            "text": str(error)[:MAX_TEXT],
            "traceback": text[-MAX_TRACEBACK:],
        }
        secret.write(about, _pickled_error(error, secret.capacity(about)))
    if isinstance(error, SystemExit) and isinstance(error.code, int):
        return error.code
    return 1


def _pickled_error(error: BaseException, most: int) -> bytes:
    """The exception; empty if it cannot be sent, so that the caller gets its text."""
    if not isinstance(error, Exception):
        return b""
    try:
        body = _dumps(error)
    except Exception as problem:  # noqa: BLE001 - of the user's class
        sys.stderr.write(f"muster: the exception is sent as text: {problem}\n")
        return b""
    return body if len(body) <= most else b""


def _returned(header: dict[str, Any], value: Any, secret: ResultSecret) -> None:
    """Write the value. One that cannot be sent does not fail the job: its work is done."""
    try:
        body = _dumps(value)
    except Exception as error:  # noqa: BLE001 - of the user's class
        returned = with_article(type(value).__name__)
        _refuse(secret, f"rank 0 returned {returned}, which cannot be pickled: {error}")
        return
    about = {"outcome": RETURNED}
    most = secret.capacity(about)
    if len(body) <= most:
        secret.write(about, body)
    elif not header.get("shared_dir"):
        _refuse(
            secret,
            f"rank 0 returned {len(body):,} bytes, and a result in a Secret has at most "
            f"{most:,}: write large results to a volume, or call muster.run with "
            "shared_dir",
        )
    else:
        _write_file(header["shared_dir"], body, secret)


def _write_file(folder: str, body: bytes, secret: ResultSecret) -> None:
    """Write a large body into the shared directory. Its digest is sealed with the record."""
    name = f"muster-result-{secrets.token_hex(8)}.pickle"
    try:
        with open(os.path.join(folder, name), "xb") as file:
            file.write(body)
    except OSError as error:
        _refuse(secret, f"rank 0 cannot write its result into {folder}: {error}")
        return
    digest = hashlib.sha256(body).hexdigest()
    secret.write({"outcome": RETURNED, "file": name, "sha256": digest})


def _refuse(secret: ResultSecret, text: str) -> None:
    sys.stderr.write(f"muster: {text}\n")
    secret.write({"outcome": REFUSED, "text": text[:MAX_TEXT]})


def with_article(name: str) -> str:
    """The name of a type in a sentence."""
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def _dumps(value: Any) -> bytes:
    from cloudpickle import CloudPickler  # sent along

    class Pickler(CloudPickler):  # type: ignore[misc]
        def reducer_override(self, value: Any) -> Any:
            made_from = reduction(value, lambda function: not is_found_by_name(function))
            return super().reducer_override(value) if made_from is None else made_from

    buffer = io.BytesIO()
    Pickler(buffer).dump(value)
    return buffer.getvalue()


def reduction(value: Any, is_sent_by_value: Callable[[Any], bool]) -> Any:
    """What the value is made from, in the form of `__reduce__`; None to let cloudpickle decide.

    It would send the value by name, or not at all. A cache starts empty on the other side.
    """
    if isinstance(value, functools.cached_property):  # it has a lock in Python 3.11
        return functools.cached_property, (value.func,), {"attrname": value.attrname}
    if isinstance(value, CachedFunction) and is_sent_by_value(value):
        decorator = functools.lru_cache(**value.cache_parameters())
        return operator.call, (decorator, value.__wrapped__)
    return None


def is_found_by_name(function: Any) -> bool:
    """Whether this process finds the function by its module and name."""
    found: Any = sys.modules.get(function.__module__)
    for name in function.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is function


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
        return sealed_record.LIMIT - sealed_record.MAC_SIZE - len(self._record(header, b""))

    def write(self, header: dict[str, Any], body: bytes = b"") -> None:
        """Write the result of this attempt."""
        content = self._record(header, body)
        code = sealed_record.seal(self._key, self._job_uid, content)
        self._patch(
            {
                "result": base64.b64encode(content).decode(),
                "code": base64.b64encode(code.encode()).decode(),
            }
        )

    def _record(self, header: dict[str, Any], body: bytes) -> bytes:
        return sealed_record.make_record(dict(header, job=self._job_uid, **self._about), body)

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
