"""The decisions in the life of a job, and the order of their actions."""

from __future__ import annotations

import msgspec

from kubekit.objects.kinds import PODS, SERVICES
from muster.contract.pod_groups import VOLCANO_POD_GROUPS
from muster.operator.decision_types import Create
from tests.muster.operator.builders import Model, env, manifest, replica

GROUP = (VOLCANO_POD_GROUPS.resource, "j")


def test_a_job_that_is_created_suspended_has_no_start_time_until_it_is_resumed() -> None:
    """Queueing systems such as Kueue read the field as: the job was started."""
    model = Model(manifest(runPolicy={"suspend": True, "activeDeadlineSeconds": 60}))
    model.settle()
    assert model.conditions() == ["Created", "Suspended"]
    assert "startTime" not in model.status
    model.later(3600)
    model.settle()
    assert "startTime" not in model.status
    assert model.view.duration(model.now).total_seconds() == 0

    model.edit(runPolicy={"suspend": False, "activeDeadlineSeconds": 60})
    model.settle()
    assert model.status["startTime"] == "2026-01-02T04:04:05Z"
    assert "earlierSeconds" not in model.status
    assert model.conditions() == ["Created", "Suspended(False)"]
    model.later(30)
    assert model.view.duration(model.now).total_seconds() == 30


def test_services_and_the_gang_come_before_the_pods() -> None:
    model = Model(manifest())

    actions = model.step()

    created = [a.kind.resource for a in actions if isinstance(a, Create)]
    pods, services = ["pods"] * 3, ["services"] * 3
    assert created == [*services, VOLCANO_POD_GROUPS.resource, *pods]
    assert sorted(model.pods) == ["j-ps-0", "j-worker-0", "j-worker-1"]
    assert sorted(model.services) == ["j-ps-0", "j-worker-0", "j-worker-1"]
    assert model.conditions() == ["Created"]
    assert model.step() == []


def test_a_service_is_headless_and_publishes_pods_that_are_not_ready() -> None:
    model = Model(manifest())
    model.settle()

    service = model.services["j-worker-1"]

    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is True
    assert service["spec"]["ports"] == [{"name": "tfjob-port", "port": 2222}]
    assert service["spec"]["selector"] == {
        "training.kubeflow.org/operator-name": "tfjob-controller",
        "training.kubeflow.org/job-name": "j",
        "training.kubeflow.org/replica-type": "worker",
        "training.kubeflow.org/replica-index": "1",
    }


def test_a_pod_belongs_to_its_job_and_carries_its_gang() -> None:
    model = Model(manifest())
    model.settle()

    pod = model.manifests["j-worker-0"]

    assert pod["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "kubeflow.org/v1",
            "kind": "TFJob",
            "name": "j",
            "uid": "job-uid",
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    assert pod["metadata"]["labels"]["training.kubeflow.org/job-role"] == "master"
    assert pod["metadata"]["annotations"] == {
        "scheduling.k8s.io/group-name": "j",
        "volcano.sh/task-spec": "worker",
        "muster.dev/cluster-size": "ps=1,worker=2",
    }
    assert pod["spec"]["schedulerName"] == "muster"
    assert pod["spec"]["restartPolicy"] == "Never"
    assert model.objects[GROUP]["spec"]["minMember"] == 3
    assert model.objects[GROUP]["spec"]["minTaskMember"] == {"ps": 1, "worker": 2}


def test_suspending_deletes_everything_and_resuming_recreates_it() -> None:
    model = Model(manifest())
    model.settle()
    model.run()
    model.settle()

    model.edit(runPolicy={"suspend": True})
    model.settle()
    assert model.conditions() == ["Created", "Running(False)", "Suspended"]
    assert not model.pods
    assert not model.services
    assert not model.objects

    model.later(100)
    model.edit(runPolicy={"suspend": False})
    model.settle()
    model.run()
    model.settle()
    assert model.conditions() == ["Created", "Suspended(False)", "Running"]
    assert model.status["startTime"] == "2026-01-02T03:05:45Z"
    assert [e.reason for e in model.events] == ["TFJobSuspended", "JobTerminated", "TFJobResumed"]


def test_the_seconds_before_each_suspension_are_added_up() -> None:
    model = Model(manifest())
    model.settle()
    for active, suspended in ((30, 100), (12, 7)):
        model.later(active)
        model.edit(runPolicy={"suspend": True})
        model.settle()
        model.later(suspended)
        model.settle()
        model.edit(runPolicy={"suspend": False})
        model.settle()

    assert model.status["earlierSeconds"] == 42
    assert model.status["startTime"] == "2026-01-02T03:06:34Z"


def test_a_job_that_is_created_suspended_was_not_active_before() -> None:
    model = Model(manifest(runPolicy={"suspend": True}))
    model.settle()
    model.later(100)
    model.edit(runPolicy={"suspend": False})
    model.settle()

    assert "earlierSeconds" not in model.status


def test_workers_are_added_and_removed() -> None:
    model = Model(manifest())
    model.settle()
    model.edit(tfReplicaSpecs={"Worker": replica(4), "PS": replica(1)})
    model.settle()
    assert sum("worker" in name for name in model.pods) == 4
    assert model.objects[GROUP]["spec"]["minMember"] == 5

    model.edit(tfReplicaSpecs={"Worker": replica(1), "PS": replica(1)})
    model.settle()
    assert sorted(model.pods) == ["j-ps-0", "j-worker-0"]
    assert sorted(model.services) == ["j-ps-0", "j-worker-0"]
    assert model.objects[GROUP]["spec"]["minMember"] == 2


def test_a_job_of_another_operator_is_left_alone() -> None:
    model = Model(manifest(runPolicy={"managedBy": "kueue.x-k8s.io/multikueue"}))

    assert model.step() == []


def test_a_job_being_deleted_is_left_alone() -> None:
    raw = manifest()
    raw["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z"

    assert Model(raw).step() == []


def test_the_status_repeats_the_schedulers_reason_why_the_gang_waits() -> None:
    model = Model(manifest())
    model.settle()
    why = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "2 short",
    }
    model.pod("j-worker-1", phase="Pending", conditions=[why])
    model.settle()
    assert model.status["waiting"] == {"reason": "Unschedulable", "message": "2 short"}

    model.run()
    model.settle()
    assert "waiting" not in model.status


def test_the_status_repeats_the_place_in_line_that_the_scheduler_wrote_last() -> None:
    model = Model(manifest())
    model.settle()
    why = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "short"}
    for name, place, at in (("j-worker-0", "9/9", "09"), ("j-worker-1", "2/7", "10")):
        line = {"type": "muster.dev/InLine", "status": "True", "message": place}
        line["lastTransitionTime"] = f"2026-01-01T{at}:00:00Z"
        model.pod(name, phase="Pending", conditions=[why, line])
    model.settle()

    waiting = {"reason": "Unschedulable", "message": "short", "place": 2, "inLine": 7}
    assert model.status["waiting"] == waiting


