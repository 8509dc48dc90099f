"""The rules of training-operator that we keep, and its bugs that we must not repeat, one per row.

Each row names the test that proves it, and fails if that test is renamed or removed. Rules that fit
no other file have their test below.
"""

# ruff: noqa: E501 - one row per line reads best
from __future__ import annotations

import ast
from functools import cache

import pytest

from kubekit.objects.kinds import POD_DISRUPTION_BUDGETS
from muster.contract.pod_groups import VOLCANO_POD_GROUPS
from muster.operator.decision_types import DeleteJob, Requeue, Settings
from tests.muster.operator.builders import Model, manifest, replica
from tests.repository import ROOT

RULES = {
    # Versions and shapes
    "array replicaSpecs, default role": "the_array_form_is_read_and_its_first_role_is_a_chief",
    "roles in any letter case": "a_role_may_be_written_in_any_letter_case",
    "terminationPolicy.chief": "a_termination_policy_names_the_chief",
    "schedulerName of the whole job": "the_scheduler_of_the_whole_job_is_given_to_each_template",
    "flat and nested policies": "policies_may_be_flat_or_nested",
    "nested wins": "the_nested_policy_wins",
    "phase and state": "the_first_version_also_has_a_phase_and_a_state",
    "invalid in the first version": "an_invalid_job_of_the_first_version_has_a_failed_phase_until_it_is_corrected",
    "every version read back whole": "a_manifest_of_any_version_is_read_back_whole_through_every_other_and_runs",
    "invalid spec": "an_invalid_manifest_is_rejected_with_the_path_and_a_hint",
    "invalid while it runs": "a_job_made_invalid_while_it_runs_continues_as_it_was",
    "invalid spec never stops the operator": "junk_in_any_field_is_accepted_or_rejected_with_the_fields_name",
    "template restartPolicy ignored with a warning": "a_warning_about_the_manifest_is_emitted_once",
    # Names, labels, ports
    "pod, labels, owner": "a_pod_belongs_to_its_job_and_carries_its_gang",
    "job-role master": "the_leading_replica_carries_the_masters_label",
    "headless service": "a_service_is_headless_and_publishes_pods_that_are_not_ready",
    "port by name": "each_role_has_the_port_named_in_its_template",
    # TF_CONFIG
    "TF_CONFIG": "the_tf_config_of_a_worker_lists_all_replicas",
    "master key": "the_tf_config_of_a_master_names_it_master",
    "evaluator in or out": "the_evaluator_is_in_the_cluster_unless_the_job_says_no",
    "dynamic workers": "dynamic_workers_know_only_the_peers_they_connect_to",
    "dynamic workers without PS": "dynamic_workers_without_parameter_servers_get_null",
    "none for one replica": "a_single_replica_gets_no_tf_config",
    "last, and only where it trains": "tf_config_comes_last_and_only_in_the_container_that_trains",
    "cluster domain": "the_cluster_domain_of_the_operator_is_appended",
    # Order of one reconcile
    "managedBy": "a_job_of_another_operator_is_left_alone",
    "deletionTimestamp": "a_job_being_deleted_is_left_alone",
    "adoption": "an_orphan_with_the_jobs_labels_is_adopted",
    "adoption of what a former job left": "objects_that_a_former_job_left_behind_are_adopted",
    "release": "a_pod_that_loses_its_labels_is_released_and_the_job_waits_for_its_name",
    "finished jobs": "a_finished_job_creates_nothing",
    "suspend and resume": "suspending_deletes_everything_and_resuming_recreates_it",
    "scale": "workers_are_added_and_removed",
    "gang before pods": "services_and_the_gang_come_before_the_pods",
    # Failure and completion
    "restart policies and exit codes": "a_failed_worker_restarts_or_fails_the_job",
    "any role's failure": "a_replica_of_any_role_that_fails_for_good_fails_the_job",
    "chief decides": "with_a_chief_only_the_chief_decides",
    "worker 0 decides": "a_job_succeeds_when_its_first_worker_does",
    "AllWorkers": "all_workers_must_succeed_if_the_job_says_so",
    "dynamic workers may fail": "dynamic_workers_may_fail_without_failing_the_job",
    "backoffLimit": "restarts_in_place_and_by_replacement_count_together",
    "deadline": "a_deadline_has_a_timer_and_deletes_running_pods_whatever_the_policy",
    "cleanPodPolicy None": "the_policy_none_keeps_everything",
    "cleanPodPolicy Running": "the_policy_running_keeps_finished_pods_and_their_services",
    "cleanPodPolicy Running takes Pending too": "the_policy_running_deletes_pending_pods_too",
    "ttl": "a_job_is_deleted_when_its_ttl_is_over",
    "ttl while suspended": "a_suspended_job_does_not_expire",
    # Conditions
    "condition table": "conditions_follow_one_another",
    "same again": "the_same_condition_again_changes_nothing_not_even_the_message",
    "transition time": "a_new_reason_alone_keeps_the_time_of_the_transition",
    "every event": "an_event_is_emitted_once",
    "few events": "an_ordinary_job_emits_few_events",
    "every metric": "jobs_and_objects_are_counted_in_metrics",
    "service events, ExitedWithCode": "events_have_the_reasons_types_and_words_of_training_operator",
    "startTime of a suspended job": "a_job_that_is_created_suspended_has_no_start_time_until_it_is_resumed",
    "managedBy immutable": "the_controller_of_a_job_is_chosen_when_it_is_created",
    "outcome and counts": "the_outcome_and_the_counts_of_a_job_are_one_write",
    "exit codes in events": "an_event_names_the_exit_code_of_a_failed_pod",
    # Gangs
    "object per dialect": "each_dialect_has_its_object",
    "marks per dialect": "each_dialect_marks_the_pods",
    "minMember, queue, priority": "the_policy_of_the_job_shapes_its_group",
    "minResources": "min_resources_are_the_sum_of_the_requests_of_the_first_members",
    "flag and annotation": "gang_scheduling_can_be_off_by_default_and_on_for_one_job",
    "quota": "a_gang_that_a_quota_refuses_is_deleted_and_created_whole_later",
    # MPI
    "sizing of v1alpha1": "a_single_template_is_sized_by_its_units",
    "launcher after workers": "the_launcher_waits_until_all_workers_are_ready",
    "hostfile and agent": "the_config_volume_holds_the_files_that_mpirun_needs",
    "discover_hosts.sh": "the_discovery_script_lists_the_ready_workers",
    "cleanPodPolicy All and the launcher": "the_policy_all_deletes_the_launcher_of_v1_too",
    "cleanPodPolicy All and a launcher that is a batch Job": "the_policy_all_keeps_the_launcher_that_mpi_operator_runs_as_a_job",
    "backoffLimit of the launcher": "restarts_of_the_launcher_in_place_count_for_the_backoff_limit",
    "launcher with GPUs in the hostfile": "a_launcher_with_gpus_is_the_first_host_of_v1",
    "rights": "the_launcher_may_run_commands_in_its_own_workers_only",
    "kubectl delivery": "kubectl_is_delivered_if_an_image_is_given",
    "ssh": "with_ssh_the_launcher_starts_at_once_with_keys_and_host_names",
    "WaitForWorkersReady": "with_ssh_the_launcher_waits_if_the_job_requests_it",
    "implementations": "each_mpi_implementation_gets_its_own_variables",
    # PyTorch and JAX
    "ranks": "a_master_and_its_workers_know_their_ranks",
    "elastic": "an_elastic_job_has_a_rendezvous",
    "elastic success": "one_worker_of_an_elastic_job_is_enough_for_success",
    "init container": "workers_wait_for_their_master_in_an_init_container_if_an_image_is_given",
    "coordinator": "jax_processes_know_their_coordinator",
    # Host network
    "ports of their own": "each_replica_has_a_port_of_its_own_that_all_others_know",
    "ports in use": "ports_in_use_are_skipped",
}

