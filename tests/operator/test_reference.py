"""The rules that the operator keeps and the faults of others that it must not repeat, one per row.

Each row names the test that shows it. A test that is renamed or removed is missed here; rows
without a better place have their test below.
"""

# ruff: noqa: E501 - one row per line reads best
from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from muster.api.kinds import POD_DISRUPTION_BUDGETS, VOLCANO_POD_GROUPS
from muster.operator.actions import DeleteJob, Requeue
from muster.operator.settings import Settings
from tests.operator.builders import Model, manifest, replica

RULES = {
    # Versions and shapes
    "array replicaSpecs, default role": "the_array_form_is_read_and_its_first_role_is_a_chief",
    "roles in any letter case": "a_role_may_be_written_in_any_letter_case",
    "terminationPolicy.chief": "a_termination_policy_names_the_chief",
    "schedulerName of the whole job": "the_scheduler_of_the_whole_job_is_given_to_each_template",
    "flat and nested policies": "policies_may_be_flat_or_nested",
    "nested wins": "the_nested_policy_wins",
    "phase and state": "the_first_version_also_has_a_phase_and_a_state",
    "invalid in the first version": "clients_of_the_first_version_read_it_as_a_phase_until_it_is_mended",
    "every version read back whole": "a_manifest_of_any_version_is_read_back_whole_through_every_other_and_runs",
    "invalid spec": "a_bad_manifest_is_refused_with_the_path_and_a_hint",
    "invalid while it runs": "a_job_made_senseless_while_it_runs_goes_on_as_it_was",
    "invalid spec never stops the operator": "junk_in_any_place_is_either_understood_or_refused_by_name",
    "template restartPolicy ignored with a warning": "a_warning_about_the_manifest_is_told_once",
    # Names, labels, ports
    "pod, labels, owner": "a_pod_belongs_to_its_job_and_carries_its_gang",
    "job-role master": "the_leading_replica_carries_the_masters_label",
    "headless service": "a_service_is_headless_and_publishes_pods_that_are_not_ready",
    "port by name": "each_role_has_the_port_named_in_its_template",
    # TF_CONFIG
    "TF_CONFIG": "a_worker_is_told_of_everyone",
    "master key": "a_master_is_called_master",
    "evaluator in or out": "the_evaluator_is_in_the_cluster_unless_the_job_says_no",
    "dynamic workers": "dynamic_workers_are_told_only_of_whom_they_talk_to",
    "dynamic workers without PS": "dynamic_workers_without_parameter_servers_are_told_null",
    "none for one replica": "a_lone_replica_gets_none",
    "last, and only where it trains": "it_comes_last_and_only_to_the_container_that_trains",
    "cluster domain": "the_cluster_domain_of_the_operator_is_appended",
    # Order of one look
    "managedBy": "a_job_of_another_operator_is_left_alone",
    "deletionTimestamp": "a_job_being_deleted_is_left_alone",
    "adoption": "an_orphan_with_the_jobs_labels_is_adopted",
    "adoption of what a former job left": "what_a_former_job_left_behind_is_adopted",
    "release": "a_pod_whose_labels_were_taken_is_let_go_and_its_name_waited_for",
    "finished jobs": "a_finished_job_makes_nothing_new",
    "suspend and resume": "suspending_takes_everything_away_and_resuming_brings_it_back",
    "scale": "workers_are_added_and_taken_away",
    "gang before pods": "services_and_the_gang_come_before_the_pods",
    # Failure and completion
    "restart policies and exit codes": "a_failed_worker_restarts_or_fails_the_job",
    "any role's failure": "a_replica_of_any_role_that_fails_for_good_fails_the_job",
    "chief decides": "with_a_chief_only_the_chief_decides",
    "worker 0 decides": "a_job_succeeds_when_its_first_worker_does",
    "AllWorkers": "all_workers_must_succeed_if_the_job_says_so",
    "dynamic workers may fail": "dynamic_workers_may_fail_without_failing_the_job",
    "backoffLimit": "restarts_in_place_and_by_replacement_count_together",
    "deadline": "a_deadline_has_a_timer_and_ends_what_runs_whatever_the_policy",
    "cleanPodPolicy None": "cleaning_nothing_keeps_everything",
    "cleanPodPolicy Running": "cleaning_what_runs_keeps_what_has_ended_and_its_service",
    "cleanPodPolicy Running takes Pending too": "cleaning_what_runs_takes_what_waits_too",
    "ttl": "a_job_that_outlived_its_time_is_deleted",
    "ttl while suspended": "a_suspended_job_does_not_expire",
    # Conditions
    "condition table": "conditions_follow_one_another",
    "same again": "the_same_again_changes_nothing_not_even_the_message",
    "transition time": "a_new_reason_alone_keeps_the_time_of_the_transition",
    "every event": "an_event_is_told_once",
    "few events": "an_ordinary_life_is_told_in_few_words",
    "every metric": "what_becomes_of_jobs_and_their_objects_is_counted",
    "exit codes told": "a_failed_pod_is_told_of_with_its_code",
    # Gangs
    "object per dialect": "each_dialect_has_its_object",
    "marks per dialect": "each_dialect_marks_the_pods",
    "minMember, queue, priority": "the_policy_of_the_job_shapes_its_group",
    "minResources": "the_least_resources_are_the_sum_of_what_the_first_members_ask_for",
    "flag and annotation": "gang_scheduling_can_be_off_for_all_and_on_for_one",
    "quota": "a_gang_that_a_quota_refuses_is_taken_back_and_comes_whole_later",
    # MPI
    "sizing of v1alpha1": "one_template_is_sized_by_its_units",
    "launcher after workers": "the_launcher_waits_until_all_workers_are_ready",
    "hostfile and agent": "the_config_volume_holds_what_mpirun_needs",
    "discover_hosts.sh": "hosts_that_come_and_go_are_discovered",
    "rights": "the_launcher_may_run_commands_in_its_own_workers_only",
    "kubectl delivery": "kubectl_is_delivered_if_an_image_is_given",
    "ssh": "by_ssh_the_launcher_starts_at_once_with_keys_and_names",
    "WaitForWorkersReady": "by_ssh_the_launcher_waits_if_asked_to",
    "implementations": "each_implementation_is_told_in_its_own_words",
    # PyTorch and JAX
    "ranks": "a_master_and_its_workers_know_their_ranks",
    "elastic": "an_elastic_job_has_a_rendezvous",
    "elastic success": "one_worker_of_an_elastic_job_is_enough_for_success",
    "init container": "workers_wait_for_their_master_in_an_init_container_if_an_image_is_given",
    "coordinator": "jax_processes_know_their_coordinator",
    # Host network
    "ports of their own": "each_has_a_port_of_its_own_and_everyone_is_told",
    "ports in use": "ports_in_use_are_passed_over",
}

