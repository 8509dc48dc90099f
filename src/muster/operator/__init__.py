"""The job operator: jobs -> pods, services, gangs and status.

Reading order: action_types (the writes it can order, as values), observed_job (the input of one
decision), settings, decide/ (pure: job and observed objects -> actions), build/ (manifests of
objects of a job), frameworks/ (the rules of each kind of job), observe/ (informers and our own
latest writes), act/ (actions -> API calls), reconcile (one job: observe, decide, act), run (the
daemon), metrics.
"""