FAULTS = {
    "deadline fires only on another event": "a_deadline_ends_a_job_although_nothing_else_happens",
    "ttl fires only on another event": "a_finished_job_is_deleted_when_its_ttl_is_over",
    "any satisfied expectation lets all through": "late_watches_create_no_pod_twice_and_count_no_restart_twice",
    "Succeeded and Failed both true": "a_chief_that_succeeded_is_not_undone_by_a_worker_that_failed",
    "recreated pods not counted": "recreated_pods_count_for_the_backoff_limit",
    "services outlive their pods": "a_service_without_a_pod_is_deleted_too",
    "PodGroup written at every reconcile": "an_unchanged_group_is_not_written_again",
    "PodGroup churn after the end": "nothing_is_written_twice_about_a_job_that_ended",
    "budget selects pods by a label they lack": "a_budget_selects_the_pods_of_its_job",
    "pods kept at a limit lose their logs": "at_a_limit_running_pods_are_deleted_and_finished_pods_stay",
    "eviction fails the job": "pods_ended_by_the_cluster_are_replaced_whatever_the_policy_and_not_counted",
    "evicted MPI worker fails the job": "an_evicted_worker_does_not_fail_the_job",
    "launcher in the gang it waits for": "the_gang_of_an_mpi_job_is_its_workers",
    "parameter servers alone never end": "a_job_of_parameter_servers_alone_succeeds_when_all_do",
    "missing CRD leaves the job silent": "a_cluster_without_group_crds_still_runs_gangs",
    "status of another operator stops the job": "a_status_with_junk_of_another_writer_is_corrected",
    "one replica gets no group": "a_job_of_one_replica_has_a_group",
    "same name again is held up": "a_job_of_the_same_name_right_after_a_deletion_is_not_held_up",
    "pods back after collection": "a_pod_garbage_collected_with_its_job_is_not_recreated",
    "names too long or with dots": "a_name_is_checked_by_the_longest_name_derived_from_it",
    "finished jobs fill the queue": "finished_jobs_are_never_written_to",
    "the same warning at every reconcile": "an_event_that_repeats_is_one_event_written_at_growing_intervals",
    "gang waits without a word": "the_status_repeats_the_schedulers_reason_why_the_gang_waits",
    "one worker dies, the others hang": "the_whole_gang_restarts_if_the_job_says_so_and_counts_once",
}


