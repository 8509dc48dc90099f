"""A user who may not submit jobs gets the role to bind, and the command of an administrator."""

from __future__ import annotations

import pytest

from kubekit.request_errors import Forbidden
from kubekit.rights import MissingRight, Rule
from muster.client.submit.user_role import with_role

ACCOUNT = "system:serviceaccount:ci:runner"
BIND = "An administrator runs: kubectl create rolebinding"


def refused(who: str, group: str, resource: str) -> Forbidden:
    error = Forbidden("no", status=403)
    error.missing_right = MissingRight(who, Rule((group,), (resource,), ("create",)))
    return with_role(error, "team")


@pytest.mark.parametrize(
    ("who", "group", "resource", "sentence", "hint"),
    [
        (
            "alice",
            "",
            "configmaps",
            "alice may not submit jobs in the namespace team (create configmaps): "
            "the role edit, which includes muster-edit, allows it",
            f"{BIND} alice-edit --namespace team --clusterrole=edit --user=alice",
        ),
        (
            "alice",
            "kubeflow.org",
            "tfjobs",
            "alice may not submit jobs in the namespace team (create tfjobs.kubeflow.org): "
            "the role muster-edit allows it",
            f"{BIND} alice-muster-edit --namespace team --clusterrole=muster-edit --user=alice",
        ),
        (
            ACCOUNT,
            "rbac.authorization.k8s.io",
            "roles",
            f"{ACCOUNT} may not submit jobs in the namespace team "
            "(create roles.rbac.authorization.k8s.io): "
            "the role admin, which includes muster-edit, allows it",
            f"{BIND} runner-admin --namespace team --clusterrole=admin --serviceaccount=ci:runner",
        ),
        (
            "Ann O'Hara@x",
            "",
            "secrets",
            "Ann O'Hara@x may not submit jobs in the namespace team (create secrets): "
            "the role edit, which includes muster-edit, allows it",
            f"{BIND} ann-o-hara-x-edit --namespace team --clusterrole=edit "
            """'--user=Ann O'"'"'Hara@x'""",
        ),
    ],
)
def test_the_role_and_the_command(
    who: str, group: str, resource: str, sentence: str, hint: str
) -> None:
    error = refused(who, group, resource)

    assert (str(error), error.hint) == (sentence, hint)
    assert error.missing_right is not None


def test_a_quota_is_not_a_missing_right() -> None:
    error = Forbidden("exceeded quota", status=403)

    assert with_role(error, "team") is error
