"""Which limits nodes enforce, as they publish it."""

from __future__ import annotations

from kubekit.objects import enforced_limits

WHY = "no control group is delegated to this user"
ENFORCING = {"muster.dev/cpu-limits": "enforced", "muster.dev/memory-limits": "enforced"}
OTHER = {"muster.dev/cpu-limits": f"not enforced: {WHY}", "muster.dev/memory-limits": "enforced"}


def test_a_node_that_does_not_enforce_a_limit_outweighs_the_others() -> None:
    for nodes in ([ENFORCING, OTHER], [OTHER, ENFORCING]):
        published = enforced_limits.enforcement(nodes)

        assert published == {"cpu": f"not enforced: {WHY}", "memory": "enforced"}
        assert enforced_limits.unenforced(published, ["memory", "cpu"]) == {"cpu": WHY}
        assert enforced_limits.unenforced(published, ["memory"]) == {}


def test_nodes_of_a_kubernetes_cluster_publish_nothing() -> None:
    assert enforced_limits.enforcement([{"other": "x"}]) == {}
    assert enforced_limits.unenforced({}, ["cpu", "memory"]) == {}


def test_resources_with_the_same_reason_are_named_together() -> None:
    assert enforced_limits.in_words({"cpu": "a", "memory": "a"}) == (
        "cpu and memory limits are not enforced: a"
    )
    assert enforced_limits.in_words({"cpu": "a", "memory": "b"}) == (
        "cpu limits are not enforced: a; memory limits are not enforced: b"
    )
