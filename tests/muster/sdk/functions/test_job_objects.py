"""The objects of a function: who mounts what, and who may write where."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from muster.jobs import names
from muster.jobs.build import job_manifest
from muster.jobs.build.flags import BY_TYPE
from muster.jobs.build.job_manifest import Bundle
from muster.sdk.functions.job_objects import FunctionParts, with_function

PARTS = FunctionParts("train", "ns", b"key", b"zip", ({"name": "registry"},))


def built(kind: str, **flags: Any) -> Bundle:
    flags = {"name": "j", "image": "img", "command": ("true",), **flags}
    return with_function(job_manifest.bundle(BY_TYPE[kind](**flags)), PARTS)


def templates(bundle: Bundle) -> dict[str, Any]:
    spec = next(v for k, v in bundle.job["spec"].items() if k.endswith("ReplicaSpecs"))
    return {role: row["template"]["spec"] for role, row in spec.items()}


def mounted(spec: Any) -> list[str]:
    names = {row["name"]: row.get("secret", {}).get("secretName") for row in spec["volumes"]}
    return [
        names[row["name"]]
        for row in spec["containers"][0]["volumeMounts"]
        if row["mountPath"] == "/etc/muster/function" and row["readOnly"]
    ]


@pytest.mark.parametrize(
    ("kind", "flags", "alone", "mounting"),
    [
        ("jaxjob", {"workers": 2}, "", {"Worker"}),
        ("jaxjob", {"workers": 1}, "Worker", {"Worker"}),
        ("pytorchjob", {"workers": 2}, "Master", {"Master", "Worker"}),
        ("tfjob", {"workers": 2, "ps": 1}, "", {"Worker", "PS"}),
        ("tfjob", {"workers": 2, "chief": True}, "Chief", {"Worker", "Chief"}),
        ("mpijob", {"workers": 2}, "", {"Worker"}),
        ("mpijob", {"workers": 1}, "Worker", {"Worker"}),
    ],
)
def test_rank_0_alone_gets_the_account(
    kind: str, flags: dict[str, Any], alone: str, mounting: set[str]
) -> None:
    bundle = built(kind, **flags)

    specs = templates(bundle)
    assert {role for role, spec in specs.items() if mounted(spec) == ["j-function"]} == mounting
    accounts = {role for role, spec in specs.items() if spec.get("serviceAccountName")}
    assert accounts == ({alone} if alone else set())
    annotated = bundle.job["metadata"]["annotations"].get(names.RANK_0_ACCOUNT)
    assert annotated == (None if alone else "j-rank-0")


@pytest.mark.parametrize("retry", [0, 2])
@pytest.mark.parametrize(
    ("kind", "flags"), [("pytorchjob", {}), ("tfjob", {"chief": True}), ("jaxjob", {})]
)
def test_without_retry_a_function_that_raises_fails_the_job(
    kind: str, flags: dict[str, Any], retry: int
) -> None:
    """Elsewhere workers beside a master or chief are restarted without an end, as in arena."""
    bundle = built(kind, workers=2, retry=retry, restart="replica", **flags)

    spec = next(v for k, v in bundle.job["spec"].items() if k.endswith("ReplicaSpecs"))
    policies = {row["restartPolicy"] for row in spec.values()}
    assert policies == ({"OnFailure"} if retry else {"Never"})


def test_the_account_may_read_and_patch_the_result_and_nothing_else() -> None:
    account, role, binding, result, function = built("jaxjob", workers=2).companions

    assert (account["kind"], account["imagePullSecrets"]) == (
        "ServiceAccount",
        [{"name": "registry"}],
    )
    assert role["rules"] == [
        {
            "apiGroups": [""],
            "resources": ["secrets"],
            "resourceNames": ["j-result"],
            "verbs": ["get", "patch"],
        }
    ]
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "name": "j-rank-0", "namespace": "ns"}
    ]
    assert binding["roleRef"]["name"] == role["metadata"]["name"] == "j-rank-0"
    assert result["metadata"]["name"] == "j-result"
    assert "data" not in result
    assert function["immutable"] is True
    assert {name: base64.b64decode(text) for name, text in function["data"].items()} == {
        "key": b"key",
        "function.zip": b"zip",
    }


def test_the_key_and_the_function_are_in_the_secret_only() -> None:
    bundle = built("jaxjob", workers=2)

    text = repr(bundle.job)
    assert base64.b64encode(b"key").decode() not in text
    assert not any(row.get("value") == "key" for row in templates(bundle)["Worker"]["containers"])
