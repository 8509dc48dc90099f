"""Decisions about one job: pure functions from a job and its observed objects to actions.

Reading order: job_decision (the sequence of all steps), job_outcome (success, failure or restart,
from the pods) with pod_failure and restarts, job_conditions (how conditions follow one another),
owned_objects (objects that must exist), job_end.

Kept apart because the decision in one module would have 1,700 lines.
"""
