"""Calls the function in a replica, and lets rank 0 write what it returned or raised.

Every replica calls the function; only rank 0's value counts. An exception ends the replica with
exit code 1 and its traceback in the log, as it ends a script.
"""

from __future__ import annotations

import hashlib
import inspect
import io
import json
import os
import pickle
import secrets
import signal
import sys
import traceback
from typing import TYPE_CHECKING, Any

from .record import RAISED, REFUSED, RETURNED
from .result_secret import NotWritten, ResultSecret

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_TEXT = 2000
MAX_TRACEBACK = 1 << 16
_MPI_RANKS = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK")


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

    from .reductions import is_found_by_name, reduction

    class Pickler(CloudPickler):  # type: ignore[misc]
        def reducer_override(self, value: Any) -> Any:
            made_from = reduction(value, lambda function: not is_found_by_name(function))
            return super().reducer_override(value) if made_from is None else made_from

    buffer = io.BytesIO()
    Pickler(buffer).dump(value)
    return buffer.getvalue()
