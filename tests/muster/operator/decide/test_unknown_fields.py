"""The event about unknown fields: all of them in one, once per generation of the job."""

from __future__ import annotations

from tests.muster.operator.builders import Model, manifest, replica


def events(model: Model) -> list[tuple[str, str]]:
    return [(e.type, e.message) for e in model.events if e.reason == "UnknownField"]


def test_unknown_fields_give_one_event_per_generation() -> None:
    worker = {**replica(2), "replica": 3}
    model = Model(manifest(roles={"Worker": worker}, runPolcy={}))
    model.settle()
    message = (
        "unknown fields: spec.tfReplicaSpecs.Worker.replica (did you mean replicas?), "
        "spec.runPolcy (did you mean runPolicy?)"
    )
    assert events(model) == [("Warning", message)]

    model.run()
    model.settle()
    assert len(events(model)) == 1, "the same generation is not reported again"

    del model.raw["spec"]["runPolcy"]
    model.raw["metadata"]["generation"] = 2
    model.settle()
    assert events(model)[1:] == [
        ("Warning", "unknown field spec.tfReplicaSpecs.Worker.replica (did you mean replicas?)")
    ]


def test_a_job_without_unknown_fields_gives_no_event() -> None:
    model = Model(manifest())
    model.settle()
    model.raw["metadata"]["generation"] = 2
    model.settle()

    assert events(model) == []