@cache
def known() -> frozenset[str]:
    """The names of all tests of jobs, control and operator that contain an assertion."""
    tests = ROOT / "tests"
    folders = (tests / "kubekit/control", tests / "muster/jobs", tests / "muster/operator")
    files = [path for folder in folders for path in folder.rglob("test_*.py")]
    trees = [ast.parse(path.read_text()) for path in files]
    return frozenset(
        node.name
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and any(isinstance(inner, ast.Assert) for inner in ast.walk(node))
    )


@pytest.mark.parametrize("row", [*RULES, *FAULTS])
def test_every_row_has_its_test(row: str) -> None:
    assert f"test_{(RULES | FAULTS)[row]}" in known()


@pytest.mark.parametrize("role", ["Chief", "Master", "Worker", "PS", "Evaluator"])
def test_a_replica_of_any_role_that_fails_for_good_fails_the_job(role: str) -> None:
    model = Model(manifest(roles={"Worker": replica(2), role: replica(1)}))
    model.settle()
    model.run()
    model.exit(f"j-{role.lower()}-0", 1)
    model.settle()

    assert model.conditions()[-1] == "Failed"
    failure = model.status["failure"]
    assert (failure["code"], failure["role"], failure["count"]) == ("ReplicasFailed", role, 1)


@pytest.mark.parametrize(
    ("roles", "leading"),
    [
        ({"Worker": replica(2)}, "j-worker-0"),
        ({"Worker": replica(2), "Chief": replica(1)}, "j-chief-0"),
        ({"Worker": replica(1), "Master": replica(1)}, "j-master-0"),
    ],
)
def test_the_leading_replica_carries_the_masters_label(
    roles: dict[str, object], leading: str
) -> None:
    model = Model(manifest(roles=roles))
    model.settle()

    label = "training.kubeflow.org/job-role"
    marked = [n for n, pod in model.manifests.items() if label in pod["metadata"]["labels"]]
    assert marked == [leading]


def test_the_policy_running_deletes_pending_pods_too() -> None:
    model = Model(manifest(runPolicy={"cleanPodPolicy": "Running"}))
    model.settle()
    model.exit("j-worker-0", 0)
    model.settle()

    assert sorted(model.pods) == ["j-worker-0"]


def test_a_suspended_job_does_not_expire() -> None:
    model = Model(manifest(runPolicy={"ttlSecondsAfterFinished": 1, "suspend": True}))
    model.settle()
    model.later(3600)

    assert not [a for a in model.decide() if isinstance(a, DeleteJob | Requeue)]


def test_nothing_is_written_twice_about_a_job_that_ended() -> None:
    model = Model(manifest())
    model.settle()
    model.exit("j-worker-0", 0)
    model.settle()
    events = list(model.events)
    assert (VOLCANO_POD_GROUPS.resource, "j") not in model.objects

    model.later(60)
    model.run("j-worker-1", phase="Succeeded")
    model.step()  # the counts

    assert model.step() == []
    assert model.events == events


def test_a_budget_selects_the_pods_of_its_job() -> None:
    model = Model(manifest(), Settings(dialect="pdb"))
    model.settle()

    budget = model.objects[(POD_DISRUPTION_BUDGETS.resource, "j")]["spec"]
    wanted = budget["selector"]["matchLabels"].items()
    assert all(wanted <= pod["metadata"]["labels"].items() for pod in model.manifests.values())
    assert budget["minAvailable"] == len(model.pods)


def test_a_job_of_one_replica_has_a_group() -> None:
    model = Model(manifest(roles={"Worker": replica(1)}))
    model.settle()

    assert model.objects[(VOLCANO_POD_GROUPS.resource, "j")]["spec"]["minMember"] == 1
