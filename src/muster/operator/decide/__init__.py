"""Decisions about one job: pure functions from a job and its observed objects to actions.

Reading order: decide (the sequence of all steps), job_outcome (success, failure or restart, from
the pods) with pod_failure, job_limits, backoff and gang_restart, job_conditions (how conditions
follow one another), missing_objects (objects that must exist) with gang_object, adoption,
invalid_spec, waiting_reason.
"""
