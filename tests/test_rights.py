"""Rights as few rules, and the one sentence about a rule that is missing."""

from __future__ import annotations

from kubekit.rights import MissingRight, Right, Rule, account_name, compact


def test_rights_become_few_rules() -> None:
    rights = [
        Right("create", "", "events"),
        Right("patch", "", "events"),
        Right("list", "", "nodes"),
        Right("list", "", "namespaces"),
        Right("patch", "", "configmaps", "muster-line"),
    ]

    assert list(map(str, compact(rights))) == [
        '{apiGroups: [""], resources: [events], verbs: [create, patch]}',
        '{apiGroups: [""], resources: [nodes, namespaces], verbs: [list]}',
        '{apiGroups: [""], resources: [configmaps], resourceNames: [muster-line], verbs: [patch]}',
    ]


def test_the_sentence_names_who_what_and_the_rule() -> None:
    rule = Rule(("kubeflow.org",), ("tfjobs", "jaxjobs"), ("get", "list"))

    row = MissingRight("you", rule)

    assert row.problem == "you may not get, list tfjobs.kubeflow.org, jaxjobs.kubeflow.org"
    assert str(row) == f"{row.problem}; add the rule {rule}"


def test_the_service_account_of_a_component_is_called_like_the_component() -> None:
    assert account_name("system:serviceaccount:muster:muster-operator") == "muster-operator"
    assert account_name("system:serviceaccount:team:few") == "system:serviceaccount:team:few"
    assert account_name("system:kube-scheduler") == "system:kube-scheduler"