FAULTS = {
    "deadline fires only on another event": "a_deadline_ends_a_job_although_nothing_else_happens",
    "ttl fires only on another event": "a_finished_job_goes_when_its_time_is_up",
    "any satisfied expectation lets all through": "watches_that_are_late_lead_to_no_pod_twice_and_no_restart_counted_twice",
    "Succeeded and Failed both true": "a_chief_that_succeeded_is_not_undone_by_a_worker_that_failed",
    "recreated pods not counted": "recreated_pods_count_for_the_backoff_limit",
    "services outlive their pods": "a_service_whose_pod_is_gone_is_cleaned_too",
    "PodGroup written at every look": "a_group_that_has_what_it_should_is_not_written_again",
    "PodGroup churn after the end": "nothing_is_done_or_said_twice_about_a_job_that_ended",
    "budget selects pods by a label they lack": "a_budget_selects_the_pods_of_its_job",
    "pods kept at a limit lose their logs": "at_a_limit_what_runs_ends_and_what_has_ended_keeps_its_log",
    "eviction fails the job": "what_the_cluster_took_is_replaced_whatever_the_policy_and_not_counted",
    "evicted MPI worker fails the job": "an_evicted_worker_does_not_fail_the_job",
    "launcher in the gang it waits for": "the_gang_is_the_workers",
    "parameter servers alone never end": "a_job_of_parameter_servers_alone_succeeds_when_all_do",
    "missing CRD leaves the job silent": "a_cluster_without_group_crds_still_runs_gangs",
    "status of another operator stops the job": "a_status_that_another_wrote_is_mended",
    "one replica gets no group": "a_job_of_one_replica_has_its_group",
    "same name again is held up": "a_job_of_the_same_name_right_after_is_not_held_up",
    "pods back after collection": "a_pod_collected_with_its_job_is_not_brought_back",
    "names too long or with dots": "a_name_is_judged_by_the_longest_name_made_from_it",
    "finished jobs fill the queue": "finished_jobs_are_never_written_to",
    "the same warning at every look": "an_event_that_repeats_is_one_event_written_at_growing_intervals",
    "gang waits without a word": "the_status_repeats_why_the_gang_waits",
    "one worker dies, the others hang": "the_whole_gang_restarts_if_the_job_says_so_and_counts_once",
}


@cache
def known() -> frozenset[str]:
    """The names of all tests that assert something themselves: of jobs, control and operator."""
    tests = Path(__file__).parents[1]
    folders = (tests / "jobs", tests / "control", tests / "operator")
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
    assert f"1 {role} replica(s) failed." in model.status["conditions"][-1]["message"]


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


def test_cleaning_what_runs_takes_what_waits_too() -> None:
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


def test_nothing_is_done_or_said_twice_about_a_job_that_ended() -> None:
    model = Model(manifest())
    model.settle()
    model.exit("j-worker-0", 0)
    model.settle()
    said = list(model.events)
    assert (VOLCANO_POD_GROUPS.resource, "j") not in model.objects

    model.later(60)
    model.run("j-worker-1", phase="Succeeded")

    assert model.step() == []
    assert model.events == said


def test_a_budget_selects_the_pods_of_its_job() -> None:
    model = Model(manifest(), Settings(dialect="pdb"))
    model.settle()

    budget = model.objects[(POD_DISRUPTION_BUDGETS.resource, "j")]["spec"]
    wanted = budget["selector"]["matchLabels"].items()
    assert all(wanted <= pod["metadata"]["labels"].items() for pod in model.manifests.values())
    assert budget["minAvailable"] == len(model.pods)


def test_a_job_of_one_replica_has_its_group() -> None:
    model = Model(manifest(roles={"Worker": replica(1)}))
    model.settle()

    assert model.objects[(VOLCANO_POD_GROUPS.resource, "j")]["spec"]["minMember"] == 1
