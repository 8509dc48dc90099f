"""`arena get` lists objects of any kind in the server's columns."""

from __future__ import annotations

import pytest

from kubekit.objects.kinds import PODS
from kubekit.objects.meta import Key
from muster.contract.job_kinds import MPIJOBS, TFJOBS
from tests.muster.cli.place import TEMPLATE, Place


def test_objects_of_any_kind_are_listed_in_the_servers_columns(place: Place) -> None:
    body = {"metadata": {"name": "p"}, **TEMPLATE}
    place.client.create(PODS.read_as(dict), body, namespace=place.namespace)

    lines = place.arena("get", "pods")[1].splitlines()

    assert lines[0].split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert lines[1].split()[:4] == ["p", "0/1", "Pending", "0"]
    assert place.arena("get", "po", "-o", "name")[1] == "pod/p\n"
    assert place.arena("get", "pods", "-A")[1].split()[0] == "NAMESPACE"
    assert "NODE" in place.arena("get", "pods", "-o", "wide")[1].splitlines()[0].split()
    assert place.arena("get", "pods", "-l", "a=b", "-o", "name")[1].strip() == ""


@pytest.mark.parametrize("word", ["crds", "roles", "clusterroles", "rolebindings", "sc"])
def test_kinds_of_the_cluster_are_listed_too(place: Place, word: str) -> None:
    code, out, _ = place.arena("get", word)

    assert code == 0
    assert out.startswith("NAME ")


def test_get_all_lists_the_jobs_and_their_objects(place: Place) -> None:
    place.job("j")
    body = {"metadata": {"name": "p"}, **TEMPLATE}
    place.client.create(PODS.read_as(dict), body, namespace=place.namespace)

    assert place.arena("get", "all", "-o", "name")[1].split() == ["tfjob/j", "pod/p"]
    jobs, pods = place.arena("get", "all")[1].split("\n\n")
    assert jobs.splitlines()[1].startswith("j ")
    assert pods.splitlines()[1].startswith("p ")
    assert place.arena("get", "all", "-o", "json")[0] == 2


@pytest.mark.parametrize("word", ["nodes", "events", "tfjobs", "svc", "pytorchjobs", "pvc", "jobs"])
def test_a_kind_without_objects_is_a_header_and_no_error(place: Place, word: str) -> None:
    code, out, _ = place.arena("get", word)

    assert code == 0
    assert len(out.splitlines()) == 1


def test_jobs_created_with_kubectl_are_shown_like_others(place: Place) -> None:
    place.job("bare")

    assert place.arena("get", "jobs")[1].splitlines()[1].split()[:3] == ["bare", "PENDING", "TFJOB"]
    assert place.arena("get", "tfjobs", "bare")[0] == 0


def test_two_jobs_of_one_name_are_distinguished_by_their_type(place: Place) -> None:
    place.job("x")
    roles = {"Launcher": {"template": TEMPLATE}, "Worker": {"template": TEMPLATE}}
    body = {"metadata": {"name": "x"}, "spec": {"mpiReplicaSpecs": roles}}
    place.client.create(MPIJOBS, body, namespace=place.namespace)

    for verb in ("get", "explain", "suspend", "delete", "wait", "logs"):
        code, _, err = place.arena(verb, "x")
        assert code == 1
        assert "error: there are 2 training jobs named x: tfjob, mpijob\n" in err
        assert "--type tfjob, or tfjob/x instead of x." in err

    assert "Trainer:     TFJOB" in place.arena("get", "x", "--type", "tfjob")[1]
    assert "Trainer:     MPIJOB" in place.arena("get", "mpijob/x")[1]
    assert place.arena("delete", "x", "--type", "mpi")[0] == 0
    assert "Trainer:     TFJOB" in place.arena("get", "x")[1]


def test_jobs_are_listed_by_their_labels(place: Place) -> None:
    for name in ("a", "b"):
        place.job(name)
    place.client.patch(TFJOBS, Key(place.namespace, "b"), {"metadata": {"labels": {"x": "y"}}})

    assert place.arena("get", "jobs", "-l", "x=y", "-o", "name")[1] == "tfjob/b\n"
    assert place.arena("get", "jobs", "-l", "x=z", "-o", "name")[1].strip() == ""


@pytest.mark.parametrize("words", [("a",), ("job", "a"), ("pods", "a"), ("nodes", "a")])
def test_labels_and_names_are_not_used_together(place: Place, words: tuple[str, ...]) -> None:
    code, _, err = place.arena("get", *words, "-l", "x=y")

    assert code == 2
    assert "-l is for a list of objects" in err
