"""How owners of pods are drawn: looks that stay, and letters beside the colour."""

from __future__ import annotations

import pytest

from kubekit.objects.core import Container, Pod, PodSpec, ResourceRequirements
from muster.web.views.owner_colours import COLOURS, Looks, Owner, initials, owner_of, requests_of
from tests.muster.web.objects import pod


def jobs(*names: str) -> list[Pod]:
    return [pod(f"{name}-0", job=name) for name in names]


def colour(looks: Looks, name: str) -> str:
    return looks.of(Owner("default", "TFJob", name)).partition(" ")[0]


def test_few_jobs_all_have_different_colours() -> None:
    names = [f"job-{number}" for number in range(COLOURS)]
    looks = Looks().with_pods(jobs(*names))

    assert len({colour(looks, name) for name in names}) == COLOURS


def test_jobs_of_one_colour_differ_in_pattern() -> None:
    names = [f"job-{number}" for number in range(2 * COLOURS)]
    looks = Looks().with_pods(jobs(*names))

    same = [looks.of(Owner("default", "TFJob", name)) for name in names]
    assert len(set(same)) == len(same)


def test_a_job_keeps_its_look_while_others_come_and_go() -> None:
    first = Looks().with_pods(jobs("b", "c"))
    before = first.of(Owner("default", "TFJob", "c"))
    later = first.with_pods(jobs("a", "b", "c", "d")).with_pods(jobs("a", "c"))

    assert later.of(Owner("default", "TFJob", "c")) == before


def test_pods_of_no_job_are_grey() -> None:
    assert Looks().of(Owner("default", "ReplicaSet", "dns")) == "job-7"
    assert owner_of(pod("alone")) == Owner("default", "Pod", "alone")


@pytest.mark.parametrize(
    ("name", "letters"),
    [("resnet-50", "R5"), ("bert", "BE"), ("x", "X"), ("", "?"), ("--", "?"), ("<b>", "B")],
)
def test_initials(name: str, letters: str) -> None:
    assert initials(name) == letters


def test_requests_count_sidecars_and_overhead_and_forgive_nonsense() -> None:
    one = ResourceRequirements(limits={"nvidia.com/gpu": 1}, requests={"cpu": "500m"})
    sidecar = Container(
        resources=ResourceRequirements(requests={"cpu": 1}), restart_policy="Always"
    )
    first = Container(resources=ResourceRequirements(requests={"cpu": 64}))
    spec = PodSpec(
        containers=(Container(resources=one),),
        init_containers=(sidecar, first),
        overhead={"cpu": "100m"},
    )
    assert requests_of(Pod(spec=spec)) == {"nvidia.com/gpu": 1, "cpu": 1600}
    nonsense = ResourceRequirements(requests={"cpu": "<script>"})
    assert requests_of(Pod(spec=PodSpec(containers=(Container(resources=nonsense),)))) == {}
