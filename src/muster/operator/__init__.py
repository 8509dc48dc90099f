"""The job operator: jobs -> pods, services, gangs and status.

Reading order: actions (what can be done, as values), observed (what one decision looks at),
settings, decide/ (pure: what to do about a job), build/ (manifests of a job's objects), frameworks/
(what differs per kind of job), observe/ (informers and our own latest writes), act/ (actions -> API
calls), reconcile (one job: observe, decide, act), run (everything in one daemon), metrics.
"""
