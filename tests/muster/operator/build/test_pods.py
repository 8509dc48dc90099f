"""The pod of a replica, before its framework adds to it."""

from __future__ import annotations

import pytest

from tests.muster.operator.builders import Model, manifest, replica


@pytest.mark.parametrize(
    ("template", "expected"),
    [({}, "FallbackToLogsOnError"), ({"terminationMessagePolicy": "File"}, "File")],
)
def test_the_end_of_the_log_explains_a_failure_unless_the_template_says_otherwise(
    template: dict[str, str], expected: str
) -> None:
    worker = replica(1)
    containers = worker["template"]["spec"]["containers"]
    containers[0] |= template
    containers.append({"name": "sidecar", "image": "a:1"})
    model = Model(manifest(roles={"Worker": worker}))
    model.settle()

    training, sidecar = model.manifests["j-worker-0"]["spec"]["containers"]

    assert training["terminationMessagePolicy"] == expected
    assert "terminationMessagePolicy" not in sidecar
