"""Properties that hold whatever happens to a job's pods: decisions are idempotent and settle."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings, strategies as st

from kubekit.objects.kinds import PODS
from kubekit.objects.meta import Raw
from muster.operator.decision_types import Delete, Requeue, Settings
from tests.muster.operator.builders import Model, manifest, replica

RESTARTS = st.sampled_from(["Always", "OnFailure", "Never", "ExitCode"])
DIALECTS = st.sampled_from(["auto", "volcano", "kube-batch", "pdb", "coscheduling", "native"])
CONTAINERS = {"TFJob": "tensorflow", "PyTorchJob": "pytorch", "JAXJob": "jax", "MPIJob": "mpi"}


@st.composite
def jobs(draw: st.DrawFn) -> Raw:
    kind = draw(st.sampled_from(sorted(CONTAINERS)))
    container = CONTAINERS[kind]

    def role(most: int = 3, **spec: Any) -> Raw:
        return replica(draw(st.integers(1, most)), draw(RESTARTS), container, **spec)

    roles: Raw = {"Worker": role(hostNetwork=draw(st.booleans()))}
    if kind == "TFJob" and draw(st.booleans()):
        roles["PS"] = role()
    if kind == "TFJob" and draw(st.booleans()):
        roles["Chief"] = role(1)
    if kind == "PyTorchJob" and draw(st.booleans()):
        roles["Master"] = role(1)
    if kind == "MPIJob":
        roles["Launcher"] = role(1)
    policy = {
        "cleanPodPolicy": draw(st.sampled_from(["All", "Running", "None"])),
        "backoffLimit": draw(st.none() | st.integers(0, 3)),
        "activeDeadlineSeconds": draw(st.none() | st.integers(1, 100)),
        "ttlSecondsAfterFinished": draw(st.none() | st.integers(0, 100)),
    }
    raw = manifest(kind, roles, runPolicy={k: v for k, v in policy.items() if v is not None})
    if draw(st.booleans()):
        raw["metadata"]["annotations"] = {"muster.dev/restart": "gang"}
    return raw


HAPPENINGS = st.lists(
    st.tuples(
        st.sampled_from(
            ["run", "exit 0", "exit 1", "exit 137", "evict", "delete", "collect", "time",
             "restart", "vanish", "drain", "suspend", "resume", "scale", "refuse", "allow"]
        ),
        st.integers(0, 9),
    ),
    max_size=25,
)  # fmt: skip


def happen(model: Model, event: str, which: int) -> None:
    """Apply an event to the job or to one of its pods."""
    match event:
        case "collect":
            model.collect()
        case "time":
            model.later(which * 10)
        case "suspend" | "resume":
            policy = {**model.raw["spec"]["runPolicy"], "suspend": event == "suspend"}
            model.edit(runPolicy=policy)
        case "scale":
            field = model.job.job_kind.replicas_field
            roles = model.raw["spec"][field]
            worker = {**roles["Worker"], "replicas": which % 4 + 1}
            model.edit(**{field: {**roles, "Worker": worker}})
        case "refuse" | "allow":
            model.extra["quota_refusal"] = "exceeded quota" if event == "refuse" else ""
        case _:
            names = sorted(name for name, pod in model.pods.items() if not pod.finished)
            if names:
                happen_to(model, names[which % len(names)], event, which)


def happen_to(model: Model, name: str, event: str, which: int) -> None:
    match event.split():
        case ["exit", code]:
            container = CONTAINERS[model.raw["kind"]]
            model.exit(name, int(code), container, restarts=which % 2)
        case ["evict"]:
            model.pod(name, phase="Failed", reason="Evicted")
        case ["restart"]:
            count = 1 + sum(row.restart_count for row in model.pods[name].status.container_statuses)
            row = {"name": CONTAINERS[model.raw["kind"]], "restartCount": count}
            model.run(name, containerStatuses=[row])
        case ["vanish"]:
            del model.pods[name]
        case ["drain"]:
            model.request_deletion(name)
            model.exit(name, 0, CONTAINERS[model.raw["kind"]])
        case ["delete"]:
            model._do(Delete(PODS, name, model.pods[name].metadata.uid))
        case _:
            model.run(name)


def steady(model: Model) -> None:
    """Apply decisions until no action is left; only host ports need a second decision."""
    for _ in range(3):
        if model.deleted or not model.step():
            return
    raise AssertionError(f"still not steady: {model.decide()}")


@settings(max_examples=300)
@given(jobs(), DIALECTS, HAPPENINGS)
def test_a_decision_after_its_actions_are_applied_contains_only_timers(
    raw: Raw, dialect: str, happenings: list[tuple[str, int]]
) -> None:
    model = Model(raw, Settings(dialect=dialect))
    for event, which in [("time", 0), *happenings]:
        happen(model, event, which)
        if model.deleted:
            return
        before = set(model.services)
        model.step()
        if set(model.services) != before:
            model.step()  # Pods on the host's network wait for their services' ports.
        again = model.decide()
        replaced = dialect == "native" and event == "scale"
        assert model.deleted or replaced or all(isinstance(a, Requeue) for a in again), (
            event,
            again,
        )
        steady(model)


@settings(max_examples=200)
@given(jobs(), HAPPENINGS)
def test_a_job_never_both_succeeds_and_fails_and_its_outcome_never_changes(
    raw: Raw, happenings: list[tuple[str, int]]
) -> None:
    model = Model(raw)
    outcome: str | None = None
    for event, which in happenings:
        happen(model, event, which)
        if model.deleted:
            return
        model.step()
        ends = [type_ for type_ in model.conditions() if type_ in ("Succeeded", "Failed")]
        assert len(ends) <= 1
        if outcome is not None:
            assert ends == [outcome]
        outcome = ends[0] if ends else None


@settings(max_examples=100)
@given(jobs(), HAPPENINGS)
def test_a_finished_job_creates_nothing(raw: Raw, happenings: list[tuple[str, int]]) -> None:
    model = Model(raw)
    for event, which in happenings:
        finished = any(type_ in ("Succeeded", "Failed") for type_ in model.conditions())
        created = model.uids
        happen(model, event, which)
        if model.deleted:
            return
        model.step()
        assert not finished or model.uids == created


GROWTH = ["run", "exit 0", "collect", "suspend", "resume", "scale", "refuse", "allow"]


@settings(max_examples=200)
@given(jobs(), st.lists(st.tuples(st.sampled_from(GROWTH), st.sampled_from([0, 2, 4, 6, 8]))))
def test_a_job_whose_pods_only_run_and_end_well_is_never_restarting(
    raw: Raw, happenings: list[tuple[str, int]]
) -> None:
    raw["spec"]["runPolicy"].pop("ttlSecondsAfterFinished", None)
    model = Model(raw)
    for event, which in happenings:
        if event == "scale" and which % 4 + 1 < model.job.count("Worker"):
            continue  # Fewer workers: one that runs may be deleted.
        happen(model, event, which)
        model.step()
        assert "Restarting" not in model.conditions()
