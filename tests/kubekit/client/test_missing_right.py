"""A 403 about a right names who lacks it and the smallest rule; any other 403 stays as it is."""

from __future__ import annotations

import pytest

from kubekit.client.error_response import missing_right

ACCOUNT = "system:serviceaccount:muster:muster-operator"
DENIED = 'User "{}" cannot {} resource "{}" in API group "{}" in the namespace "{}"'


@pytest.mark.parametrize(
    ("message", "namespace", "name", "sentence"),
    [
        (
            f"services is forbidden: {DENIED.format(ACCOUNT, 'create', 'services', '', 'team')}",
            "team",
            "",
            'muster-operator may not create services; add the rule {apiGroups: [""], '
            "resources: [services], verbs: [create]}",
        ),
        (
            DENIED.format("alice", "patch", "tfjobs/status", "kubeflow.org", "team"),
            "team",
            "j",
            "alice may not patch tfjobs/status.kubeflow.org; "
            'add the rule {apiGroups: ["kubeflow.org"], resources: [tfjobs/status], '
            "verbs: [patch]}",
        ),
        (
            DENIED.format(ACCOUNT, "patch", "configmaps", "", "kube-system"),
            "kube-system",
            "muster-line",
            "muster-operator may not patch configmaps muster-line; "
            'add the rule {apiGroups: [""], resources: [configmaps], '
            "resourceNames: [muster-line], verbs: [patch]}",
        ),
        (
            'nodes is forbidden: User "a b" cannot list resource "nodes" in API group "" at the '
            "cluster scope: RBAC: clusterrole x not found",
            "",
            "",
            'a b may not list nodes; add the rule {apiGroups: [""], resources: [nodes], '
            "verbs: [list]}",
        ),
        (
            f'roles "j" is forbidden: user "{ACCOUNT}" (groups=["system:authenticated"]) is '
            "attempting to grant RBAC permissions not currently held:\n"
            '{APIGroups:[""], Resources:["pods/exec"], ResourceNames:["j-worker-0"], '
            'Verbs:["create" "get"]}',
            "team",
            "",
            'muster-operator may not create, get pods/exec; add the rule {apiGroups: [""], '
            "resources: [pods/exec], verbs: [create, get]}",
        ),
    ],
)
def test_the_rule_that_is_missing(message: str, namespace: str, name: str, sentence: str) -> None:
    assert str(missing_right(message, namespace, name)) == sentence


@pytest.mark.parametrize(
    "message",
    [
        "",
        'pods "j" is forbidden: exceeded quota: q, requested: pods=1',
        'pods "j" is forbidden: violates PodSecurity "restricted:latest"',
        'admission webhook "x" denied the request: no',
    ],
)
def test_other_reasons_are_no_missing_right(message: str) -> None:
    assert missing_right(message, "team", "j") is None