def test_the_pod_keeps_all_fields_of_the_template() -> None:
    worker = replica(1, schedulerName="kube-batchd", nodeSelector={"a": "b"})
    worker["template"]["metadata"] = {"labels": {"x": "y"}, "annotations": {"m": "n"}}
    model = Model(manifest(roles={"Worker": worker}))
    model.settle()

    pod = model.manifests["j-worker-0"]

    assert pod["spec"]["schedulerName"] == "kube-batchd"
    assert pod["spec"]["nodeSelector"] == {"a": "b"}
    assert pod["metadata"]["labels"]["x"] == "y"
    assert pod["metadata"]["annotations"]["m"] == "n"
    assert "TF_CONFIG" not in env(pod)


def test_a_warning_about_the_manifest_is_emitted_once() -> None:
    model = Model(manifest(roles={"Worker": replica(1, name="main")}))
    model.settle()
    model.run()
    model.settle()

    assert [event.reason for event in model.events] == ["UnusualContainerName"]


def test_a_job_without_replicas_says_that_nothing_is_to_run() -> None:
    model = Model(manifest(roles={"Worker": replica(0)}))
    model.settle()
    assert model.status["waiting"]["reason"] == "NoReplicas"

    model.edit(tfReplicaSpecs={"Worker": replica(1)})
    model.settle()
    assert "waiting" not in model.status
    assert sorted(model.pods) == ["j-worker-0"]


def test_a_large_job_is_created_in_batches_and_every_service_before_any_pod() -> None:
    model = Model(manifest(roles={"Worker": replica(600)}))
    portions = []
    while creations := [action for action in model.step() if isinstance(action, Create)]:
        portions.append({kind: sum(a.kind == kind for a in creations) for kind in (SERVICES, PODS)})

    assert [row[SERVICES] for row in portions] == [250, 250, 100, 0, 0]
    assert [row[PODS] for row in portions] == [0, 0, 250, 250, 100]
    assert len(model.pods) == 600


def test_the_largest_job_is_created_in_batches_too() -> None:
    model = Model(manifest(roles={"Worker": replica(10_000)}))
    for _ in range(5):
        model.step()
    model.services = {name: {"metadata": {"name": name}} for name in map(_worker, range(10_000))}
    model.step()

    assert len(model.pods) == 250


def _worker(index: int) -> str:
    return f"j-worker-{index}"


def test_a_pod_without_a_numeric_index_does_not_stop_the_job() -> None:
    model = Model(manifest(roles={"Worker": replica(2)}))
    model.settle()
    pod = model.pods["j-worker-0"]
    labels = {**pod.metadata.labels, "training.kubeflow.org/replica-index": "abc"}
    meta = msgspec.structs.replace(pod.metadata, labels=labels)
    model.pods["j-worker-0"] = msgspec.structs.replace(pod, metadata=meta)
    model.run()
    model.settle()

    assert model.conditions() == ["Created", "Running"]


def test_a_service_has_each_port_once_per_protocol() -> None:
    ports = [
        {"name": "dns", "containerPort": 53},
        {"name": "dns-udp", "containerPort": 53, "protocol": "UDP"},
        {"containerPort": 53},
        {"containerPort": 2222, "protocol": "UDP"},
    ]
    container = {"name": "tensorflow", "image": "i", "ports": ports}
    roles = {"Worker": replica(1, containers=[container])}
    model = Model(manifest(roles=roles))
    model.settle()

    assert model.services["j-worker-0"]["spec"]["ports"] == [
        {"name": "tfjob-port", "port": 2222},
        {"name": "dns", "port": 53},
        {"name": "dns-udp", "port": 53, "protocol": "UDP"},
        {"name": "port-2222-udp", "port": 2222, "protocol": "UDP"},
    ]
