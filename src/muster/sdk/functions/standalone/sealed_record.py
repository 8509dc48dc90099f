"""The record of a result: one line of JSON, the body, and a code that proves where it is from.

Both sides use this module: rank 0 seals a record, the caller opens it. The body is a pickle, and
whoever can choose a pickle runs code where it is loaded. So `open_record` returns nothing that was
not sealed with the key of this very job. The line of JSON is sealed too. It names the job (its
UID), rank 0's pod and the time at which the attempt began, so that a record of another job or of an
earlier attempt can be told from the result.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import Any

LIMIT = 1 << 20
"""Bytes that Kubernetes allows in a Secret."""
MAC_SIZE = 64
_PURPOSE = b"muster.dev/function-result/1\n"
RETURNED, RAISED, REFUSED = "returned", "raised", "refused"
"""Outcomes: a value, an exception of the function, a sentence of the program."""


class Forged(Exception):
    """The record was not sealed with the key, or not for this job."""


def make_record(header: dict[str, Any], body: bytes = b"") -> bytes:
    """The bytes of a record, to be sealed."""
    return json.dumps(header, sort_keys=True).encode() + b"\n" + body


def seal(key: bytes, job_uid: str, record: bytes) -> str:
    """The code of a record: HMAC-SHA256 over purpose, job and record, in hexadecimal digits."""
    return hmac.new(key, _PURPOSE + job_uid.encode() + b"\n" + record, hashlib.sha256).hexdigest()


def open_record(key: bytes, job_uid: str, record: bytes, code: str) -> tuple[dict[str, Any], bytes]:
    """Header and body of a record; Forged unless it was sealed with this key for this job."""
    expected = seal(key, job_uid, record)
    if not hmac.compare_digest(expected.encode(), code.encode("utf-8", "replace")):
        raise Forged("it is not sealed with the key of this job")
    line, _, body = record.partition(b"\n")
    header = json.loads(line)  # sealed: rank 0 has written it
    if header.get("job") != job_uid:
        raise Forged("it is the result of another job")
    return header, body
