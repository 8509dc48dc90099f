"""Put one object into an S3 bucket with the standard library: AWS signature version 4.

The endpoint is addressed by path (`http://minio:9000/bucket/key`), which every S3 server takes.
The key pair comes from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import urllib.request
from datetime import UTC, datetime
from urllib.parse import quote, urlsplit


def put(endpoint: str, bucket: str, key: str, body: bytes) -> None:
    """Upload the object; raises with the server's response if it refuses."""
    url = f"{endpoint.rstrip('/')}/{quote(bucket)}/{quote(key)}"
    secret = (os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"])
    region = os.environ.get("AWS_REGION", "us-east-1")
    headers = signed("PUT", url, body, secret, region, datetime.now(UTC))
    request = urllib.request.Request(url, body, headers, method="PUT")
    with urllib.request.urlopen(request, timeout=60):
        pass


def signed(
    method: str, url: str, body: bytes, secret: tuple[str, str], region: str, now: datetime
) -> dict[str, str]:
    """The headers with the signature of this request."""
    parts, stamp = urlsplit(url), now.strftime("%Y%m%dT%H%M%SZ")
    digest = hashlib.sha256(body).hexdigest()
    headers = {"host": parts.netloc, "x-amz-content-sha256": digest, "x-amz-date": stamp}
    names = ";".join(sorted(headers))
    lines = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
    canonical = "\n".join([method, parts.path, parts.query, lines, names, digest])
    scope = f"{stamp[:8]}/{region}/s3/aws4_request"
    text = "\n".join(
        ["AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()]
    )
    key = f"AWS4{secret[1]}".encode()
    for word in scope.split("/"):
        key = hmac.digest(key, word.encode(), "sha256")
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    credential = f"Credential={secret[0]}/{scope}, SignedHeaders={names}, Signature={signature}"
    return {**headers, "Authorization": f"AWS4-HMAC-SHA256 {credential}"}
