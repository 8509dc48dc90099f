"""After history was forgotten, both servers tell readers of the past the same.

The real server runs without its watch cache here: with it, it would go on serving from memory.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import pytest

from tests.controlplane.control_plane import ControlPlane
from tests.localkube.conformance.cases.steps import CM, cm, get, patch, post
from tests.localkube.conformance.conftest import InThread, Running
from tests.localkube.conformance.normalization import normalized
from tests.localkube.conformance.transcript import ASIDE, Case, play

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.kube

CASE = Case(
    "what was compacted",
    [
        post(CM, cm("a")),
        patch(f"{CM}/a", {"data": {"x": "1"}}),
        post(CM, cm("b")),
        get(f"{CM}?limit=1"),
        patch(f"{CM}/a", {"data": {"x": "2"}}),
        patch(f"{CM}/b", {"data": {"x": "3"}}),
        ASIDE,
        get(f"{CM}?watch=1&resourceVersion=$rv.0&timeoutSeconds=2"),
        get(f"{CM}?limit=1&continue=$next.3"),
        get(f"{CM}?resourceVersion=$rv.0&resourceVersionMatch=Exact"),
        get(f"{CM}?limit=1&continue=$next.8"),
        get(CM),
        get(f"{CM}?watch=1&resourceVersion=$rv.11&timeoutSeconds=1"),
        get(f"{CM}?watch=1&resourceVersion=$rv.5&timeoutSeconds=1"),
    ],
    ("wording",),
)


def test_both_servers_answer_alike_after_a_compaction(
    control_plane_binaries: Path, tmp_path: Path
) -> None:
    namespace = f"case-{secrets.token_hex(4)}"
    with InThread(tmp_path) as host:
        actual = normalized(play(host.running, CASE, namespace, host.compact), CASE, namespace)
    with ControlPlane(control_plane_binaries, watch_cache=False) as plane:
        real = Running(plane.url, plane.token, plane.authority.certificate, plane.kubeconfig)
        expected = normalized(play(real, CASE, namespace, plane.compact), CASE, namespace)

    for step, want, got in zip(CASE.steps, expected, actual, strict=True):
        assert got == want, f"{step.method} {step.path}"
