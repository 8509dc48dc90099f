"""What must change for one job: pure functions from a job and its observed objects to actions.

Reading order: decide (the order of everything), outcome (what the pods say) with pod_failure,
limits, backoff and gang_restart, conditions (how conditions follow one another), ensure (objects
that must exist) with gang_object, adoption, invalid_spec, waiting_reason.
"""
